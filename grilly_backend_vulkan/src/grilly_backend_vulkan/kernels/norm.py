"""Softmax, and layer, RMS and batch normalisation, with their gradients."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, Final

from grilly_backend_vulkan.kernels.reduce import sum_parts
from grilly_backend_vulkan.kernels.rows import ROWS, held_rows, lanes_for, row_groups
from grilly_backend_vulkan.kernels.support import MAX_GROUPS, MAX_TURNS, WIDENED, groups_for

__all__ = ["register"]

SOFTMAX: Final = {"softmax": 0, "log_softmax": 1, "softmax_vjp": 2, "log_softmax_vjp": 3}
LAYER, RMS, LAYER_VJP, RMS_VJP = 4, 5, 6, 7
_GROUP: Final = 256
_COLUMNS: Final = struct.Struct("<6Q4I")
_CHANNELS: Final = struct.Struct("<8Q3If")
_PART: Final = 64  # rows that a thread sums at least, before the sums are summed


def _at(stream: Any, view: Any) -> int:
    return 0 if view is None else stream.address(view)


def _rows(
    stream: Any, op: int, views: tuple[Any, ...], written: int, sizes: tuple[int, int, int], eps: float = 0.0
) -> None:
    """Launch ``rows``: output, x (or g), y (or x), weight, bias, mean, rstd; the places in `written` are outputs."""
    push = ROWS.pack(*(_at(stream, v) for v in views), *sizes, eps)
    writes = [v for i, v in enumerate(views) if v is not None and written >> i & 1]
    reads = [v for i, v in enumerate(views) if v is not None and not written >> i & 1]
    held = held_rows(stream, [v for v in views[:5] if v is not None], sizes)
    lanes = lanes_for(sizes[1]) if held is None else held[0]
    pipeline = (
        stream.pipeline("rows", (op, lanes)) if held is None else stream.pipeline("rows_held", (op, *held))
    )
    stream.launch(pipeline, row_groups(sizes[0], lanes), push, reads, writes)


def _softmax(op: int) -> Callable[..., None]:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        x, axis = ins[0], attrs["axis"] % len(ins[0].shape)
        inner = math.prod(x.shape[axis + 1 :])
        sizes = (math.prod(x.shape[:axis]) * inner, x.shape[axis], inner)
        second = ins[1] if len(ins) > 1 else None
        _rows(stream, op, (outs[0], x, second, None, None, None, None), 1, sizes)

    return kernel


def _sizes(x: Any, attrs: dict[str, Any]) -> tuple[int, int, int]:
    terms = math.prod(attrs["normalized_shape"])
    return math.prod(x.shape) // terms, terms, 1


def _hidden(outs: Any, i: int) -> Any:
    return outs[i] if len(outs) > i else None


def _layer_norm(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    x, weight, bias = ins
    views = (outs[0], x, None, weight, bias, _hidden(outs, 1), _hidden(outs, 2))
    _rows(stream, LAYER, views, 0b1100001, _sizes(x, attrs), attrs["eps"])


def _rms_norm(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    x, weight = ins
    eps = 2.0**-23 if attrs["eps"] is None else attrs["eps"]
    views = (outs[0], x, None, weight, None, None, _hidden(outs, 1))
    _rows(stream, RMS, views, 0b1000001, _sizes(x, attrs), eps)


def _layer_norm_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    g, x, weight, mean, rstd = ins
    sizes = _sizes(x, attrs)
    _rows(stream, LAYER_VJP, (outs[0], g, x, weight, None, mean, rstd), 1, sizes)
    _columns(stream, outs[1], outs[2], (g, x, mean, rstd), sizes)


def _rms_norm_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    g, x, weight, rstd = ins
    sizes = _sizes(x, attrs)
    _rows(stream, RMS_VJP, (outs[0], g, x, weight, None, None, rstd), 1, sizes)
    _columns(stream, outs[1], None, (g, x, None, rstd), sizes)


def _columns(
    stream: Any, weight: Any, bias: Any, given: tuple[Any, ...], sizes: tuple[int, int, int]
) -> None:
    """Launch the sums over rows that are the gradients of weight and bias."""
    rows, terms, _ = sizes
    chunks = max(1, min(rows // _PART, 512))
    targets = [weight, bias]
    if chunks > 1:
        targets = [None if t is None else stream.scratch(4 * chunks * terms) for t in targets]
    addresses = [_at(stream, v) for v in (*targets, *given)]
    push = _COLUMNS.pack(*addresses, rows, terms, chunks, -(-rows // chunks))
    reads = [v for v in given if v is not None]
    writes = [v for v in targets if v is not None]
    pipeline = stream.pipeline("norm_columns", (0, 1))
    stream.launch(pipeline, groups_for(terms * chunks, _GROUP), push, reads, writes)
    if chunks > 1:
        for out, parts in zip((weight, bias), targets, strict=True):
            if out is not None:
                sum_parts(stream, out, parts, terms, chunks)


def _channels(stream: Any, op: int, views: tuple[Any, ...], written: int, x: Any, eps: float = 0.0) -> None:
    """Launch ``channels``: output, x, g, weight, bias, mean, rstd, var."""
    batch, channels, inner = x.shape[0], x.shape[1], math.prod(x.shape[2:])
    push = _CHANNELS.pack(*(_at(stream, v) for v in views), batch, channels, inner, eps)
    writes = [v for i, v in enumerate(views) if v is not None and written >> i & 1]
    reads = [v for i, v in enumerate(views) if v is not None and not written >> i & 1]
    groups = (min(channels, MAX_GROUPS), 1, 1) if op <= 1 else groups_for(math.prod(x.shape), _GROUP)
    stream.launch(stream.pipeline("channels", (op, _GROUP)), groups, push, reads, writes)


def _batch_norm_train(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    x, weight, bias = ins
    out, mean, var = outs[:3]
    rstd = outs[3] if len(outs) > 3 else stream.scratch(4 * x.shape[1])
    _channels(stream, 0, (None, x, None, None, None, mean, rstd, var), 0b11100000, x, attrs["eps"])
    _channels(stream, 2, (out, x, None, weight, bias, mean, rstd, None), 1, x)


def _batch_norm_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    g, x, weight, mean, rstd = ins
    gx, gweight, gbias = outs
    _channels(stream, 1, (None, x, g, gweight, gbias, mean, rstd, None), 0b11000, x)
    _channels(stream, 3, (gx, x, g, gweight, gbias, mean, rstd, weight), 1, x)


def _batch_norm_eval(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    x, weight, bias, mean, var = ins
    _channels(stream, 4, (outs[0], x, None, weight, bias, mean, None, var), 1, x, attrs["eps"])


def _has_elements(c: Any) -> bool:
    """Whether there are rows, not too long for one work group, all of one type."""
    first = c.ins[0]
    same = len({s.dtype for s in c.ins if s is not None}) == 1
    return same and 0 < first.size < 1 << 31 and _longest(first.shape, c.attrs) <= MAX_TURNS * _GROUP


def _longest(shape: tuple[int, ...], attrs: dict[str, Any]) -> int:
    """Return the elements that one work group goes through."""
    if "axis" in attrs:
        axis: int = attrs["axis"]
        return shape[axis]
    if "normalized_shape" in attrs:
        return math.prod(attrs["normalized_shape"])
    return math.prod(shape) // shape[1]


_KERNELS: Final[dict[str, Callable[..., None]]] = {
    **{name: _softmax(op) for name, op in SOFTMAX.items()},
    "layer_norm": _layer_norm, "layer_norm_vjp": _layer_norm_vjp, "rms_norm": _rms_norm,
    "rms_norm_vjp": _rms_norm_vjp, "batch_norm_train": _batch_norm_train, "batch_norm_vjp": _batch_norm_vjp,
    "batch_norm_eval": _batch_norm_eval,
}  # fmt: skip


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    for name, kernel in _KERNELS.items():
        how: dict[str, Any] = {"layout": "contiguous", "when": _has_elements, "compute": WIDENED}
        kernels.add(f"nn.{name}", kernel, dtypes={"f32"}, **how)
