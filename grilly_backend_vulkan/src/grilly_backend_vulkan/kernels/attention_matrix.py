"""``nn.attention`` and its gradient on cooperative matrices of 16-bit floats, with sums in float32.

Operands in float32 are taken as sums of bfloat16, of whose products the smallest are left out. Under `matmul_precision`
"high" there are two parts and three products, with an error near 2^-16 of a score. Three parts and six products lose
no more than float32 itself, and are still faster than its tiles. But what is left of infinity is not a number: where
splitting meets any, it leaves the work to the tiles.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from grilly_backend_vulkan.kernels import attention, mapping
from grilly_backend_vulkan.kernels.attention import Way

__all__ = ["WAYS", "register"]

_SUBGROUP: Final = 32
_NAME: Final = "attention_matrix{{kind}}_{code}_{{width}}"
WAYS: Final = {
    code: Way(_NAME.format(code=code), code, 8, {64: 64, 128: 128}, {64: 64, 128: 128}, subgroup=_SUBGROUP)
    for code in ("f16", "bf16")
}
#: Of float32, by precision; wider gradients than 64 are made in tiles.
SPLIT: Final = {
    precision: Way(
        _NAME.format(code=code), "f32", 8, {64: 128, 128: 128}, {64: 128}, subgroup=_SUBGROUP, parts=parts
    )
    for precision, code, parts in (("high", "high", 2), ("highest", "f32", 3))
}
_LEAST_WORK: Final = (
    1 << 29
)  # products of a head's width, below which several launches cost more than they gain


def _exactly(run: Any, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Make launches for ordinary numbers and for those that are not finite; a word tells which are idle."""
    unusual = stream.scratch(4)
    mapping.run(stream, "fill_s4", (), (unusual,), shape=(1,), strides=((1,),), scalars=bytes(4), items=(4,))
    for way in (SPLIT["highest"], attention.TILES):
        run(way, stream, outs, ins, attrs, unusual)


def _suits(way: Way, first: int, c: Any) -> bool:
    facts = c.runtime.facts
    q, v = c.ins[first], c.ins[first + 2]
    factor = way.code if way.parts == 1 else "bf16"
    return (
        q.dtype.code == way.code
        and (factor, "f32", 16, 16, 16) in facts.cooperative
        and facts.subgroup_min <= _SUBGROUP <= facts.subgroup_max
        and q.shape[3] % way.each == 0
        and v.shape[3] % way.each == 0
        and attention.fits(way, c, first)
        and (first == 0 or max(q.shape[3], v.shape[3]) <= max(way.grad_rows))
    )


def _suits_split(precision: str, first: int, c: Any) -> bool:
    q, k = c.ins[first : first + 2]
    asked = "highest" if c.policy.matmul_precision == "highest" else "high"
    work = q.size * k.shape[2]
    return asked == precision and work >= _LEAST_WORK and _suits(SPLIT[precision], first, c)


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    for name, run, first in (
        ("nn.attention", attention.forward, 0),
        ("nn.attention_vjp", attention.backward, 1),
    ):
        for way in WAYS.values():
            kernels.add(
                name, partial(run, way), dtypes={way.code, "f32"}, layout="strided", priority=1,
                when=partial(_suits, way, first),
            )  # fmt: skip
        for precision, split in (("high", partial(run, SPLIT["high"])), ("highest", partial(_exactly, run))):
            kernels.add(
                name, split, dtypes={"f32"}, layout="strided", priority=1,
                when=partial(_suits_split, precision, first),
            )  # fmt: skip
