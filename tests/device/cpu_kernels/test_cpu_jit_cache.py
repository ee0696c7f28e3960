"""The cache of compiled kernels: a body that changed is compiled anew, although what calls it did not change."""

from __future__ import annotations

import numpy as np
import pytest

from grilly_backend_cpu import jit

pytestmark = pytest.mark.skipif(not jit.available(), reason="needs numba")


def _one(start, stop, args):
    for i in range(start, stop):
        args[0][i] = 1.0


def _two(start, stop, args):
    for i in range(start, stop):
        args[0][i] = 2.0


def test_bodies_under_one_name_do_not_share_a_cache_file():
    """As after an upgrade: the same module and name, another body, and a driver whose own file is the same."""
    found = []
    for body in (_one, _two):
        out = np.zeros(1 << 16)
        made = jit.Jit(body, {}, "same_name")
        jit.split(made)(out.size, 1 << 10, (out,))
        found.append(out)
    assert (found[0] == 1).all() and (found[1] == 2).all()


def test_the_fingerprint_tells_code_and_what_it_takes_from_outside():
    outer = jit.Jit(lambda x: _inner(x), {}, "outer")
    found = set()
    for inner in (jit.Jit(_one, {}), jit.Jit(_two, {})):
        made = jit.Jit(outer.function, {}, "outer")
        made.replaced["_inner"] = inner
        found.add(made.fingerprint)
    assert len(found) == 2
    assert jit.Jit(_one, {}).fingerprint == jit.Jit(_one, {}).fingerprint


_inner = None
