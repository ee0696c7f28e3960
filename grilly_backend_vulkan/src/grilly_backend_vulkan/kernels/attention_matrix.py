"""``nn.attention`` and its gradient in 16-bit floats on cooperative matrices, with sums in float32."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from grilly_backend_vulkan.kernels import attention
from grilly_backend_vulkan.kernels.attention import Way

__all__ = ["WAYS", "register"]

_SUBGROUP: Final = 32
WAYS: Final = {
    code: Way(
        f"attention_matrix{{kind}}_{code}_{{width}}", code, 8, {64: 128, 128: 64}, {64: 64, 128: 64},
        subgroup=_SUBGROUP,
    )
    for code in ("f16", "bf16")
}  # fmt: skip


def _suits(way: Way, first: int, c: Any) -> bool:
    facts = c.runtime.facts
    q, v = c.ins[first], c.ins[first + 2]
    return (
        q.dtype.code == way.code
        and (way.code, "f32", 16, 16, 16) in facts.cooperative
        and facts.subgroup_min <= _SUBGROUP <= facts.subgroup_max
        and q.shape[3] % way.each == 0
        and v.shape[3] % way.each == 0
        and attention.fits(way, c, first)
    )


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    for code, way in WAYS.items():
        how: dict[str, Any] = {"dtypes": {code, "f32"}, "layout": "strided", "priority": 1}
        for name, run, first in (("", attention.forward, 0), ("_vjp", attention.backward, 1)):
            kernels.add(f"nn.attention{name}", partial(run, way), when=partial(_suits, way, first), **how)
