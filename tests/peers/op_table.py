"""Which function of grilly answers which ``torch.*`` name, in PyTorch's signature. Elementwise ops and reductions."""

# ruff: noqa: E731, E501 - a table reads best with one entry a line

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tests.peers import op_table_shape
from tests.peers.op_samples import Entry, dtype_of

import grilly

g = grilly
G: Any = grilly


def same(names: str, **options: Any) -> dict[str, Entry]:
    """Entries of functions that have PyTorch's name and take the same positional arguments."""
    return {n: Entry(lambda *a, _n=n, **k: getattr(G, _n)(*a, **k), **options) for n in names.split()}


def renamed(pairs: dict[str, str], **options: Any) -> dict[str, Entry]:
    """Entries whose function has the Array API's name."""
    return {n: Entry(lambda *a, _n=m, **k: getattr(G, _n)(*a, **k), **options) for n, m in pairs.items()}


def method(names: str, **options: Any) -> dict[str, Entry]:
    """Entries of tensor methods, which have PyTorch's signature."""
    return {n: Entry(lambda x, *a, _n=n, **k: getattr(x, _n)(*a, **k), **options) for n in names.split()}


def casting(name: str, dtype: Any) -> Entry:
    """A method such as ``x.double()``; memory formats do not exist."""
    return Entry(lambda x, **k: x.to(dtype))


def random(call: Any) -> Entry:
    """Random values: another generator, other numbers."""
    return Entry(call, compare="shapes", reason="random values")


ADD = lambda x, y, alpha=1: g.asarray(x).add(y, alpha=alpha) if alpha != 1 else G.add(x, y)
SUB = lambda x, y, alpha=1: G.subtract(x, y if alpha == 1 else G.multiply(y, alpha))


