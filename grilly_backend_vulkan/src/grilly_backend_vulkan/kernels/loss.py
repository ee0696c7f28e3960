"""``nn.cross_entropy`` with its log-softmax, and its gradient."""

from __future__ import annotations

import struct
from typing import Any, Final

from grilly_backend_vulkan.kernels.rows import lanes_for, row_groups
from grilly_backend_vulkan.kernels.support import MAX_TURNS, WIDENED

__all__ = ["register"]

_PUSH: Final = struct.Struct("<8Qq2IfI")
_REDUCTIONS: Final = {"none": 0, "sum": 1, "mean": 2}
ROWS, JOIN, GRADIENT = 0, 1, 2
_GROUP: Final = 256


def _launch(
    stream: Any, op: int, views: dict[str, Any], written: tuple[str, ...], logits: Any, attrs: dict[str, Any]
) -> None:
    names = ("to", "logits", "target", "weight", "lse", "losses", "weights", "g")
    addresses = [0 if views.get(n) is None else stream.address(views[n]) for n in names]
    rows, classes = logits.shape
    push = _PUSH.pack(
        *addresses,
        attrs["ignore_index"],
        rows,
        classes,
        attrs["label_smoothing"],
        _REDUCTIONS[attrs["reduction"]],
    )
    lanes = _GROUP if op == JOIN else lanes_for(classes)
    target = views["target"].dtype
    pipeline = stream.pipeline("cross_entropy", (op, lanes, target.itemsize, target.kind == "i"))
    groups = (1, 1, 1) if op == JOIN else row_groups(rows, lanes)
    reads = [v for n, v in views.items() if v is not None and n not in written]
    stream.launch(
        pipeline, groups, push, reads, [v for n, v in views.items() if v is not None and n in written]
    )


def _cross_entropy(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    logits, target, weight = ins
    plain = attrs["reduction"] == "none"
    losses = outs[0] if plain else stream.scratch(4 * logits.shape[0])
    lse = outs[1] if len(outs) > 1 else None
    views = {"logits": logits, "target": target, "weight": weight, "lse": lse, "losses": losses}
    _launch(stream, ROWS, views, ("lse", "losses"), logits, attrs)
    if not plain:
        views = {"to": outs[0], "target": target, "weight": weight, "losses": losses}
        _launch(stream, JOIN, views, ("to",), logits, attrs)


def _cross_entropy_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    g, logits, target, weight, lse = ins
    total = None
    if attrs["reduction"] == "mean":
        total = stream.scratch(4)
        _launch(stream, JOIN, {"to": total, "target": target, "weight": weight}, ("to",), logits, attrs)
    views = {
        "to": outs[0], "logits": logits, "target": target, "weight": weight, "lse": lse, "weights": total, "g": g,
    }  # fmt: skip
    _launch(stream, GRADIENT, views, ("to",), logits, attrs)


def _suits(place: int) -> Any:
    def when(c: Any) -> bool:
        logits = c.ins[place]
        short = 0 < logits.size < 1 << 31 and max(logits.shape) <= MAX_TURNS * _GROUP
        return short and c.attrs["reduction"] in _REDUCTIONS

    return when


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    how: dict[str, Any] = {"dtypes": {"f32"}, "layout": "contiguous", "compute": WIDENED}
    kernels.add("nn.cross_entropy", _cross_entropy, when=_suits(0), **how)
    kernels.add("nn.cross_entropy_vjp", _cross_entropy_vjp, when=_suits(1), **how)
