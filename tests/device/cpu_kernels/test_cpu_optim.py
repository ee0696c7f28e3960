"""Compiled optimiser steps on the CPU against the bodies of the ops in float64, which no kernel takes."""

from __future__ import annotations

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import registry
from grilly_core.ops import optim

N = 200_000  # several blocks
STATES = {
    "adamax": ["any", "positive"], "nadam": ["any", "positive"], "radam": ["any", "positive"],
    "adagrad": ["positive"], "adadelta": ["positive", "positive"], "rmsprop": ["large"], "rprop": ["any", "positive"],
    "asgd": ["any"], "fisher": ["positive"],
}  # fmt: skip
#: The 0-d inputs.
SCALARS = {
    "adamax": (0.01, 3.0), "nadam": (0.7, 0.01, 3.0), "radam": (0.01, 30.0), "adagrad": (0.01, 3.0),
    "adadelta": (0.5,), "rmsprop": (0.01,), "rprop": (), "asgd": (0.05, 0.25, 0.01, 3.0), "fisher": (0.01, 3.0),
}  # fmt: skip


def run(name, dtype, arrays, **attrs):
    """Call the op on two parameters, the second a single number."""
    lists = [[grilly.asarray(v, dtype=dtype) for v in (a, a[:1])] for a in arrays]
    scalars = [grilly.asarray(s, dtype=dtype) for s in SCALARS[name]]
    optional = [None, None] if name == "rmsprop" else []
    outs = getattr(optim, f"{name}_step")(*lists, *optional, *scalars, **attrs)
    return [out.numpy().astype(np.float64) for out in outs]


def arrays_for(name, seed=0):
    rng = np.random.default_rng(seed)
    make = {
        "any": lambda: rng.normal(size=N),
        "positive": lambda: rng.uniform(0.1, 1.0, size=N),
        "large": lambda: rng.uniform(2.0, 3.0, size=N),
    }
    return [v.astype(np.float32) for v in (make["any"](), make["any"](), *(make[s]() for s in STATES[name]))]


@pytest.mark.parametrize("name", STATES)
def test_large_and_small_parameters(name):
    assert kernels(name)
    arrays = arrays_for(name)
    for mine, wanted in zip(run(name, "float32", arrays), run(name, "float64", arrays), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=2e-5, atol=2e-6)


def kernels(name):
    grilly.ones(1, device="cpu")
    found = registry.kernels_for("cpu").get(f"optim.{name}_step")
    assert found
    return found


@pytest.mark.parametrize("name", STATES)
def test_what_is_not_a_number_stays_so(name):
    """In the gradient or in a state: the parameter tells, and its neighbours do not."""
    for k in range(1, 2 + len(STATES[name])):
        arrays = arrays_for(name)
        arrays[k][5] = np.nan
        mine, wanted = (run(name, dtype, arrays) for dtype in ("float32", "float64"))
        assert np.isnan(wanted[0][5]) or name in ("rprop", "asgd")
        for a, b in zip(mine, wanted, strict=True):
            assert np.array_equal(np.isnan(a), np.isnan(b))
