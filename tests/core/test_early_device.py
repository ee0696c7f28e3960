"""A device that is open before the ops are imported gets the kernels of extensions all the same."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")
pytest.importorskip("grilly_ext_snn")

EARLY = """
import sys
from grilly_core.device import open_context
open_context("cpu")
assert "grilly_core.resolve" not in sys.modules, "the ops are imported already: nothing would be tested"
from grilly_core import registry
{before}
import {first}
import grilly
from grilly_ext_snn.nn.nodes import LIFNode
spikes = LIFNode(step_mode="m")(grilly.full((4, 1), 0.8))
kernels = registry.kernels_for("cpu")["snn.lif_scan"]
print(spikes.tolist(), [k.source for k in kernels], sep=";")
"""


def run(first: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Open a device, then import a module; the environment makes a missing kernel an error."""
    code = EARLY.format(first=first, before=before)
    environment = {**os.environ, "GRILLY_FALLBACK": "error"}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("first", ["grilly_ext_snn.ops.scans", "grilly_core.resolve", "grilly"])
def test_the_kernels_of_an_extension_arrive_whatever_is_imported_first(first: str) -> None:
    done = run(first)
    assert done.returncode == 0, done.stderr
    spikes, sources = done.stdout.strip().split(";")
    assert spikes == "[[0.0], [1.0], [0.0], [1.0]]"
    assert sources.count(",") == 0 and "snn" in sources, "one kernel, that of the extension"


def test_collecting_them_at_once_fails_which_is_why_they_wait() -> None:
    done = run("grilly_ext_snn.ops.scans", before="registry.expect_kernels = registry.collect_kernels")
    assert done.returncode != 0
    assert "ImportError" in done.stderr or "AttributeError" in done.stderr
