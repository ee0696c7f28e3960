"""``fft.dft`` of complex64: passes in shared memory, several of them for long lines, Bluestein's method for the rest.

A length whose prime factors are 2, 3, 5 and 7 is a product of one to three `pieces` that fit shared memory. With
n = n1 n2, element n2 j1 + j2 goes to n1 k2 + k1: transforms over j1 in place, twiddle factors, then transforms over j2
whose results are written transposed. All other lengths become convolutions of a power of two.
"""

from __future__ import annotations

import functools
import math
import struct
from typing import Any, Final

from grilly_backend_vulkan.kernels.support import MAX_GROUPS, MAX_TURNS, groups_for

__all__ = ["pieces", "radices", "register"]

_PUSH: Final = struct.Struct("<2Q14If4x")
_CHIRP_PUSH: Final = struct.Struct("<3Q4If4x")
_LARGEST: Final = 2048  # complex numbers; two copies fill 32 KiB
_ROWS: Final = 512  # numbers of whole rows in a group: small groups, of which many run at once, are faster
_PASSES: Final = 7
_LONGEST: Final = 1 << 26
_ITEM: Final = 8
_THREADS: Final = 256


@functools.lru_cache(maxsize=1024)
def radices(n: int) -> tuple[int, ...] | None:
    """Return the passes that make a transform of length `n`, or None.

    Examples
    --------
    >>> radices(48), radices(1), radices(11)
    ((3, 4, 4), (1,), None)
    """
    rest, found = n, []
    for r in (7, 5, 3):
        while rest % r == 0:
            found.append(r)
            rest //= r
    twos = rest.bit_length() - 1
    if rest != 1 << twos:
        return None
    eights, left = divmod(twos, 3)
    if left == 1 and eights:  # 8 * 2 as 4 * 4
        eights, left = eights - 1, 4
    found += [8] * eights + [4] * (left // 2) + [2] * (left % 2)
    return tuple(found or [1]) if len(found) <= _PASSES else None


@functools.lru_cache(maxsize=1024)
def pieces(n: int) -> tuple[int, ...] | None:
    """Return lengths that fit shared memory and whose product is `n`: as few and as equal as can be, or None.

    Examples
    --------
    >>> pieces(1000), pieces(1 << 20), pieces(8192 * 11)
    ((1000,), (1024, 1024), None)
    """
    rest = n
    for r in (2, 3, 5, 7):
        while rest % r == 0:
            rest //= r
    if rest != 1:
        return None
    for count in (1, 2, 3):
        found = _split(n, count)
        if found is not None:
            return found
    return None


def _split(n: int, count: int) -> tuple[int, ...] | None:
    if count == 1:
        return (n,) if n <= _LARGEST and radices(n) else None
    ideal = n ** (1 / count)
    for d in sorted(
        (d for d in range(2, _LARGEST + 1) if n % d == 0), key=lambda d: abs(math.log(d / ideal))
    ):
        rest = _split(n // d, count - 1) if radices(d) else None
        if rest is not None:
            return (d, *rest)
    return None


def _lines(stream: Any, views: Any, n: int, sizes: Any, reading: Any, writing: Any, how: Any) -> None:
    """Transform lines of length n.

    `sizes` are those of (lines, inner, a, b), `reading` and `writing` the strides of (element, outer, a, b), and
    `how` is (inverse, twiddle length or 0, columns that share a factor, scale).
    """
    out, x = views
    inverse, whole, part, scale = how
    lines, inner = sizes[0], sizes[1]
    across = inner > 1 or sizes[2] > 1
    at_once = max(1, min(min(_LARGEST // n, 16) if across else _ROWS // n, lines))
    plain = not across and sizes[3] == 1 and reading[:2] == writing[:2] == (1, n)
    passes = radices(n) or ()
    constants = (n, at_once, across, inverse, whole > 0, *passes, *(1,) * (_PASSES - len(passes)), plain)
    push = _PUSH.pack(
        stream.address(out), stream.address(x), *sizes, *reading, *writing, whole, part, scale,
    )  # fmt: skip
    groups = (min(-(-lines // at_once), MAX_GROUPS), 1, 1)
    stream.launch(stream.pipeline("fft", constants), groups, push, [x], [out])


def _smooth(stream: Any, out: Any, x: Any, shape: tuple[int, int, int], inverse: bool, scale: float) -> None:
    """Transform (outer, n, inner) by the pieces of n."""
    outer, n, inner = shape
    parts = pieces(n) or ()
    source, before, rest = x, 1, n
    for i, m in enumerate(parts[:-1]):  # lines (outer, pieces done, the rest and inner)
        rest //= m
        wide = rest * inner
        target = source if i else stream.scratch(outer * n * inner * _ITEM)
        strides = (wide, m * wide, 0, 0)
        sizes = (outer * before * wide, wide, 1, 1)
        _lines(stream, (target, source), m, sizes, strides, strides, (inverse, m * rest, inner, 1.0))
        source, before = target, before * m
    m = parts[-1]
    first, second = (*parts[:-1], 1, 1)[:2]
    reading = (inner, n * inner, second * m * inner, m * inner)
    writing = (before * inner, n * inner, inner, first * inner)
    sizes = (outer * before * inner, inner, first, second)
    _lines(stream, (out, source), m, sizes, reading, writing, (inverse, 0, 1, scale))


def _chirped(stream: Any, mode: int, inverse: bool, views: Any, sizes: Any, scale: float = 1.0) -> None:
    to, source, row = views
    addresses = [0 if v is None else stream.address(v) for v in views]
    n, _, padded, rows = sizes
    items = (1 if mode == 1 else rows) * (n if mode == 3 else padded)
    pipeline = stream.pipeline("chirp", (mode, inverse))
    push = _CHIRP_PUSH.pack(*addresses, *sizes, scale)
    stream.launch(
        pipeline, groups_for(items, _THREADS), push, [v for v in (source, row) if v is not None], [to]
    )


def _bluestein(
    stream: Any, out: Any, x: Any, shape: tuple[int, int, int], inverse: bool, scale: float
) -> None:
    """Transform (outer, n, inner) of any n as a convolution with a chirp."""
    outer, n, inner = shape
    rows, padded = outer * inner, 1 << (2 * n - 2).bit_length()
    sizes = (n, inner, padded, rows)
    period, row = (stream.scratch(padded * _ITEM) for _ in range(2))
    _chirped(stream, 1, inverse, (period, None, None), sizes)
    _smooth(stream, row, period, (1, padded, 1), False, 1.0)
    work, other = (stream.scratch(rows * padded * _ITEM) for _ in range(2))
    _chirped(stream, 0, inverse, (work, x, None), sizes)
    _smooth(stream, other, work, (rows, padded, 1), False, 1.0)
    _chirped(stream, 2, inverse, (other, other, row), sizes)
    _smooth(stream, work, other, (rows, padded, 1), True, 1.0)
    _chirped(stream, 3, inverse, (out, work, None), sizes, scale / padded)


def _dft(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    out, x, axis = outs[0], ins[0], attrs["axis"]
    shape = (math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]))
    if out.spec.size == 0:
        return
    transform = _smooth if pieces(shape[1]) else _bluestein
    transform(stream, out, x, shape, attrs["inverse"], attrs["scale"])


def _suits(c: Any) -> bool:
    size, n = c.ins[0].size, c.ins[0].shape[c.attrs["axis"]]
    return 0 < n <= _LONGEST and size < 1 << 29 and size // n <= MAX_GROUPS * MAX_TURNS


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("fft.dft", _dft, dtypes={"c64"}, layout="contiguous", when=_suits)
