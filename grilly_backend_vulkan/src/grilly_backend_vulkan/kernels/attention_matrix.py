"""``nn.attention`` and its gradient on cooperative matrices: 16-bit floats, and under `matmul_precision` also float32.

Sums are float32. Operands in float32 are taken as sums of two bfloat16, of whose products the smallest is left out: an
error near 2^-16 of the scores, at about twice the speed of the tiles in float32.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from grilly_backend_vulkan.kernels import attention
from grilly_backend_vulkan.kernels.attention import Way

__all__ = ["WAYS", "register"]

_SUBGROUP: Final = 32
_NAME: Final = "attention_matrix{{kind}}_{code}_{{width}}"
WAYS: Final = {
    code: Way(_NAME.format(code=code), code, 8, {64: 64, 128: 128}, {64: 64, 128: 128}, subgroup=_SUBGROUP)
    for code in ("f16", "bf16")
}
#: Of float32; wider gradients than 64 are made in tiles.
SPLIT: Final = Way(
    _NAME.format(code="high"), "f32", 8, {64: 128, 128: 128}, {64: 128}, subgroup=_SUBGROUP, parts=2
)


def _suits(way: Way, first: int, c: Any) -> bool:
    facts = c.runtime.facts
    q, v = c.ins[first], c.ins[first + 2]
    factor = way.code if way.parts == 1 else "bf16"
    return (
        q.dtype.code == way.code
        and (way.parts == 1 or c.policy.matmul_precision != "highest")
        and (factor, "f32", 16, 16, 16) in facts.cooperative
        and facts.subgroup_min <= _SUBGROUP <= facts.subgroup_max
        and q.shape[3] % way.each == 0
        and v.shape[3] % way.each == 0
        and attention.fits(way, c, first)
        and (first == 0 or max(q.shape[3], v.shape[3]) <= max(way.grad_rows))
    )


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    for way in (*WAYS.values(), SPLIT):
        how: dict[str, Any] = {"dtypes": {way.code, "f32"}, "layout": "strided", "priority": 1}
        for name, run, first in (("", attention.forward, 0), ("_vjp", attention.backward, 1)):
            kernels.add(f"nn.attention{name}", partial(run, way), when=partial(_suits, way, first), **how)
