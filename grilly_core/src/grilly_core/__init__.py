"""The core of grilly: public names, imported when they are first used.

Nothing is imported here but the machinery of the table below, so ``import grilly_core`` loads no NumPy. To
publish a name, add it to the line of the module that defines it.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any, Final

__version__ = "0.1.0"

#: Module → names it defines; ``public=attribute`` where the two differ.
_MODULES: Final = {
    "grilly_core.ops.creation": """
        arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tensor tril triu
        zeros zeros_like
    """,
    "grilly_core.ops.math": """
        abs add atan2 bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
        ceil clip conj copysign cos divide equal erf exp expm1 floor floor_divide greater greater_equal imag
        isfinite isinf isnan less less_equal log log1p logical_and logical_not logical_or logical_xor maximum
        minimum multiply negative nextafter not_equal positive pow real reciprocal remainder round rsqrt sign
        signbit sin sqrt square subtract tanh trunc where
    """,
    "grilly_core.ops.elementary": """
        acos acosh asin asinh atan atanh cosh exp2 hypot log10 log2 logaddexp sinh tan
    """,
    "grilly_core.ops.arithmetic": """
        addcdiv addcmul angle complex deg2rad float_power fmax fmin fmod frac frexp gcd heaviside isclose isneginf
        isposinf isreal lcm ldexp lerp logaddexp2 logit nan_to_num polar rad2deg sgn sinc xlogy
    """,
    "grilly_core.ops.special": "erfc erfinv sigmoid=expit",
    "grilly_core.ops.gamma": "digamma lgamma",
    "grilly_core.ops.bessel": "i0",
    "grilly_core.ops.reduce": "all any argmax argmin count_nonzero logsumexp max mean min prod std sum var",
    "grilly_core.ops.scan": """
        cummax cummin cumulative_prod cumulative_sum cumulative_trapezoid diff gradient logcumsumexp trapezoid
    """,
    "grilly_core.ops.statistics": """
        aminmax corrcoef cov kthvalue median mode nanmean nanmedian nanquantile nansum quantile renorm std_mean var_mean
    """,
    "grilly_core.ops.histograms": "bincount histc histogram",
    "grilly_core.ops.index": "argsort nonzero sort take take_along_axis",
    "grilly_core.ops.placing": """
        diagonal_scatter index_copy index_fill index_put index_reduce masked_scatter masked_select put scatter_reduce
        select_scatter slice_scatter
    """,
    "grilly_core.ops.sets": """
        isin searchsorted unique unique_all unique_consecutive unique_counts unique_inverse unique_values
    """,
    "grilly_core.ops.arrange": """
        argwhere atleast_1d atleast_2d atleast_3d column_stack diag diag_embed diagflat dsplit dstack hsplit hstack
        logspace ravel rot90 tensor_split tril_indices triu_indices unravel_index vsplit vstack
    """,
    "grilly_core.ops.products": """
        addbmm addmm addmv addr baddbmm block_diag cartesian_prod cdist combinations dist inner kron pdist
    """,
    "grilly_core.ops.einsum": "einsum",
    "grilly_core.ops.complex": "view_as_complex view_as_real",
    "grilly_core.ops.manipulate": """
        broadcast_arrays broadcast_shapes broadcast_to concat expand_dims flip matrix_transpose moveaxis permute_dims
        repeat reshape roll squeeze stack tile unstack
    """,
    "grilly_core.ops.linalg": "matmul tensordot vecdot",
    "grilly_core.inspection": "astype can_cast finfo iinfo isdtype result_type __array_namespace_info__",
    "grilly_core.dtypes": """
        DType bool=bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64
        complex128
    """,
    "grilly_core.device": "Device default_device set_default_device",
    "grilly_core.tensor": "Tensor Variable=Tensor",
    "grilly_core.config": """
        autocast deterministic enable_grad fallback is_autocast_enabled is_grad_enabled matmul_precision no_grad
        set_grad_enabled
    """,
    "grilly_core.autograd": "grad custom_vjp",
    "grilly_core.gradcheck": "gradcheck",
    "grilly_core.capture": "capture",
    "grilly_core.checkpointing": "checkpoint checkpoint_sequential",
    "grilly_core.profile": "profile",
    "grilly_core.random": "Generator manual_seed",
    "grilly_core.ops.random": """
        bernoulli multinomial normal permutation rand rand_like randint randint_like randn randn_like randperm uniform
    """,
    "grilly_core.opspec": "op primitive",
    "grilly_core.compute": "Compute",
    "grilly_core.errors": """
        AmbiguousPluginError AutogradError CaptureError DTypeError DataWorkerError DeviceError FallbackError
        FallbackWarning FileFormatError GrillyError MissingPluginError NoKernelError OutOfMemoryError PluginError
        PluginWarning RegistrationError ShapeError StateDictError WriteError
    """,
}
_CONSTANTS: Final = {
    "e": 2.718281828459045,
    "pi": 3.141592653589793,
    "inf": float("inf"),
    "nan": float("nan"),
    "newaxis": None,
}
_SUBMODULES: Final = frozenset(
    [
        "amp",
        "autograd",
        "data",
        "decoding",
        "fft",
        "functional",
        "io",
        "linalg",
        "lora",
        "nn",
        "optim",
        "random",
        "special",
        "testing",
        "training",
    ]
)


def _table() -> dict[str, tuple[str, str]]:
    table = {}
    for module, names in _MODULES.items():
        for word in names.split():
            public, _, attribute = word.partition("=")
            table[public] = (module, attribute or public)
    return table


_TABLE: Final = _table()
__all__ = sorted(name for name in (*_TABLE, *_CONSTANTS) if not name.startswith("_"))


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name in _TABLE:
        module, attribute = _TABLE[name]
        value = getattr(importlib.import_module(module), attribute)
    elif name in _SUBMODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES, "__version__"})


class _Package(types.ModuleType):
    """A package whose public names win over submodules of the same name.

    Importing ``grilly_core.capture`` would make the import system set the attribute ``capture`` of the package to the
    module; users must go on finding the function there. ``from grilly_core.capture import ...`` is not affected.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, types.ModuleType) and name in _TABLE):
            super().__setattr__(name, value)


globals().update(_CONSTANTS)
sys.modules[__name__].__class__ = _Package
