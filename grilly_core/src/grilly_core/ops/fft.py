"""Discrete Fourier transforms: one op, a complex transform along one axis, and the usual family over it.

The transform is linear, and its adjoint is the transform in the other direction with the same factor, so one rule
serves all gradients (PyTorch's conjugate convention). Real transforms take half of a complex one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.layout import normalize_axis
from grilly_core.ops import primitives as p
from grilly_core.ops import structure
from grilly_core.ops._typing import Attrs, Needs, Samples, Tensors
from grilly_core.ops.complex import complex_of, pairs_as_complex, view_as_real
from grilly_core.ops.creation import asarray
from grilly_core.ops.math import conj, imag, real, remainder
from grilly_core.ops.views import expand_dims, subview
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = [
    "dft", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
    "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

_INT32_SQUARE: Final = 46340  # the largest number whose square fits int32
_LAST_TWO: Final = (-2, -1)
Axes = Sequence[int] | int | None


# -- the transform -------------------------------------------------------------------------------------------


@op("fft.dft", saves="shapes")
def dft(x: Any, *, axis: int = -1, inverse: bool = False, scale: float = 1.0) -> Tensor:
    """Return ``scale * sum_j x[j] exp(-2 pi i j k / n)`` along `axis`; the exponent is positive if `inverse`."""
    if not x.dtype.is_complex:
        raise DTypeError(
            f"dft: the input must be complex; received {x.dtype.name} of shape {tuple(x.shape)}."
        )
    if x.ndim == 0:
        raise ShapeError("dft: a 0-d tensor has no axis to transform; reshape it to (1,).")
    axis = normalize_axis(axis, x.ndim)
    last = x.ndim - 1
    cosine, sine = _circle(x, x.shape[axis], inverse)
    a, b = (structure.swapped(part, axis, last) for part in (real(x), imag(x)))
    y = complex_of(
        p.mul(p.sub(_rows(a, cosine), _rows(b, sine)), scale),
        p.mul(p.add(_rows(a, sine), _rows(b, cosine)), scale),
    )
    result: Tensor = structure.swapped(y, axis, last)
    return result


def _circle(x: Any, n: int, inverse: bool) -> tuple[Any, Any]:
    """Matrices of the cosines and sines of the exponents; the product of indices is reduced before it is rounded."""
    wide = dtypes.int32 if n <= _INT32_SQUARE else dtypes.int64
    floating = dtypes.float64 if x.dtype is dtypes.complex128 else dtypes.float32
    index = p.iota(size=n, dtype=wide)
    turns = remainder(p.mul(expand_dims(index, axis=1), index), max(n, 1))
    angle = p.mul(p.cast(turns, dtype=floating), (2 if inverse else -2) * math.pi / max(n, 1))
    return p.cos(angle), p.sin(angle)


def _rows(x: Any, matrix: Any) -> Any:
    from grilly_core.ops.linalg import matmul_any

    return matmul_any(x, matrix)


@dft.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    return (dft(grads[0], axis=attrs["axis"], inverse=not attrs["inverse"], scale=attrs["scale"]),)


@dft.reference
def _(x: Any, axis: int, inverse: bool, scale: float) -> Any:
    return scale * (np.fft.ifft(x, axis=axis, norm="forward") if inverse else np.fft.fft(x, axis=axis))


@dft.samples
def _(s: Samples) -> None:
    for n in (1, 2, 3, 8, 12, 11, 35):
        s.case(s.c64(2, n))
    s.case(s.c64(3, 8, 2), axis=1, inverse=True, scale=0.125)
    s.case(s.c64(6, 1, 3), axis=0, scale=0.5)
    s.case(s.c64(0, 4))
    s.error(DTypeError, "complex", s.f32(4))
    s.error(IndexError, "axis", s.c64(4), axis=1)


# -- arguments -----------------------------------------------------------------------------------------------


def _complex(x: Any) -> Any:
    """A tensor in complex numbers; a real one gains imaginary parts of 0."""
    x = as_tensor(x)
    if x.dtype.is_complex:
        return x
    if x.dtype is not dtypes.float64:
        x = p.cast(x, dtype=dtypes.float32) if x.dtype is not dtypes.float32 else x
    widths = ((0, 0),) * x.ndim + ((0, 1),)
    return pairs_as_complex(structure.pad(expand_dims(x, axis=x.ndim), widths=widths))


def _real(name: str, x: Any) -> Any:
    x = as_tensor(x)
    if x.dtype.is_complex:
        raise DTypeError(
            f"{name}: the input must be real; received {x.dtype.name}. Use the complex transform."
        )
    return x


def _factor(name: str, n: int, norm: str | None, inverse: bool) -> float:
    """The factor of a transform of length n; None means "backward", as in PyTorch."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f"{name}: norm must be 'backward', 'ortho' or 'forward'; received {norm!r}.")
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "forward") != inverse else 1.0


