"""Comparisons for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_core.tensor import Tensor

__all__ = ["assert_close"]

#: Relative and absolute tolerance by dtype code, of an op whose rounding is ordinary.
TOLERANCES = {"f64": (1e-9, 1e-12), "f32": (1.3e-6, 1e-5), "f16": (1e-3, 1e-5), "bf16": (1.6e-2, 1e-5)}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    what: str = "values",
) -> None:
    """Raise an AssertionError unless two arrays or tensors have equal shapes and close values.

    Parameters
    ----------
    actual, expected : Tensor or array
    rtol, atol : float, optional
        By default those of the dtype of `actual` (exact for integers).
    equal_nan : bool
        Whether NaN equals NaN.
    what : str
        Named in the message.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.testing.assert_close(grilly.ones(2), [1.0, 1.0 + 1e-7])
    """
    code = actual.dtype.code if isinstance(actual, Tensor) else ""
    a, b = _array(actual), _array(expected)
    if a.shape != b.shape:
        raise AssertionError(f"{what}: shapes differ: {a.shape} and {b.shape}.")
    default = TOLERANCES.get(code) or (TOLERANCES["f32"] if a.dtype.kind in "fc" else (0.0, 0.0))
    rtol, atol = default[0] if rtol is None else rtol, default[1] if atol is None else atol
    wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    x, y = a.astype(wide), b.astype(wide)
    close = np.isclose(x, y, rtol, atol, equal_nan)
    if not close.all():
        with np.errstate(invalid="ignore"):
            error = np.where(close, 0.0, np.abs(x - y))
        worst = (
            np.unravel_index(np.nanargmax(np.nan_to_num(error, nan=np.inf)), error.shape)
            if error.size
            else ()
        )
        raise AssertionError(
            f"{what}: {int((~close).sum())} of {close.size} differ (rtol {rtol}, atol {atol}); worst at "
            f"{tuple(map(int, worst))}: {x[worst]!r} and {y[worst]!r}."
        )


def _array(value: Any) -> Any:
    array = value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array
