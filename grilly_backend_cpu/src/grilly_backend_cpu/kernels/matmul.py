"""Matrix products: compiled tiles for large ones in float32, else BLAS through NumPy; both take transposed views."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.kernels import products
from grilly_backend_cpu.kernels.support import COMPLEX, HALVES, INTEGERS, WIDE, WIDENED
from grilly_backend_cpu.quiet import quiet_context, quietly

__all__ = ["product", "register"]


def matmul(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """``(..., M, K) @ (..., K, N)``."""
    quiet_context().run(product, ins[0].array, ins[1].array, outs[0].array)


def product(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> None:
    """Write ``a @ b``; one product instead of many where all matrices of `a` meet the same `b`."""
    if a.ndim > 2 and not any(b.strides[:-2]) and out.flags.c_contiguous and out.size:
        folded = _folded(a)
        if folded is not None:
            first = b[(0,) * (b.ndim - 2)]
            products.product(folded, first, out.reshape(-1, out.shape[-1]))
            return
    if a.ndim == b.ndim == 2:
        products.product(a, b, out)
    else:
        np.matmul(a, b, out)


def _folded(a: NDArray[Any]) -> NDArray[Any] | None:
    """Return `a` as one tall matrix if that needs no copy."""
    return a.reshape(-1, a.shape[-1]) if a.flags.c_contiguous and a.shape[-1] else None


def linear(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """``x @ weight.T + bias`` over the last axis."""
    quiet_context().run(_linear, outs[0].array, ins[0].array, ins[1].array, ins[2].array if ins[2] else None)


def _linear(out: NDArray[Any], x: NDArray[Any], weight: NDArray[Any], bias: NDArray[Any] | None) -> None:
    if x.ndim >= 2 and x.shape[-1] and x.flags.c_contiguous and out.size:
        products.product(x.reshape(-1, x.shape[-1]), weight.T, out.reshape(-1, out.shape[-1]))
    else:
        np.matmul(x, weight.T, out)
    if bias is not None:
        np.add(out, bias, out)


@quietly
def matmul_halves(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Half-precision product, computed in f32 and rounded once."""
    a, b = (v.array.astype(np.float32) for v in ins)
    np.copyto(outs[0].array, np.matmul(a, b), casting="unsafe")


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("matmul", matmul, dtypes=WIDE | COMPLEX | INTEGERS)
    kernels.add("matmul", matmul_halves, dtypes=HALVES)
    kernels.add("nn.linear", linear, dtypes=WIDE, compute=WIDENED)