def _axis(name: str, x: Any, axis: int, dim: int | None) -> int:
    if dim is not None and axis not in (-1, dim):
        raise TypeError(f"{name}: dim={dim} and axis={axis} mean the same; give one of them.")
    return normalize_axis(axis if dim is None else dim, x.ndim)


def _length(name: str, n: int | None, default: int) -> int:
    n = default if n is None else int(n)
    if n < 1:
        raise ShapeError(f"{name}: a transform needs at least 1 element; received n={n}.")
    return n


def _sized(x: Any, axis: int, n: int) -> Any:
    """Crop the end of an axis, or put zeros after it."""
    have = x.shape[axis]
    if have == n:
        return x
    if have > n:
        sizes = tuple(n if i == axis else m for i, m in enumerate(x.shape))
        return subview(x, starts=(0,) * x.ndim, sizes=sizes, steps=(1,) * x.ndim)
    return structure.pad(x, widths=tuple((0, n - have) if i == axis else (0, 0) for i in range(x.ndim)))


def _sizes(
    name: str,
    x: Any,
    s: Sequence[int] | None,
    axes: Axes,
    dim: Axes,
    default: Axes = None,
    half: bool = False,
) -> list[tuple[int, int]]:
    """Return (axis, length) for each axis; `half`: the last one holds half a spectrum."""
    if dim is not None and axes not in (default, dim):
        raise TypeError(f"{name}: dim={dim} and axes={axes} mean the same; give one of them.")
    axes = axes if dim is None else dim
    if isinstance(axes, int):
        axes = (axes,)
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    found = [normalize_axis(a, x.ndim) for a in axes]
    if len(set(found)) != len(found):
        raise ShapeError(f"{name}: axes {tuple(axes)} name one axis twice.")
    if s is not None and len(s) != len(found):
        raise ShapeError(f"{name}: s has {len(s)} sizes for {len(found)} axes.")
    given: list[int | None] = [None] * len(found) if s is None else [None if n == -1 else int(n) for n in s]
    have = [x.shape[a] for a in found]
    if half and have:
        have[-1] = 2 * (have[-1] - 1)
    return [(a, _length(name, n, m)) for a, n, m in zip(found, given, have, strict=True)]


# -- complex transforms --------------------------------------------------------------------------------------


def _one(name: str, x: Any, n: int, axis: int, norm: str | None, inverse: bool) -> Tensor:
    return dft(_sized(x, axis, n), axis=axis, inverse=inverse, scale=_factor(name, n, norm, inverse))


def _many(name: str, x: Any, sizes: list[tuple[int, int]], norm: str | None, inverse: bool) -> Any:
    _factor(name, 1, norm, inverse)  # a wrong norm is an error even without axes
    for axis, n in reversed(sizes):
        x = _one(name, x, n, axis, norm, inverse)
    return x


def fft(
    x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None
) -> Tensor:
    """Return the discrete Fourier transform along one axis.

    Parameters
    ----------
    x : Tensor or array
        Real or complex.
    n : int, optional
        Length of the transform: `x` is cropped, or zeros are put after it.
    axis : int
    norm : {"backward", "ortho", "forward"}
        Whether the inverse transform, each by its root, or this one is divided by the length.
    dim : int, optional
        PyTorch's name of `axis`.

    Returns
    -------
    Tensor
        complex128 for float64 and complex128, else complex64.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.fft.fft([1.0, 0.0, 0.0]).tolist()
    [(1+0j), (1+0j), (1+0j)]
    """
    x = _complex(x)
    axis = _axis("fft", x, axis, dim)
    return _one("fft", x, _length("fft", n, x.shape[axis]), axis, norm, False)


def ifft(
    x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None
) -> Tensor:
    """Return the inverse of `fft` along one axis; the arguments are those of `fft`."""
    x = _complex(x)
    axis = _axis("ifft", x, axis, dim)
    return _one("ifft", x, _length("ifft", n, x.shape[axis]), axis, norm, True)


