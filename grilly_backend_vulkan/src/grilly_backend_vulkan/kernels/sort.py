"""``sort``: blocks in shared memory, then merges; stable, of any length."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from grilly_backend_vulkan.kernels.support import ALL, COMPLEX, MAX_GROUPS, add, groups_for

__all__ = ["register", "sorted_keys"]

_PUSH: Final = struct.Struct("<6Q4I")
_BLOCK: Final = 512
_GROUP: Final = 256


def sorted_keys(
    stream: Any, x: Any, code: str, item: int, sizes: tuple[int, int, int], descending: bool
) -> tuple[Any, Any]:
    """Sort `x`, packed as [outer, terms, inner], along the middle axis; return sorted keys and where each came from.

    Both are scratch memory, packed as [outer, inner, terms].
    """
    outer, terms, inner = sizes
    total = math.prod(sizes)
    key = max(item, 4)
    keys, places = stream.scratch(total * key), stream.scratch(total * 4)
    push = _PUSH.pack(
        stream.address(x), 0, 0, stream.address(keys), stream.address(places), 0, outer, terms, inner, 0
    )
    blocks = -(-terms // _BLOCK) * outer * inner
    pipeline = stream.pipeline(f"sort_block_{code}", (descending,))
    stream.launch(pipeline, (min(blocks, MAX_GROUPS), 1, 1), push, [x], [keys, places])
    if terms <= _BLOCK:
        return keys, places
    spare = stream.scratch(total * key), stream.scratch(total * 4)
    merge = stream.pipeline(f"sort_merge_s{key}", ())
    width = _BLOCK
    while width < terms:
        addresses = [stream.address(v) for v in (keys, places, *spare)]
        push = _PUSH.pack(0, *addresses, 0, outer, terms, inner, width)
        stream.launch(merge, groups_for(total, _GROUP), push, [keys, places], spare)
        keys, places, spare = *spare, (keys, places)
        width *= 2
    return keys, places


def _sort(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    x, (values, index), axis = ins[0], outs, attrs["axis"]
    sizes = (math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]))
    item = x.dtype.itemsize
    _, places = sorted_keys(stream, x, x.dtype.code, item, sizes, attrs["descending"])
    push = _PUSH.pack(
        stream.address(x), 0, stream.address(places), stream.address(index), 0, stream.address(values),
        *sizes, 0,
    )  # fmt: skip
    pipeline = stream.pipeline(f"sort_finish_s{item}", ())
    stream.launch(pipeline, groups_for(math.prod(sizes), _GROUP), push, [x, places], [values, index])


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    add(kernels, "sort", _sort, ALL - COMPLEX, layout="contiguous")
