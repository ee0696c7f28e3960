"""Optimiser steps: many tensors in one launch, through a table of where they lie."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from grilly_backend_vulkan.kernels.support import MAX_GROUPS

__all__ = ["register"]

_ENTRY: Final = struct.Struct("<9Q2I")
_PUSH: Final = struct.Struct("<4Q2If6f4x")
_BLOCK: Final = 1024
_TENSORS: Final = 128  # of one launch
SGD, ADAM = 0, 1


def _launch(
    stream: Any, op: int, flags: tuple[bool, ...], sources: list[Any], targets: list[Any],
    scalars: tuple[Any, Any, Any], decay: float, numbers: list[float],
) -> None:  # fmt: skip
    """Update the tensors in turns; each of `sources` and `targets` is a list of views for each role."""
    addresses = [0 if v is None else stream.address(v) for v in scalars]
    n = len(sources[0])
    for start in range(0, n, _TENSORS):
        chosen = [i for i in range(start, min(start + _TENSORS, n)) if sources[0][i].spec.size]
        if not chosen:
            continue
        table, blocks = _table(stream, sources, targets, chosen)
        push = _PUSH.pack(stream.arguments(table), *addresses, len(chosen), blocks, decay, *numbers)
        reads = [role[i] for role in sources for i in chosen] + [v for v in scalars if v is not None]
        writes = [role[i] for role in targets for i in chosen]
        stream.launch(
            stream.pipeline("optim", (op, *flags)), (min(blocks, MAX_GROUPS), 1, 1), push, reads, writes
        )


def _table(stream: Any, sources: list[Any], targets: list[Any], chosen: list[int]) -> tuple[bytes, int]:
    rows, block = [], 0
    unused = [0] * (5 - len(sources)), [0] * (4 - len(targets))
    for i in chosen:
        size = sources[0][i].spec.size
        read, written = [stream.address(r[i]) for r in sources], [stream.address(r[i]) for r in targets]
        rows.append(_ENTRY.pack(*read, *unused[0], *written, *unused[1], size, block))
        block += -(-size // _BLOCK)
    return b"".join(rows), block


def _roles(views: Any, n: int, count: int) -> list[Any]:
    return [views[i * n : (i + 1) * n] for i in range(count)]


def _sgd_step(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    n = attrs["n"]
    extra = len(outs) > n
    flags = (extra, attrs["nesterov"], attrs["first"], attrs["maximize"])
    numbers = [attrs["momentum"], 1 - attrs["dampening"], 0, 0, 0, 0]
    roles = _roles(ins, n, 3 if extra else 2), _roles(outs, n, 2 if extra else 1)
    _launch(stream, SGD, flags, *roles, (ins[-2], None, ins[-1]), attrs["weight_decay"], numbers)


def _adam_step(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    n, beta1, beta2 = attrs["n"], attrs["beta1"], attrs["beta2"]
    if n == 0:
        return
    extra = len(outs) > 3 * n
    flags = (extra, attrs["decoupled"], False, attrs["maximize"])
    logs = [math.log(b) if b > 0 else 0.0 for b in (beta1, beta2)]
    numbers = [beta1, beta2, attrs["eps"], *logs, 0]
    roles = _roles(ins, n, 5 if extra else 4), _roles(outs, n, 4 if extra else 3)
    _launch(stream, ADAM, flags, *roles, (ins[-3], ins[-2], ins[-1]), attrs["weight_decay"], numbers)


def _plain(c: Any) -> bool:
    """Whether all is f32: half parameters go through the body, which computes in f32."""
    specs = [s for s in (*c.ins, *c.outs) if s is not None]
    return all(s.dtype.code == "f32" and s.size < 1 << 31 for s in specs)


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    how: dict[str, Any] = {"dtypes": {"f32"}, "layout": "contiguous", "when": _plain}
    kernels.add("optim.sgd_step", _sgd_step, **how)
    kernels.add("optim.adam_step", _adam_step, **how)