def fftn(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = "backward",
    *,
    dim: Axes = None,
) -> Tensor:
    """Return the transform along several axes.

    Parameters
    ----------
    x : Tensor or array
    s : sequence of int, optional
        Length along each axis; -1 keeps it.
    axes : sequence of int, optional
        All axes by default, or the last ``len(s)``.
    norm : {"backward", "ortho", "forward"}
    dim : optional
        PyTorch's name of `axes`.

    Returns
    -------
    Tensor
    """
    x = _complex(x)
    return _many("fftn", x, _sizes("fftn", x, s, axes, dim), norm, False)  # type: ignore[no-any-return]


def ifftn(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = "backward",
    *,
    dim: Axes = None,
) -> Tensor:
    """Return the inverse of `fftn`; the arguments are those of `fftn`."""
    x = _complex(x)
    return _many("ifftn", x, _sizes("ifftn", x, s, axes, dim), norm, True)  # type: ignore[no-any-return]


def fft2(
    x: Any, /, s: Sequence[int] | None = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *,
    dim: Axes = None,
) -> Tensor:  # fmt: skip
    """Return the transform along two axes, the last ones by default; the arguments are those of `fftn`."""
    x = _complex(x)
    return _many("fft2", x, _sizes("fft2", x, s, axes, dim, _LAST_TWO), norm, False)  # type: ignore[no-any-return]


def ifft2(
    x: Any, /, s: Sequence[int] | None = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *,
    dim: Axes = None,
) -> Tensor:  # fmt: skip
    """Return the inverse of `fft2`."""
    x = _complex(x)
    return _many("ifft2", x, _sizes("ifft2", x, s, axes, dim, _LAST_TWO), norm, True)  # type: ignore[no-any-return]


# -- real transforms -----------------------------------------------------------------------------------------


