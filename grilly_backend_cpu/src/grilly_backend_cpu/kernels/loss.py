"""``nn.cross_entropy``, fused with its log-softmax, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.fast import loss as fast
from grilly_backend_cpu.kernels.index import checked
from grilly_backend_cpu.kernels.support import FAST, WIDE, WIDENED
from grilly_backend_cpu.quiet import quietly

__all__ = ["register"]

Array = NDArray[Any]


def _targets(
    target: Array, weight: Array | None, classes: int, ignored: int, dtype: Any
) -> tuple[Array, ...]:
    """Return kept rows, the class of each (0 if ignored) and its weight (0 if ignored).

    Raises
    ------
    IndexError
        If a class that is not ignored lies outside ``[0, classes)``.
    """
    kept = target != ignored
    safe = checked(np.where(kept, target, 0), classes) if kept.any() else np.zeros(target.shape, np.intp)
    per_row = kept.astype(dtype) if weight is None else np.where(kept, weight[safe], 0).astype(dtype)
    return kept, safe, per_row


def _reduce(losses: Array, per_row: Array, reduction: str, out: Array) -> None:
    if reduction == "none":
        np.copyto(out, losses)
        return
    total = np.add.reduce(losses, dtype=np.float64)
    out[...] = total / np.add.reduce(per_row, dtype=np.float64) if reduction == "mean" else total


@quietly
def cross_entropy(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Losses through the log-sum-exp of each row, which is the hidden output."""
    x, target = ins[0].array, ins[1].array
    weight = None if ins[2] is None else ins[2].array
    kept, safe, per_row = _targets(target, weight, x.shape[1], attrs["ignore_index"], x.dtype)
    top = np.max(x, 1, initial=-np.inf)
    lse = top + np.log(np.add.reduce(np.exp(x - top[:, None]), 1, np.float64)).astype(x.dtype)
    picked = x[np.arange(len(x)), safe] if x.size else np.zeros(len(x), x.dtype)
    losses = np.where(kept, per_row * (lse - picked), 0)
    smoothing = attrs["label_smoothing"]
    if smoothing:
        spread = lse[:, None] - x
        smooth = np.where(kept, (spread if weight is None else spread * weight).sum(1), 0)
        losses = (1 - smoothing) * losses + (smoothing / x.shape[1]) * smooth
    _reduce(losses, per_row, attrs["reduction"], outs[0].array)
    if len(outs) > 1:
        np.copyto(outs[1].array, lse)


@quietly
def cross_entropy_vjp(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Gradient for the logits; exactly 0 in ignored rows."""
    g, x, target, _, lse = (None if v is None else v.array for v in ins)
    weight = None if ins[3] is None else ins[3].array
    kept, safe, per_row = _targets(target, weight, x.shape[1], attrs["ignore_index"], x.dtype)
    share = _shares(g, per_row, kept, attrs["reduction"], x.dtype)
    p = np.exp(x - lse[:, None])
    slope = per_row[:, None] * p
    slope[np.arange(len(x)), safe] -= per_row
    smoothing = attrs["label_smoothing"]
    if smoothing:
        smooth = x.shape[1] * p - 1 if weight is None else weight.sum() * p - weight
        slope = (1 - smoothing) * slope + (smoothing / x.shape[1]) * smooth
    np.copyto(outs[0].array, np.where(kept[:, None], share[:, None] * slope, 0))


def _shares(g: Array, per_row: Array, kept: Array, reduction: str, dtype: Any) -> Array:
    """Return what the gradient of each row is multiplied with."""
    share = g / np.add.reduce(per_row, dtype=np.float64) if reduction == "mean" else g
    return np.where(kept, share, 0).astype(dtype)


@quietly
def cross_entropy_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """`cross_entropy` without label smoothing, row by row."""
    x = ins[0].array
    weight = None if ins[2] is None else ins[2].array
    _, safe, per_row = _targets(ins[1].array, weight, x.shape[1], attrs["ignore_index"], x.dtype)
    losses = np.empty(len(x), x.dtype)
    lse = outs[1].array if len(outs) > 1 else np.empty(len(x), x.dtype)
    fast.losses(x, safe, per_row, losses, lse)
    _reduce(losses, per_row, attrs["reduction"], outs[0].array)


@quietly
def cross_entropy_vjp_fast(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """`cross_entropy_vjp` without label smoothing, row by row."""
    x = ins[1].array
    weight = None if ins[3] is None else ins[3].array
    kept, safe, per_row = _targets(ins[2].array, weight, x.shape[1], attrs["ignore_index"], x.dtype)
    share = _shares(ins[0].array, per_row, kept, attrs["reduction"], x.dtype) * per_row
    fast.gradients(x, safe, share, kept, ins[4].array, outs[0].array)


def _plain(c: Any) -> bool:
    return not c.attrs["label_smoothing"] and all(s.size > 0 for s in c.ins if s is not None)


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("nn.cross_entropy", cross_entropy, dtypes=WIDE, compute=WIDENED)
    kernels.add("nn.cross_entropy_vjp", cross_entropy_vjp, dtypes=WIDE, compute=WIDENED)
    if runtime.has_numba:
        how = {"dtypes": {"f32"}, "layout": "contiguous", "priority": FAST, "when": _plain}
        kernels.add("nn.cross_entropy", cross_entropy_fast, **how)
        kernels.add("nn.cross_entropy_vjp", cross_entropy_vjp_fast, **how)
