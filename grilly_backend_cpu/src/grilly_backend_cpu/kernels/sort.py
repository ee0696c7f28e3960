"""``sort``: values and the indices they came from."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_backend_cpu.kernels.support import BOOL, REALS, widened
from grilly_backend_cpu.quiet import quietly

__all__ = ["register"]


@quietly
def sort(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Stable in both directions; NaN is the greatest.

    A descending order is the ascending one of the reversed input, reversed: equal elements keep their order.
    """
    x, axis = ins[0].array, attrs["axis"]
    keys = widened(x)
    if attrs["descending"]:
        order = np.flip(np.argsort(np.flip(keys, axis), axis, kind="stable"), axis)
        order = x.shape[axis] - 1 - order
    else:
        order = np.argsort(keys, axis, kind="stable")
    outs[0].array[...] = np.take_along_axis(x, order, axis)
    outs[1].array[...] = order


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("sort", sort, dtypes=REALS | BOOL)
