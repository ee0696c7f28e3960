"""``gather`` and ``scatter`` along one axis."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast import scatter as fast
from grilly_backend_cpu.kernels.support import ALL, FAST, WIDE
from grilly_backend_cpu.quiet import quietly

__all__ = ["checked", "register"]

_UFUNCS: Final = {"add": np.add, "min": np.minimum, "max": np.maximum}


def checked(index: NDArray[Any], size: int) -> NDArray[Any]:
    """Return `index` as intp after checking that it lies in ``[0, size)``.

    Raises
    ------
    IndexError
        Naming the first index outside and the size.
    """
    index = index.astype(np.intp, copy=False)
    # As unsigned numbers negative ones are the largest, so one comparison serves both ends.
    if index.size and int(index.view(np.uintp).max()) >= size:
        wrong = index[(index < 0) | (index >= size)]
        raise IndexError(f"index {int(wrong.flat[0])} is out of range for an axis of size {size}.")
    return index


def gather(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """``np.take``; the index is checked first, because a mode that clips needs no buffer."""
    x, axis = ins[0].array, attrs["axis"]
    np.take(x, checked(ins[1].array, x.shape[axis]), axis, outs[0].array, "clip")


@quietly
def scatter(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Copy, then update in the order of the index."""
    x, index, updates = (v.array for v in ins)
    axis, mode, out = attrs["axis"], attrs["mode"], outs[0].array
    index = checked(index, x.shape[axis])
    if out is not x:
        np.copyto(out, x)
    target, parts = np.moveaxis(out, axis, 0), np.moveaxis(updates, axis, 0)
    if mode != "set":
        _UFUNCS[mode].at(target, index, parts)
    elif index.size:
        # NumPy leaves open which of duplicates wins, so only the last of each is written.
        last, first_seen = np.unique(index[::-1], return_index=True)
        target[last] = parts[index.size - 1 - first_seen]


def scatter_add(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Add in the order of the index; parallel over what lies outside and inside the axis, never over the index."""
    x, index, updates = (v.array for v in ins)
    axis, out = attrs["axis"], outs[0].array
    index = checked(index, x.shape[axis])
    np.copyto(out, x)
    if updates.size:
        outer, inner = int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis + 1 :]))
        fast.add(out.reshape(outer, x.shape[axis], inner), index, updates.reshape(outer, index.size, inner))


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("gather", gather, dtypes=ALL)
    kernels.add("scatter", scatter, dtypes=ALL)
    if runtime.has_numba:
        kernels.add(
            "scatter", scatter_add, dtypes=WIDE, layout="contiguous", priority=FAST,
            when=lambda c: c.attrs["mode"] == "add",
        )  # fmt: skip