def _half(name: str, x: Any, n: int, axis: int, norm: str | None, inverse: bool = False) -> Any:
    """The first half of a real signal's spectrum; `inverse` gives its conjugate."""
    y = dft(_complex(_sized(x, axis, n)), axis=axis, inverse=inverse, scale=_factor(name, n, norm, inverse))
    return _sized(y, axis, n // 2 + 1)


def _whole(name: str, x: Any, n: int, axis: int, norm: str | None, inverse: bool = True) -> Any:
    """The real signal whose spectrum begins with `x`.

    Each frequency but the first and, for an even length, the last stands for its conjugate too: twice its real part.
    """
    kept = n // 2 + 1
    x = view_as_real(_sized(_complex(x), axis, kept))
    weights = np.full((kept, *(1,) * (x.ndim - axis - 1)), 2.0)
    weights[0] = 1.0
    if n % 2 == 0:
        weights[-1] = 1.0
    widths = tuple((0, n - kept) if i == axis else (0, 0) for i in range(x.ndim))
    spectrum = pairs_as_complex(structure.pad(p.mul(x, as_tensor(weights, x)), widths=widths))
    return real(dft(spectrum, axis=axis, inverse=inverse, scale=_factor(name, n, norm, inverse)))


def rfft(
    x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None
) -> Tensor:
    """Return the ``n // 2 + 1`` frequencies of a real signal that are not conjugates of others; see `fft`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.fft.rfft([1.0, 2.0, 1.0]).shape
    (2,)
    """
    x = _real("rfft", x)
    axis = _axis("rfft", x, axis, dim)
    return _half("rfft", x, _length("rfft", n, x.shape[axis]), axis, norm)  # type: ignore[no-any-return]


def irfft(
    x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None
) -> Tensor:
    """Return the real signal of length `n` (``2 * (m - 1)`` by default) whose frequencies begin with `x`; see `fft`.

    Give `n` to get a signal of odd length back.
    """
    x = as_tensor(x)
    axis = _axis("irfft", x, axis, dim)
    return _whole("irfft", x, _length("irfft", n, 2 * (x.shape[axis] - 1)), axis, norm)  # type: ignore[no-any-return]


def rfftn(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = "backward",
    *,
    dim: Axes = None,
) -> Tensor:
    """Return the transform of a real signal along several axes, half of it along the last one; see `fftn`."""
    x = _real("rfftn", x)
    return _half_many("rfftn", x, _sizes("rfftn", x, s, axes, dim), norm)


def irfftn(
    x: Any,
    /,
    s: Sequence[int] | None = None,
    axes: Axes = None,
    norm: str | None = "backward",
    *,
    dim: Axes = None,
) -> Tensor:
    """Return the inverse of `rfftn`; without `s` the last axis comes out even."""
    x = as_tensor(x)
    return _whole_many("irfftn", x, _sizes("irfftn", x, s, axes, dim, half=True), norm)


def rfft2(
    x: Any, /, s: Sequence[int] | None = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *,
    dim: Axes = None,
) -> Tensor:  # fmt: skip
    """Return the transform of a real signal along two axes, half of it along the second; see `fftn`."""
    x = _real("rfft2", x)
    return _half_many("rfft2", x, _sizes("rfft2", x, s, axes, dim, _LAST_TWO), norm)


def irfft2(
    x: Any, /, s: Sequence[int] | None = None, axes: Axes = _LAST_TWO, norm: str | None = "backward", *,
    dim: Axes = None,
) -> Tensor:  # fmt: skip
    """Return the inverse of `rfft2`."""
    x = as_tensor(x)
    return _whole_many("irfft2", x, _sizes("irfft2", x, s, axes, dim, _LAST_TWO, half=True), norm)


def _half_many(name: str, x: Any, sizes: list[tuple[int, int]], norm: str | None) -> Tensor:
    if not sizes:
        raise ShapeError(f"{name}: needs at least one axis; received none.")
    (axis, n), rest = sizes[-1], sizes[:-1]
    return _many(name, _half(name, x, n, axis, norm), rest, norm, False)  # type: ignore[no-any-return]


def _whole_many(name: str, x: Any, sizes: list[tuple[int, int]], norm: str | None) -> Tensor:
    if not sizes:
        raise ShapeError(f"{name}: needs at least one axis; received none.")
    (axis, n), rest = sizes[-1], sizes[:-1]
    return _whole(name, _many(name, _complex(x), rest, norm, True), n, axis, norm)  # type: ignore[no-any-return]


def hfft(
    x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None
) -> Tensor:
    """Return the real transform of length `n` of a signal that is Hermitian and of which `x` is the first half."""
    x = as_tensor(x)
    axis = _axis("hfft", x, axis, dim)
    return _whole("hfft", conj(x), _length("hfft", n, 2 * (x.shape[axis] - 1)), axis, _swapped(norm))  # type: ignore[no-any-return]


def ihfft(
    x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = "backward", *, dim: int | None = None
) -> Tensor:
    """Return the inverse of `hfft`: the first half of a Hermitian signal."""
    x = _real("ihfft", x)
    axis = _axis("ihfft", x, axis, dim)
    return _half("ihfft", x, _length("ihfft", n, x.shape[axis]), axis, norm, inverse=True)  # type: ignore[no-any-return]


def _swapped(norm: str | None) -> str | None:
    """A forward transform that runs as an inverse one is scaled the other way round."""
    return {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)


# -- frequencies ---------------------------------------------------------------------------------------------


def fftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of the `n` values of `fft` for samples `d` apart.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return asarray(np.fft.fftfreq(_length("fftfreq", n, 1), d), dtype=dtype or dtypes.float32, device=device)


def rfftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the frequencies of the ``n // 2 + 1`` values of `rfft` for `n` samples `d` apart."""
    return asarray(
        np.fft.rfftfreq(_length("rfftfreq", n, 1), d), dtype=dtype or dtypes.float32, device=device
    )


def fftshift(x: Any, /, axes: Axes = None, *, dim: Axes = None) -> Tensor:
    """Return the spectrum with frequency 0 moved to the middle of `axes` (all by default)."""
    return _shifted("fftshift", x, axes, dim, lambda n: n // 2)


def ifftshift(x: Any, /, axes: Axes = None, *, dim: Axes = None) -> Tensor:
    """Return the inverse of `fftshift`: frequency 0 moved to the front."""
    return _shifted("ifftshift", x, axes, dim, lambda n: -(n // 2))


def _shifted(name: str, x: Any, axes: Axes, dim: Axes, shift: Any) -> Tensor:
    x = as_tensor(x)
    if dim is not None and axes not in (None, dim):
        raise TypeError(f"{name}: dim={dim} and axes={axes} mean the same; give one of them.")
    axes = axes if dim is None else dim
    chosen = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    for axis in chosen:
        axis = normalize_axis(axis, x.ndim)
        x = structure.roll(x, shift=shift(x.shape[axis]), axis=axis)
    result: Tensor = x
    return result
