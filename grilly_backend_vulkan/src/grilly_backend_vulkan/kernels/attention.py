"""``nn.attention`` and its gradient in tiles: memory grows with the positions, not with their square.

No sum is added to by two work groups, so the results do not depend on their order: the queries' gradient goes through
the keys, the gradients of keys and values go through the queries, and the scores are computed for both.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from grilly_backend_vulkan.kernels import data
from grilly_backend_vulkan.kernels.support import MAX_GROUPS, WIDENED, groups_for
from grilly_core.layout import contiguous_strides

__all__ = ["TILES", "Lines", "Way", "backward", "constants", "extras", "fits", "forward", "register", "sizes"]

_SIZES: Final = struct.Struct("<4Q6I16iI2fI")
_SPLIT: Final = struct.Struct("<2Q4I4i")
_CAUSAL: Final = {None: 0, "upper_left": 1, "lower_right": 2}


@dataclass(frozen=True)
class Way:
    """A family of shaders.

    Attributes
    ----------
    name : str
        Of the shaders, with places for ``kind`` and ``width``.
    code : str
        Type of the operands.
    each : int
        Elements that are read at a time.
    rows, grad_rows : dict
        By width of lines, the rows of a work group; as in the table of `build`.
    narrow : bool
        Whether lines of any width and alignment will do, at less speed.
    subgroup : int
        Size that the shaders build on, 0 for any.
    parts : int
        Factors of bf16 as whose sum each operand is taken; 1 for operands as they are.
    """

    name: str
    code: str
    each: int
    rows: dict[int, int]
    grad_rows: dict[int, int]
    narrow: bool = False
    subgroup: int = 0
    parts: int = 1

    def width(self, *widths: int) -> int:
        """Return the smallest width of a shader that holds lines of `widths`."""
        return next(w for w in self.rows if max(widths) <= w)


TILES: Final = Way(
    "attention{kind}_{width}", "f32", 4, {32: 128, 64: 128, 128: 128, 256: 64},
    dict.fromkeys((32, 64, 128, 256), 64), narrow=True,
)  # fmt: skip


class Lines:
    """An operand as kernels see it: lines of neighbouring elements.

    Attributes
    ----------
    view : View or scratch memory
    steps : tuple of int
        Elements from one batch, head and position to the next.
    wide : bool
        Whether `Way.each` elements at a time are aligned and wholly inside a line.
    """

    __slots__ = ("steps", "view", "wide")

    def __init__(self, stream: Any, view: Any, way: Way) -> None:
        if way.parts > 1:
            self.view, self.steps, self.wide = _split(stream, view, way.parts)
            return
        self.view, self.steps = view, tuple(view.strides[:3])
        width, each = view.shape[3], way.each
        near = width == 1 or view.strides[3] == 1
        self.wide = near and all(n % each == 0 for n in (width, view.offset, *self.steps))
        if not (near if way.narrow else self.wide):
            self.view = data.copy_packed(stream, view, (0, 1, 2, 3))
            self.steps = contiguous_strides(view.shape)[:3]
            self.wide = width % each == 0


def _split(stream: Any, view: Any, parts: int) -> tuple[Any, tuple[int, ...], bool]:
    """Copy f32 to scratch memory, each line as `parts` lines of bf16; see ``attention_split.comp``."""
    *outer, width = view.shape
    eights = width // 8
    total = math.prod(outer) * eights
    target = stream.scratch(16 * total * parts)
    near = width == 1 or view.strides[3] == 1
    wide = near and all(n % 4 == 0 for n in (view.offset, *view.strides[:3]))
    push = _SPLIT.pack(stream.address(target), stream.address(view), eights, total, *outer[1:], *view.strides)
    stream.launch(stream.pipeline("attention_split", (wide,)), groups_for(total, 256), push, [view], [target])
    return target, contiguous_strides((*outer, width * parts))[:3], True


def _scale(attrs: dict[str, Any], width: int) -> float:
    scale = attrs["scale"]
    return scale if scale is not None else 1.0 / math.sqrt(width) if width else 1.0


def sizes(stream: Any, attrs: dict[str, Any], q: Any, k: Any, v: Any, lines: Any, extra: Any) -> int:
    """Return the address of what ``attention.glsl`` calls `Sizes`; `lines` are those of q, k, v and the gradient."""
    mask = extra[0]
    at = [0 if x is None else stream.address(x) for x in extra]
    steps = (0,) * 4 if mask is None else tuple(
        0 if n == 1 else s for n, s in zip(mask.shape, mask.strides, strict=True)
    )  # fmt: skip
    p = attrs["dropout"]
    packed = _SIZES.pack(
        *at, attrs["relative"], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3],
        *(s for x in lines for s in x.steps), *steps, math.floor(p * 2.0**32), _scale(attrs, q.shape[3]),
        1.0 / (1.0 - p), q.shape[0],
    )  # fmt: skip
    return stream.arguments(packed)  # type: ignore[no-any-return]


def constants(way: Way, attrs: dict[str, Any], lines: Any, extra: Any) -> tuple[Any, ...]:
    """Return what shaders are specialised to: constants 0 to 3 of ``attention.glsl``, then whether lines are wide."""
    mask, lengths, _ = extra
    kind = 0 if mask is None else {"b1": 1, "f32": 2}.get(mask.dtype.code, 3)
    found = (_CAUSAL[attrs["causal"]], kind, lengths is not None, attrs["dropout"] > 0)
    return (*found, all(x.wide for x in lines)) if way.narrow else found


def _packed(stream: Any, view: Any) -> Any:
    """Return an operand that kernels expect packed."""
    if view is None or view.spec.contiguous:
        return view
    return data.copy_packed(stream, view, tuple(range(len(view.shape))))


def extras(stream: Any, ins: Any) -> tuple[Any, ...]:
    """Return mask, lengths and random state as kernels read them."""
    mask, lengths, state = ins
    return mask, _packed(stream, lengths), _packed(stream, state)


def _launch(
    stream: Any, pipeline: Any, groups: int, views: Any, written: int, sizes: int, extra: Any
) -> None:
    """Launch with the addresses of `views`, of which the first `written` are outputs, and of the sizes."""
    across = min(groups, MAX_GROUPS)
    push = struct.pack(f"<{len(views) + 1}Q", *(0 if v is None else stream.address(v) for v in views), sizes)
    reads = [v for v in (*views[written:], *extra) if v is not None]
    writes = [v for v in views[:written] if v is not None]
    stream.launch(pipeline, (across, -(-groups // across), 1), push, reads, writes)


def forward(way: Way, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Write the output, and the hidden one if it is wanted."""
    q, k, v = ins[:3]
    extra = extras(stream, ins[3:])
    lines = tuple(Lines(stream, x, way) for x in (q, k, v))
    width = way.width(q.shape[3], v.shape[3]) if way.subgroup else way.width(v.shape[3])
    name = way.name.format(kind="", width=width)
    pipeline = stream.pipeline(name, constants(way, attrs, lines, extra), way.subgroup)
    groups = q.shape[0] * q.shape[1] * -(-q.shape[2] // way.rows[width])
    views = (outs[0], outs[1] if len(outs) > 1 else None, *(x.view for x in lines))
    table = sizes(stream, attrs, q, k, v, (*lines, lines[0]), extra)
    _launch(stream, pipeline, groups, views, 2, table, extra)


def backward(way: Way, stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Write the gradients of q, k and v."""
    g, q, k, v = ins[:4]
    out, log_sum = (_packed(stream, x) for x in ins[4:6])
    extra = extras(stream, ins[6:])
    lines = tuple(Lines(stream, x, way) for x in (q, k, v, g))
    at_q, at_k, at_v, at_g = (x.view for x in lines)
    along = stream.scratch(4 * math.prod(q.shape[:3]))
    width = way.width(q.shape[3], v.shape[3])
    queries = (outs[0], along, at_g, at_q, at_k, at_v, out, log_sum)
    keys = (outs[1], outs[2], along, at_g, at_q, at_k, at_v, log_sum)
    # in this order: the queries' launch leaves what the keys' needs in `along`
    for kind, x, views in (("_query_grad", q, queries), ("_key_grad", k, keys)):
        name = way.name.format(kind=kind, width=width)
        pipeline = stream.pipeline(name, constants(way, attrs, lines, extra), way.subgroup)
        groups = x.shape[0] * x.shape[1] * -(-x.shape[2] // way.grad_rows[width])
        _launch(stream, pipeline, groups, views, 2, sizes(stream, attrs, q, k, v, lines, extra), extra)


def fits(way: Way, c: Any, first: int) -> bool:
    """Whether there are keys and queries, lines are not too wide, and places within a head are 32-bit numbers."""
    q, k, v = c.ins[first : first + 3]
    mask, lengths, _ = c.ins[-3:]
    kinds = {s.dtype for s in (*c.ins[: first + 3], *c.outs[:1])}
    return (
        len(kinds) == 1
        and (mask is None or mask.dtype in kinds or mask.dtype.code in ("b1", "f32"))
        and (lengths is None or lengths.dtype.code == "i32")
        and min(q.size, k.size, v.size) > 0
        and max(q.shape[3], v.shape[3]) <= max(way.rows)
        and all(abs(s.strides[2]) * s.shape[2] < 1 << 31 for s in (q, k, v))
        and c.attrs["dropout"] < 1
    )


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    how: dict[str, Any] = {"dtypes": {"f32"}, "layout": "strided", "compute": WIDENED}
    kernels.add("nn.attention", partial(forward, TILES), when=lambda c: fits(TILES, c, 0), **how)
    kernels.add("nn.attention_vjp", partial(backward, TILES), when=lambda c: fits(TILES, c, 1), **how)
