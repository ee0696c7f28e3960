"""Explicit copies: between devices and between dtypes, as an op on the tape."""

from __future__ import annotations

from typing import Any

from grilly_core import config, events
from grilly_core.device import Device, open_context
from grilly_core.dtypes import as_dtype
from grilly_core.errors import CaptureError
from grilly_core.opspec import Handle, Op, Schema
from grilly_core.tape import Node
from grilly_core.tensor import Tensor

__all__ = ["moved", "to"]

_cast = Handle("cast")


def to(x: Tensor, args: tuple[Any, ...], device: Any, dtype: Any, copy: bool) -> Tensor:
    """Return `x` on a device and in a dtype that may be given in any order, or as another tensor to follow."""
    for arg in args:
        if isinstance(arg, Tensor):
            device, dtype = arg.device, arg.dtype
        elif isinstance(arg, Device) or (isinstance(arg, str) and not _is_dtype(arg)):
            device = arg
        elif arg is not None:
            dtype = as_dtype(arg)
    result = x
    if dtype is not None and as_dtype(dtype) is not x.dtype:
        result = _cast(x, dtype=as_dtype(dtype))
    if device is not None and Device(device) != x.device:
        result = moved(result, Device(device))
    return result.clone() if copy and result is x else result


def _is_dtype(name: str) -> bool:
    try:
        as_dtype(name)
    except TypeError:
        return False
    return True


def _pulled_back(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> Any:
    return (moved(grads[0], attrs["source"]),)


_move_op: Op[Any, Any] = Op(
    "to",
    "python",
    Schema((), frozenset(), frozenset(), {}, frozenset()),
    _pulled_back,
    "",
    vjp_rule=_pulled_back,
)


def moved(x: Tensor, device: Device) -> Tensor:
    """Return a copy of `x` on another device."""
    source, target = x._value.spec.context, open_context(device)
    sink = config.current().sink
    if sink is not None and (sink.symbolic or hasattr(sink, "refuse_read")):
        raise CaptureError(
            "a copy between devices cannot be part of a captured step; move the data before calling it."
        )
    array = source.download(x._value)
    for context, direction in ((source, "out"), (target, "in")):
        if not context.host_mapped:
            events.emit(events.Transfer(direction, x.nbytes, str(context.device), "user"))
    view = target.upload(array, x.dtype)
    if x._node is None or not config.is_grad_enabled():
        return Tensor(view)
    node = Node(_move_op, {"source": x.device}, (), (x._value,), (view,), ((x._node, x._index),))
    return Tensor(view, node)
