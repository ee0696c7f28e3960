"""Running one case on one device, in one precision, and reading the result back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grilly_core import dtypes
from grilly_core.autograd import grad
from grilly_core.config import enable_grad
from grilly_core.device import open_context
from grilly_core.samples import Case, ErrorCase
from grilly_core.tensor import Tensor

__all__ = ["arrays_of", "close", "differentiable", "gradients", "outputs", "placed", "run", "widened"]


def placed(array: Any, device: str, wide: bool = False) -> Any:
    """Put an array, None or a list of arrays on a device; floats in float64 if `wide`."""
    if array is None:
        return None
    if isinstance(array, list):
        return [placed(a, device, wide) for a in array]
    dtype = dtypes.from_numpy(array.dtype)
    return Tensor(open_context(device).upload(array, widened(dtype) if wide else dtype))


def widened(dtype: dtypes.DType) -> dtypes.DType:
    """Return the type of the oracle: float64 for floats, complex128 for complex numbers."""
    if dtype.is_floating:
        return dtypes.float64
    return dtypes.complex128 if dtype.is_complex else dtype


def _wide_attrs(attrs: dict[str, Any], wide: bool) -> dict[str, Any]:
    return {k: widened(v) if wide and isinstance(v, dtypes.DType) else v for k, v in attrs.items()}


def run(
    case: Case | ErrorCase, device: str, *, wide: bool = False, inputs: tuple[Any, ...] | None = None
) -> tuple[Tensor, ...]:
    """Run a case and return its outputs as tensors."""
    tensors = inputs if inputs is not None else tuple(placed(x, device, wide) for x in case.inputs)
    with _default(device):
        result = case.op(*tensors, **_wide_attrs(case.attrs, wide))
    return outputs(result)


@contextmanager
def _default(device: str) -> Iterator[None]:
    """Ops without tensor inputs run on the device too."""
    with open_context(device).device:
        yield


def outputs(result: Any) -> tuple[Tensor, ...]:
    """Return the result of an op as a tuple."""
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def arrays_of(tensors: tuple[Tensor, ...]) -> list[NDArray[Any]]:
    """Read tensors back."""
    return [np.array(t.detach().numpy()) for t in tensors]


def differentiable(case: Case) -> list[int]:
    """Positions, with lists flattened, of the inputs that have a gradient."""
    if case.grad == "none" or case.op.nondiff:
        return []
    names = case.op.schema.tensors
    flat = [
        (n, a) for n, x in zip(names, case.inputs, strict=True) for a in (x if isinstance(x, list) else [x])
    ]
    skip = case.op.nondiff_inputs
    return [i for i, (n, a) in enumerate(flat) if a is not None and a.dtype.kind in "fc" and n not in skip]


def gradients(case: Case, device: str, *, wide: bool, seed: int = 0) -> list[NDArray[Any] | None]:
    """Return the gradients of a weighted sum of the outputs by every floating input."""
    tensors = [placed(x, device, wide) for x in case.inputs]
    flat = [t for x in tensors for t in (x if isinstance(x, list) else [x])]
    watched = [flat[i].requires_grad_() for i in differentiable(case)]
    with enable_grad(), _default(device):
        outs = [o for o in outputs(case.op(*tensors, **_wide_attrs(case.attrs, wide))) if o.requires_grad]
        if not outs:
            return [None] * len(watched)
        rng = np.random.default_rng(seed)
        weights = [placed(rng.standard_normal(o.shape).astype(o.dtype.numpy), device) for o in outs]
        found = grad(outs, watched, weights, allow_unused=True)
    return [None if g is None else np.array(g.detach().numpy()) for g in found]


def close(actual: NDArray[Any], expected: NDArray[Any], tol: float) -> str:
    """Return what is wrong, or an empty string; the tolerance is relative to the largest expected value near it."""
    if actual.shape != expected.shape:
        return f"shape {actual.shape} instead of {expected.shape}"
    if actual.dtype.kind not in "fcV" and actual.dtype.name != "bfloat16":
        same = np.array_equal(actual, expected.astype(actual.dtype))
        return "" if same else f"values differ: {actual.ravel()[:6]} instead of {expected.ravel()[:6]}"
    wide = np.complex128 if "c" in (actual.dtype.kind, expected.dtype.kind) else np.float64
    a, b = actual.astype(wide), expected.astype(wide)
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 0.0
    good = np.isclose(a, b, rtol=tol, atol=tol * min(max(scale, 1e-6), 1.0), equal_nan=True)
    if good.all():
        return ""
    with np.errstate(invalid="ignore"):
        error = np.where(good, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf))
    at = np.unravel_index(int(np.argmax(error)), error.shape) if error.ndim else ()
    return f"{int((~good).sum())} of {good.size} differ; at {tuple(map(int, at))}: {a[at]!r} instead of {b[at]!r}"