def divided(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    """``torch.div``."""
    if rounding_mode == "floor":
        return G.floor_divide(x, y)
    out = G.divide(x, y)
    return G.trunc(out) if rounding_mode == "trunc" else out


ELEMENTWISE = {
    **same(
        "abs acos acosh angle asin asinh atan atan2 atanh ceil conj copysign cos cosh deg2rad erf erfc erfinv exp exp2 "
        "expm1 float_power floor floor_divide fmax fmin fmod frac gcd heaviside hypot i0 imag isfinite isinf isnan "
        "isneginf isposinf isreal lcm ldexp lgamma digamma lerp log log10 log1p log2 logaddexp logaddexp2 "
        "logical_and logical_not logical_or logical_xor maximum minimum nan_to_num nextafter positive pow rad2deg "
        "real reciprocal remainder rsqrt sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc xlogy sgn "
        "bitwise_and bitwise_or bitwise_xor isclose polar complex frexp"
    ),
    **renamed(
        {
            "bitwise_not": "bitwise_invert",
            "bitwise_left_shift": "bitwise_left_shift",
            "bitwise_right_shift": "bitwise_right_shift",
            "mul": "multiply",
            "true_divide": "divide",
            "eq": "equal",
            "ne": "not_equal",
            "lt": "less",
            "le": "less_equal",
            "gt": "greater",
            "ge": "greater_equal",
            "neg": "negative",
            "conj_physical": "conj",
            "resolve_conj": "positive",
            "resolve_neg": "positive",
            "__radd__": "add",
            "__rmul__": "multiply",
            "__rand__": "bitwise_and",
            "__ror__": "bitwise_or",
            "__rxor__": "bitwise_xor",
        }
    ),
    "add": Entry(ADD),
    "sub": Entry(SUB),
    "rsub": Entry(lambda x, y, alpha=1: G.subtract(y, x if alpha == 1 else G.multiply(x, alpha))),
    "__rsub__": Entry(lambda x, y: y - x),
    "__rdiv__": Entry(lambda x, y: y / x),
    "__rmod__": Entry(lambda x, y: y % x),
    "__rpow__": Entry(lambda x, y: y**x),
    "__rmatmul__": Entry(lambda x, y: y @ x),
    "__getitem__": Entry(lambda x, key: x[key]),
    "div": Entry(divided),
    "clamp": Entry(lambda x, min=None, max=None: G.clip(x, min, max)),
    "clamp_min": Entry(lambda x, min: G.clip(x, min)),
    "clamp_max": Entry(lambda x, max: G.clip(x, None, max)),
    "round": Entry(lambda x, decimals=0: g.asarray(x).round(decimals) if decimals else G.round(x)),
    "addcmul": Entry(lambda x, a, b, value=1: G.addcmul(x, a, b, value=value)),
    "addcdiv": Entry(lambda x, a, b, value=1: G.addcdiv(x, a, b, value=value)),
    "where": Entry(lambda x, c, y: G.where(c, x, y)),
    "logit": Entry(lambda x, eps=None: G.logit(x, eps=eps)),
    "allclose": Entry(lambda x, y, **k: x.allclose(y, **k)),
    "equal": Entry(lambda x, y: x.equal(y)),
    "mvlgamma": Entry(lambda x, p: G.special.multigammaln(x, p)),
    "polygamma": Entry(lambda x, n: G.special.polygamma(n, x), tol=1e-4),
    "igamma": Entry(lambda a, x: G.special.gammainc(a, x), tol=1e-4),
    "igammac": Entry(lambda a, x: G.special.gammaincc(a, x), tol=1e-4),
    "view_as_real": Entry(lambda x: G.view_as_real(x)),
    "view_as_complex": Entry(lambda x: G.view_as_complex(x)),
}

CASTS = {
    name: casting(name, dtype_of(dtype))
    for name, dtype in {
        "bfloat16": torch.bfloat16, "bool": torch.bool, "byte": torch.uint8, "char": torch.int8, "double": torch.float64,
        "float": torch.float32, "half": torch.float16, "int": torch.int32, "long": torch.int64, "short": torch.int16,
        "cdouble": torch.complex128, "cfloat": torch.complex64,
    }.items()
}  # fmt: skip


def typed(x: Any, dtype: Any) -> Any:
    """PyTorch's `dtype` argument of a reduction: cast first."""
    return x if dtype is None else x.to(dtype)


def var_like(name: str, mean: bool = False) -> Any:
    """``torch.var`` and its relatives, whose second argument may be `dim` or `unbiased`."""

    def call(
        x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        free = correction if correction is not None else 1 if unbiased is None else int(unbiased)
        axis = tuple(dim) if isinstance(dim, (list, tuple)) else dim
        axis = None if axis == () else axis
        out = getattr(G, name)(x, axis=axis, correction=free, keepdims=keepdim)
        return (out, G.mean(x, axis=axis, keepdims=keepdim)) if mean else out

    return call


def all_axes(dim: Any) -> Any:
    """An empty list of axes means all of them, in PyTorch's reductions."""
    if dim is None or isinstance(dim, int):
        return dim
    return tuple(dim) or None


def reduction(name: str) -> Any:
    """A reduction of PyTorch's signature ``(x, dim, keepdim, *, dtype)``."""
    return lambda x, dim=None, keepdim=False, dtype=None: getattr(G, name)(
        typed(x, dtype), axis=all_axes(dim), keepdims=keepdim
    )


def extreme(name: str) -> Any:
    """``torch.max`` in its three forms."""
    return lambda x, *a, **k: getattr(x, name)(*a, **k)


REDUCTIONS = {
    **{n: Entry(reduction(n)) for n in ("sum", "mean", "all", "any", "nansum", "nanmean", "prod", "count_nonzero")},
    **{n: Entry(lambda x, dim=None, keepdim=False, _n=n: getattr(G, _n)(x, axis=all_axes(dim), keepdims=keepdim)) for n in ("argmax", "argmin")},
    "amax": Entry(lambda x, dim=None, keepdim=False: G.max(x, axis=all_axes(dim), keepdims=keepdim)),
    "amin": Entry(lambda x, dim=None, keepdim=False: G.min(x, axis=all_axes(dim), keepdims=keepdim)),
    "max": Entry(extreme("max")),
    "min": Entry(extreme("min")),
    "aminmax": Entry(lambda x, dim=None, keepdim=False: G.aminmax(x, axis=dim, keepdims=keepdim)),
    "std": Entry(var_like("std")),
    "var": Entry(var_like("var")),
    "std_mean": Entry(var_like("std", mean=True)),
    "var_mean": Entry(var_like("var", mean=True)),
    "logsumexp": Entry(lambda x, dim, keepdim=False: G.logsumexp(x, axis=all_axes(dim), keepdims=keepdim)),
    "norm": Entry(lambda x, p="fro", dim=None, keepdim=False, dtype=None: G.linalg.norm(typed(x, dtype), p if isinstance(p, str) and dim is not None else 2 if p == "fro" else p, axis=all_axes(dim), keepdims=keepdim) if p == "nuc" or dim is not None else G.linalg.vector_norm(typed(x, dtype), ord=2 if p == "fro" else p), tol=1e-4),
    "median": Entry(lambda x, dim=None, keepdim=False: G.median(x, axis=dim, keepdims=keepdim)),
    "nanmedian": Entry(lambda x, dim=None, keepdim=False: G.nanmedian(x, axis=dim, keepdims=keepdim)),
    "mode": Entry(lambda x, dim=-1, keepdim=False: G.mode(x, axis=dim, keepdims=keepdim)),
    "kthvalue": Entry(lambda x, k, dim=-1, keepdim=False: G.kthvalue(x, k, axis=dim, keepdims=keepdim)),
    "quantile": Entry(lambda x, q, dim=None, keepdim=False, interpolation="linear": G.quantile(x, q, axis=dim, keepdims=keepdim, method=interpolation)),
    "nanquantile": Entry(lambda x, q, dim=None, keepdim=False, interpolation="linear": G.nanquantile(x, q, axis=dim, keepdims=keepdim, method=interpolation)),
    "cumsum": Entry(lambda x, dim, dtype=None: G.cumulative_sum(x.reshape(1), axis=0, dtype=dtype).reshape(()) if x.ndim == 0 else G.cumulative_sum(x, axis=dim, dtype=dtype)),
    "cumprod": Entry(lambda x, dim, dtype=None: G.cumulative_prod(x.reshape(1), axis=0, dtype=dtype).reshape(()) if x.ndim == 0 else G.cumulative_prod(x, axis=dim, dtype=dtype)),
    "cummax": Entry(lambda x, dim: G.cummax(x, axis=dim)),
    "cummin": Entry(lambda x, dim: G.cummin(x, axis=dim)),
    "logcumsumexp": Entry(lambda x, dim: G.logcumsumexp(x, axis=dim)),
    "trapz": Entry(lambda y, x=None, dim=-1, dx=1: G.trapezoid(y, x, dx=dx, axis=dim)),
    "trapezoid": Entry(lambda y, x=None, dim=-1, dx=1: G.trapezoid(y, x, dx=dx, axis=dim)),
    "cumulative_trapezoid": Entry(lambda y, x=None, dim=-1, dx=1: G.cumulative_trapezoid(y, x, dx=dx, axis=dim)),
    "diff": Entry(lambda x, n=1, dim=-1, prepend=None, append=None: G.diff(x, n=n, axis=dim, prepend=prepend, append=append)),
    "gradient": Entry(lambda x, spacing=1, dim=None, edge_order=1: G.gradient(x, spacing=spacing, axis=dim, edge_order=edge_order)),
    "cov": Entry(lambda x, correction=1, fweights=None, aweights=None: G.cov(x, correction=correction, fweights=fweights, aweights=aweights)),
    "corrcoef": Entry(lambda x: G.corrcoef(x)),
    "histc": Entry(lambda x, bins=100, min=0, max=0: G.histc(x, bins, min=min, max=max)),
    "histogram": Entry(lambda x, bins, range=None, weight=None, density=False: G.histogram(x, bins, range=range, weights=weight, density=density)),
    "bincount": Entry(lambda x, weights=None, minlength=0: G.bincount(x, weights, minlength=minlength)),
    "renorm": Entry(lambda x, p, dim, maxnorm: G.renorm(x, p, maxnorm, axis=dim)),
    "dist": Entry(lambda x, y, p=2: G.dist(x, y, p)),
    "cdist": Entry(lambda x, y, p=2.0, compute_mode=None: G.cdist(x, y, p), tol=1e-4),
    "sort": Entry(lambda x, dim=-1, descending=False, stable=False: x.sort(dim, descending), reviewed=((lambda x, a, k: _ties(x, a, k), "order of equal elements without stable=True"),)),
    "msort": Entry(lambda x: G.sort(x, axis=0)),
    "argsort": Entry(lambda x, dim=-1, descending=False, stable=False: x.argsort(dim, descending), reviewed=((lambda x, a, k: _ties(x, a, k), "order of equal elements without stable=True"),)),
    "topk": Entry(lambda x, k, dim=-1, largest=True, sorted=True: x.topk(k, dim, largest)),
    "unique": Entry(lambda x, sorted=True, return_inverse=False, return_counts=False, dim=None: G.unique(x, return_inverse=return_inverse, return_counts=return_counts, axis=dim)),
    "unique_consecutive": Entry(lambda x, return_inverse=False, return_counts=False, dim=None: G.unique_consecutive(x, return_inverse=return_inverse, return_counts=return_counts, axis=dim)),
    "searchsorted": Entry(lambda s, v, out_int32=False, right=False, side=None, sorter=None: G.searchsorted(s, v, side=side or ("right" if right else "left"), sorter=sorter)),
    "bucketize": Entry(lambda v, b, out_int32=False, right=False: G.searchsorted(b, v, side="right" if right else "left")),
    "isin": Entry(lambda x, y, assume_unique=False, invert=False: G.isin(x, y, invert=invert)),
}  # fmt: skip


def _ties(x: Any, args: Any, kwargs: Any) -> bool:
    stable = kwargs.get("stable", False)
    return not stable and x.numel() != len(np.unique(x.numpy()))


PRODUCTS = {
    "matmul": Entry(lambda x, y: G.matmul(x, y)),
    "mm": Entry(lambda x, y: G.matmul(x, y)),
    "bmm": Entry(lambda x, y: G.matmul(x, y)),
    "mv": Entry(lambda x, y: G.matmul(x, y)),
    "dot": Entry(lambda x, y: G.matmul(x, y)),
    "vdot": Entry(lambda x, y: G.vecdot(x, y)),
    "inner": Entry(lambda x, y: G.inner(x, y)),
    "outer": Entry(lambda x, y: G.linalg.outer(x, y)),
    "kron": Entry(lambda x, y: G.kron(x, y)),
    "tensordot": Entry(lambda x, y, dims=2: G.tensordot(x, y, axes=dims), reviewed=((lambda x, a, k: x.shape == (1, 1, 1), "contracted axes of different sizes"),)),
    "einsum": Entry(lambda operands, equation: G.einsum(equation, *operands)),
    "cross": Entry(lambda x, y, dim=None: G.linalg.cross(x, y, axis=next(i for i, n in enumerate(x.shape) if n == 3) if dim is None else dim)),
    "trace": Entry(lambda x: G.linalg.trace(x)),
    **{n: Entry(lambda x, a, b, beta=1, alpha=1, _n=n: getattr(G, _n)(x, a, b, beta=beta, alpha=alpha), tol=1e-4) for n in ("addmm", "addmv", "addbmm", "baddbmm", "addr")},
    "block_diag": Entry(lambda first, *rest: G.block_diag(first, *rest)),
    "cartesian_prod": Entry(lambda first, *rest: G.cartesian_prod(*(first if isinstance(first, (list, tuple)) else (first, *rest)))),
    "combinations": Entry(lambda x, r=2, with_replacement=False: G.combinations(x, r, with_replacement=with_replacement)),
}  # fmt: skip

RANDOM = {
    "rand_like": random(lambda x, dtype=None, device=None, layout=None, requires_grad=False: G.rand_like(x, dtype=dtype)),
    "randn_like": random(lambda x, dtype=None, device=None, layout=None, requires_grad=False: G.randn_like(x, dtype=dtype)),
    "randn": random(lambda *shape, dtype=None, device=None, requires_grad=False: G.randn(*shape, dtype=dtype)),
    "bernoulli": random(lambda x, p=None: G.bernoulli(x if p is None else G.full_like(x, p))),
    "multinomial": random(lambda x, n, replacement=False: G.multinomial(x, n, replacement=replacement)),
    "randint": random(lambda low, high=None, size=None, dtype=None, device=None, requires_grad=False: G.randint(*((0, low, high) if size is None else (low, high, size)), dtype=dtype)),
    **{n: random(lambda x, *a, _n=f"{n}_", **k: getattr(x, _n)(*a)) for n in ("cauchy", "exponential", "geometric", "log_normal")},
    "randint_like": random(lambda x, *a, dtype=None, device=None, layout=None, requires_grad=False, **k: G.randint_like(x, *(a or (k["low"], k["high"])), dtype=dtype)),
    "uniform": random(lambda x, a=0.0, b=1.0: x.uniform_(a, b)),
    "normal": random(lambda mean, std=None, *a, **k: mean.normal_(*(v for v in (std, *a) if v is not None)) if isinstance(mean, grilly.Tensor) and not isinstance(std, grilly.Tensor) and (a or std is None) else G.normal(mean, std, *a)),
}  # fmt: skip

#: Through the methods, which have PyTorch's signature and call the functions.
METHODS = method(
    "addcmul addcdiv aminmax argwhere bincount corrcoef cov cummax cummin diag diag_embed diff dist dsplit float_power histc "
    "hsplit index_copy index_fill index_put index_reduce inner isclose kron kthvalue lerp logcumsumexp logit "
    "masked_scatter median mode nan_to_num nanmean nanmedian nanquantile nansum put quantile ravel rot90 scatter_reduce "
    "unique_consecutive vsplit"
) | method("addbmm addmm addmv addr baddbmm", tol=1e-4)

ENTRIES = {
    **ELEMENTWISE, **CASTS, **REDUCTIONS, **PRODUCTS, **RANDOM, **op_table_shape.ENTRIES, **METHODS
}  # fmt: skip

_INTERNAL = "internal to PyTorch"
_CUDA = "CUDA only"
ABSENT = {
    **dict.fromkeys(["jiterator_unary", "jiterator_binary", "jiterator_4inputs_with_extra_args", "jiterator_binary_return_by_ref", "jiterator_2inputs_2outputs"], _CUDA),
    **dict.fromkeys(["torch._scaled_mm_v2", "torch._scaled_mm", "torch.ops.aten._flash_attention_forward", "torch.ops.aten._efficient_attention_forward"], _CUDA),
    **dict.fromkeys(["_softmax_backward_data", "native_dropout_backward", "max_pool2d_with_indices_backward", "_chunk_cat", "_unsafe_masked_index", "_unsafe_masked_index_put_accumulate", "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "native_group_norm", "native_layer_norm", "_upsample_bilinear2d_aa", "hash_tensor", "_segment_reduce"], _INTERNAL),
    **dict.fromkeys(["sparse.sampled_addmm", "sparse.mm", "to_sparse"], "sparse layout"),
    **dict.fromkeys(["as_strided", "as_strided_copy", "as_strided_scatter", "empty_strided", "new_empty_strided", "empty_permuted"], "strides are not public: tensors are values"),
    **dict.fromkeys(["resize_", "resize_as_"], "storage is not public: tensors are values"),
    "chalf": "complex32 is not a dtype",
    **dict.fromkeys(["linalg.cholesky_ex", "linalg.inv_ex", "linalg.solve_ex"], "error codes in place of errors"),
    **dict.fromkeys(["linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.ldl_solve", "geqrf", "ormqr"], "LAPACK's own forms of factors, which NumPy does not bring"),
    **dict.fromkeys(["svd_lowrank", "pca_lowrank"], "randomised decompositions"),
    "torch.ops.aten._safe_softmax.default": _INTERNAL,
    **dict.fromkeys(["grid_sampler_2d", "grid_sampler_3d"], "internal forms of nn.functional.grid_sample"),
    **dict.fromkeys(
        ["masked.sum", "masked.prod", "masked.cumsum", "masked.cumprod", "masked.amax", "masked.amin", "masked.argmax", "masked.argmin", "masked.mean", "masked.median", "masked.norm", "masked.var", "masked.std", "masked.softmax", "masked.log_softmax", "masked.softmin", "masked.normalize", "masked.logaddexp", "masked.logsumexp"],
        "torch.masked is a prototype",
    ),
    **dict.fromkeys(
        ["signal.windows.hamming", "signal.windows.hann", "signal.windows.bartlett", "signal.windows.blackman", "signal.windows.cosine", "signal.windows.exponential", "signal.windows.gaussian", "signal.windows.kaiser", "signal.windows.general_cosine", "signal.windows.general_hamming", "signal.windows.nuttall"],
        "window functions: SciPy and NumPy have them",
    ),
}  # fmt: skip
