"""Random tensors: every one a function of a generator's state, so devices agree bit for bit on the uniform ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.config import no_grad
from grilly_core.dtypes import DType, as_dtype
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.layout import broadcast_shapes
from grilly_core.ops import primitives as p
from grilly_core.ops.creation import DeviceLike, _context, _made, _shape
from grilly_core.ops.structure import concat
from grilly_core.ops.views import reshape, subview
from grilly_core.opspec import op
from grilly_core.random import Generator, default_generator
from grilly_core.tensor import Tensor

__all__ = [
    "bernoulli", "multinomial", "normal", "permutation", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm", "uniform",
]  # fmt: skip


@op("random.uniform", nondiff=True)
def _uniform(
    state: Any,
    *,
    shape: tuple[int, ...],
    low: float = 0.0,
    high: float = 1.0,
    dtype: DType = dtypes.float32,
    relative: int = 0,
) -> Tensor:
    """Uniform numbers in ``[low, high)`` on a grid of 2**-24 (2**-53 in float64)."""
    size = math.prod(shape)
    if dtype is dtypes.float64:
        bits = p.random_bits(state, size=2 * size, relative=relative)
        top, rest = (subview(bits, starts=(k,), sizes=(size,), steps=(2,)) for k in (0, 1))
        unit = (
            p.cast(p.shift_right(top, 5), dtype=dtype) * 2.0**-27
            + p.cast(p.shift_right(rest, 6), dtype=dtype) * 2.0**-53
        )
    else:
        bits = p.random_bits(state, size=size, relative=relative)
        unit = p.cast(p.shift_right(bits, 8), dtype=dtypes.float32) * 2.0**-24
    if (low, high) != (0.0, 1.0):
        unit = unit * (high - low) + low
    return reshape(p.cast(unit, dtype=dtype), shape=shape)


@_uniform.samples
def _(s: Any) -> None:
    s.case(s.state(), shape=(3, 5))
    s.case(s.state(), shape=(7,), low=-2.0, high=3.0, relative=2)


@op("random.normal", nondiff=True)
def _normal(
    state: Any,
    *,
    shape: tuple[int, ...],
    mean: float = 0.0,
    std: float = 1.0,
    dtype: DType = dtypes.float32,
    relative: int = 0,
) -> Tensor:
    """Normal numbers by the method of Box and Muller (1958)."""
    size = math.prod(shape)
    half = -(-size // 2)
    wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    bits = p.random_bits(state, size=2 * half, relative=relative)
    first, second = (subview(bits, starts=(k,), sizes=(half,), steps=(2,)) for k in (0, 1))
    radius = p.sqrt(p.log((p.cast(p.shift_right(first, 8), dtype=wide) + 1.0) * 2.0**-24) * -2.0)
    angle = p.cast(p.shift_right(second, 8), dtype=wide) * (2.0 * math.pi * 2.0**-24)
    both = concat([radius * p.cos(angle), radius * p.sin(angle)])
    drawn = subview(both, starts=(0,), sizes=(size,), steps=(1,))
    if (mean, std) != (0.0, 1.0):
        drawn = drawn * std + mean
    return reshape(p.cast(drawn, dtype=dtype), shape=shape)


@_normal.samples
def _(s: Any) -> None:
    s.case(s.state(), shape=(3, 5), tol=1e-5)
    s.case(s.state(), shape=(7,), mean=1.0, std=2.0, tol=1e-5)


@op("random.integers", nondiff=True)
def _integers(
    state: Any, *, shape: tuple[int, ...], low: int, high: int, dtype: DType = dtypes.int32, relative: int = 0
) -> Tensor:
    """Integers in ``[low, high)``: the high word of ``bits * (high - low)``, biased by at most span / 2**32."""
    span = high - low
    bits = p.random_bits(state, size=math.prod(shape), relative=relative)
    upper, lower = p.shift_right(bits, 16), p.bitwise_and(bits, 0xFFFF)
    a, b = span >> 16, span & 0xFFFF  # 32 x 32 bits in halves, since devices need no 64-bit integers
    middle = upper * b + p.shift_right(lower * b, 16) if b else p.bitwise_and(bits, 0)
    carry = p.bitwise_and(middle, 0xFFFF) + lower * a
    high_word = upper * a + p.shift_right(middle, 16) + p.shift_right(carry, 16)
    return reshape(p.cast(high_word, dtype=dtype) + low, shape=shape)


@_integers.samples
def _(s: Any) -> None:
    s.case(s.state(), shape=(3, 5), low=-4, high=9)
    s.case(s.state(), shape=(9,), low=0, high=1 << 20)


def _draw(kernel: Any, words: int, rng: Generator | None, device: DeviceLike, **attrs: Any) -> Tensor:
    context = _context(device)
    state, relative = (rng or default_generator()).take(words, context)
    return kernel(state, relative=relative, **attrs)  # type: ignore[no-any-return]


def _float_dtype(dtype: Any) -> DType:
    chosen = as_dtype(dtype or dtypes.default_float)
    if not chosen.is_floating:
        raise DTypeError(f"dtype: random floats need a floating dtype; received {chosen.name}.")
    return chosen


def uniform(
    low: float = 0.0,
    high: float = 1.0,
    shape: Any = (),
    *,
    dtype: Any = None,
    device: DeviceLike = None,
    rng: Generator | None = None,
) -> Tensor:
    """Return uniform numbers in ``[low, high)``.

    Parameters
    ----------
    low, high : float
    shape : int or sequence of int
    dtype : DType, optional
        float32 by default.
    device : Device or str, optional
    rng : Generator, optional
        The default generator if left out.
    """
    sizes, chosen = _shape(shape), _float_dtype(dtype)
    words = math.prod(sizes) * (2 if chosen is dtypes.float64 else 1)
    return _draw(_uniform, words, rng, device, shape=sizes, low=float(low), high=float(high), dtype=chosen)


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    shape: Any = (),
    *,
    dtype: Any = None,
    device: DeviceLike = None,
    rng: Generator | None = None,
) -> Tensor:
    """Return normally distributed numbers; see `uniform` for the parameters.

    Where `mean` or `std` is a tensor, each element gets its own number, and `shape` must be left out.
    """
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        return _normal_each(mean, std, shape, dtype, device, rng)
    if not std >= 0:
        raise ValueError(f"normal: std must not be negative; received {std}.")
    sizes = _shape(shape)
    words = math.prod(sizes) + 1
    return _draw(
        _normal, words, rng, device, shape=sizes, mean=float(mean), std=float(std), dtype=_float_dtype(dtype)
    )


def _normal_each(mean: Any, std: Any, shape: Any, dtype: Any, device: Any, rng: Any) -> Tensor:
    like = mean if isinstance(mean, Tensor) else std
    mean, std = as_tensor(mean, like), as_tensor(std, like)
    if _shape(shape):
        raise ValueError(
            f"normal: shape must be left out with a tensor of means or deviations; received {shape!r}."
        )
    sizes = broadcast_shapes(mean.shape, std.shape)
    kind = dtype or (like.dtype if like.dtype.is_floating else None)
    drawn = normal(0.0, 1.0, sizes, dtype=kind, device=device or like.device, rng=rng)
    result: Tensor = drawn * std + mean
    return result


def _sizes(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape


def rand(
    *shape: Any,
    dtype: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    rng: Generator | None = None,
) -> Tensor:
    """Return uniform numbers in ``[0, 1)``: ``rand(2, 3)`` or ``rand((2, 3))``."""
    return _made(uniform(0.0, 1.0, _sizes(shape), dtype=dtype, device=device, rng=rng), requires_grad)


def randn(
    *shape: Any,
    dtype: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    rng: Generator | None = None,
) -> Tensor:
    """Return standard normal numbers: ``randn(2, 3)`` or ``randn((2, 3))``."""
    return _made(normal(0.0, 1.0, _sizes(shape), dtype=dtype, device=device, rng=rng), requires_grad)


def rand_like(
    x: Any, /, *, dtype: Any = None, device: DeviceLike = None, rng: Generator | None = None
) -> Tensor:
    """Return uniform numbers with the shape of `x`, and its dtype and device unless others are given."""
    x = as_tensor(x)
    return rand(x.shape, dtype=dtype or x.dtype, device=device or x.device, rng=rng)


def randn_like(
    x: Any, /, *, dtype: Any = None, device: DeviceLike = None, rng: Generator | None = None
) -> Tensor:
    """Return standard normal numbers with the shape of `x`, and its dtype and device unless others are given."""
    x = as_tensor(x)
    return randn(x.shape, dtype=dtype or x.dtype, device=device or x.device, rng=rng)


def randint(
    low: int,
    high: int | None = None,
    shape: Any = (),
    *,
    dtype: Any = None,
    device: DeviceLike = None,
    rng: Generator | None = None,
) -> Tensor:
    """Return integers in ``[low, high)``, or ``[0, low)`` if only one limit is given."""
    if high is None:
        low, high = 0, low
    if not 0 < high - low <= 2**32:
        raise ValueError(f"randint: the range [{low}, {high}) must hold between 1 and 2**32 integers.")
    sizes = _shape(shape)
    return _draw(
        _integers,
        math.prod(sizes),
        rng,
        device,
        shape=sizes,
        low=int(low),
        high=int(high),
        dtype=as_dtype(dtype or dtypes.int32),
    )


def randint_like(
    x: Any,
    low: int,
    high: int | None = None,
    /,
    *,
    dtype: Any = None,
    device: DeviceLike = None,
    rng: Generator | None = None,
) -> Tensor:
    """Return integers in ``[low, high)`` (``[0, low)`` without `high`) with the shape, dtype and device of `x`."""
    x = as_tensor(x)
    first, last = (0, low) if high is None else (low, high)
    drawn = randint(first, last, x.shape, device=device or x.device, rng=rng)
    return p.cast(drawn, dtype=as_dtype(dtype or x.dtype))


def randperm(n: int, *, device: DeviceLike = None, rng: Generator | None = None) -> Tensor:
    """Return the integers 0 to n - 1 in random order."""
    context = _context(device)
    state, relative = (rng or default_generator()).take(n, context)
    return p.sort(p.random_bits(state, size=n, relative=relative), axis=0)[1]


def bernoulli(probabilities: Any, /, *, rng: Generator | None = None) -> Tensor:
    """Return 1 with the given probabilities and 0 otherwise, in their dtype.

    Raises
    ------
    ValueError
        If a probability is NaN or outside ``[0, 1]``.
    """
    x = as_tensor(probabilities).detach()
    if x._value.spec.size and not bool(((x >= 0) & (x <= 1)).all()):
        raise ValueError("bernoulli: every probability must lie between 0 and 1.")
    with no_grad():
        return p.cast(rand(x.shape, device=x.device, rng=rng) < x, dtype=x.dtype)


def multinomial(
    weights: Any, num_samples: int, replacement: bool = False, *, rng: Generator | None = None
) -> Tensor:
    """Return indices drawn with probabilities proportional to `weights` (the last axis).

    Parameters
    ----------
    weights : Tensor
        1-D or 2-D, not negative.
    num_samples : int
    replacement : bool
        Whether an index may be drawn again.
    rng : Generator, optional

    Raises
    ------
    ValueError
        If a weight is negative or not finite, all are zero, or fewer than `num_samples` are positive
        without replacement.
    """
    x = as_tensor(weights).detach()
    host = np.asarray(x.numpy(), np.float64)
    _check_weights(host, num_samples, replacement)
    draws = rand(
        (*x.shape[:-1], num_samples if replacement else x.shape[-1]),
        dtype=dtypes.float32,
        device=x.device,
        rng=rng,
    )
    with no_grad():
        if replacement:
            total = p.cumsum(p.cast(x, dtype=dtypes.float32), axis=-1)
            bound = reshape(total, shape=(*x.shape[:-1], 1, x.shape[-1]))
            goal = reshape(draws * total[..., -1:], shape=(*draws.shape, 1))
            return p.sum(bound <= goal, axis=-1)
        # exponential clocks: the first to ring are a sample without replacement
        clock = p.where(x > 0, p.neg(p.log(1.0 - draws)) / p.where(x > 0, x, 1.0), math.inf)
        return p.sort(clock, axis=-1)[1][..., :num_samples]


def _check_weights(host: Any, num_samples: int, replacement: bool) -> None:
    if host.ndim not in (1, 2):
        raise ShapeError(f"multinomial: weights must be 1-D or 2-D; received shape {host.shape}.")
    if not np.isfinite(host).all() or (host < 0).any():
        raise ValueError("multinomial: weights must be finite and not negative.")
    support = int(np.min((host > 0).sum(-1))) if host.size else 0
    if support == 0:
        raise ValueError("multinomial: the weights sum to zero, so nothing can be drawn.")
    if not replacement and num_samples > support:
        raise ValueError(
            f"multinomial: {num_samples} samples without replacement from {support} positive weights; pass "
            "replacement=True."
        )


def permutation(x: Any, /, *, axis: int = 0, rng: Generator | None = None) -> Tensor:
    """Return the slices of `x` along `axis` in random order."""
    from grilly_core.ops.index import take

    x = as_tensor(x)
    return take(x, randperm(x.shape[axis], device=x.device, rng=rng), axis=axis)
