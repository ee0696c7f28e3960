"""The protocols by which NumPy and other libraries meet tensors: arrays, ufuncs, functions, DLPack, the Array API."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from grilly_core import registry
from grilly_core.errors import AutogradError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grilly_core.buffer import View
    from grilly_core.tape import Leaf, Node

__all__ = ["NumPyProtocols"]

#: NumPy ufunc → op.
_SAME = """
    add expm1 exp exp2 log log10 log1p log2 logaddexp sqrt square reciprocal sin cos tan sinh cosh tanh floor ceil trunc
    maximum minimum hypot copysign isnan isinf isfinite signbit bitwise_and bitwise_or bitwise_xor logical_and
    logical_or logical_not logical_xor remainder sign nextafter
"""
_RENAMED = """
    subtract=sub multiply=mul divide=div true_divide=div floor_divide=floordiv negative=neg absolute=abs
    power=pow float_power=pow matmul=matmul_any equal=eq not_equal=ne less=lt less_equal=le greater=gt greater_equal=ge
    arcsin=asin arccos=acos arctan=atan arctan2=atan2 arcsinh=asinh arccosh=acosh arctanh=atanh invert=bitwise_not
    left_shift=shift_left right_shift=shift_right conjugate=conj
"""
_UFUNCS: Final[dict[str, str]] = {n: n for n in _SAME.split()} | dict(
    pair.split("=") for pair in _RENAMED.split()
)
_REDUCING: Final = {
    "add": "sum",
    "maximum": "max",
    "minimum": "min",
    "multiply": "prod",
    "logical_or": "any",
    "logical_and": "all",
}


def _reduction(name: str) -> Callable[..., Any]:
    def call(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
        keep = bool(keepdims) if keepdims is not np._NoValue else False
        return registry.get(name)(a, axis=axis, keepdims=keep)

    return call


def _api(name: str) -> Callable[..., Any]:
    """The function of the public namespace with that name."""

    def call(*args: Any, **kwargs: Any) -> Any:
        import grilly_core

        return getattr(grilly_core, name)(*args, **kwargs)

    return call


def _index(name: str) -> Callable[..., Any]:
    return lambda a, axis=None: _api(name)(a, axis=axis)


def _along(name: str, default: int = -1) -> Callable[..., Any]:
    return lambda a, axis=default: _api(name)(a, axis=axis)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{n: _reduction(n) for n in ("sum", "mean", "prod", "max", "min", "any", "all")},
    "amax": _reduction("max"),
    "amin": _reduction("min"),
    **{n: _index(n) for n in ("argmax", "argmin")},
    "concatenate": lambda arrays, axis=0: _api("concat")(arrays, axis=axis),
    "concat": lambda arrays, axis=0: _api("concat")(arrays, axis=axis),
    "stack": lambda arrays, axis=0: _api("stack")(arrays, axis=axis),
    "where": lambda condition, x, y: registry.get("where")(condition, x, y),
    "transpose": lambda a, axes=None: a.permute(*(axes or range(a.ndim)[::-1])),
    "permute_dims": lambda a, axes=None: a.permute(*(axes or range(a.ndim)[::-1])),
    "matrix_transpose": lambda a: a.mT,
    "reshape": lambda a, shape: a.reshape(shape),
    "ravel": lambda a: a.reshape(-1),
    "squeeze": lambda a, axis=None: a.squeeze(axis),
    "expand_dims": lambda a, axis: _api("expand_dims")(a, axis=axis),
    "broadcast_to": lambda a, shape: _api("broadcast_to")(a, shape),
    "moveaxis": lambda a, source, destination: _api("moveaxis")(a, source, destination),
    "swapaxes": lambda a, axis1, axis2: a.transpose(axis1, axis2),
    "flip": lambda a, axis=None: _api("flip")(a, axis=axis),
    "roll": lambda a, shift, axis=None: _api("roll")(a, shift, axis=axis),
    "tile": lambda a, reps: _api("tile")(a, reps),
    "repeat": lambda a, repeats, axis=None: _api("repeat")(a, repeats, axis=axis),
    "clip": lambda a, a_min=None, a_max=None: a.clamp(a_min, a_max),
    "dot": lambda a, b: registry.get("matmul_any")(a, b),
    "tensordot": lambda a, b, axes=2: _api("tensordot")(a, b, axes=axes),
    "take": lambda a, indices, axis=None: _api("take")(a, indices, axis=axis),
    "cumsum": lambda a, axis: a.cumsum(axis),
    "sort": _along("sort"),
    "argsort": _along("argsort"),
    "nonzero": lambda a: _api("nonzero")(a),
    "var": lambda a, axis=None, ddof=0: _api("var")(a, axis=axis, correction=ddof),
    "std": lambda a, axis=None, ddof=0: _api("std")(a, axis=axis, correction=ddof),
    "tril": lambda a, k=0: a.tril(k),
    "triu": lambda a, k=0: a.triu(k),
    "copy": lambda a: a.clone(),
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "size": lambda a: a.numel(),
    **{n: _api(n) for n in ("zeros_like", "ones_like", "full_like", "empty_like")},
    "allclose": lambda a, b, **options: np.allclose(_plain(a), _plain(b), **options),
    "array_equal": lambda a, b: np.array_equal(_plain(a), _plain(b)),
}  # fmt: skip


def _plain(x: Any) -> Any:
    return x.detach().numpy() if isinstance(x, NumPyProtocols) else x


class NumPyProtocols:
    """What NumPy asks of a tensor: ufuncs and functions give tensors and record gradients."""

    __slots__ = ()

    if TYPE_CHECKING:
        _value: View
        _node: Node | Leaf | None

        def detach(self) -> Any: ...  # noqa: D102 - for the type checker

        def numpy(self, *, copy: bool = False) -> NDArray[Any]: ...  # noqa: D102 - for the type checker

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array = self.numpy()
        changes = dtype is not None and np.dtype(dtype) != array.dtype
        if copy is False and (changes or self._value.array is None):
            raise ValueError(
                f"a copy of the tensor is needed (device {self._value.spec.context.device}, {array.dtype} to "
                f"{dtype}), and "
                "copy=False forbids it."
            )
        if changes:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        name = ufunc.__name__
        if method == "__call__" and not kwargs and name in _UFUNCS:
            return registry.get(_UFUNCS[name])(*inputs)
        if method == "reduce" and name in _REDUCING and not set(kwargs) - {"axis", "keepdims"}:
            axis = kwargs.get("axis", 0)
            return registry.get(_REDUCING[name])(inputs[0], axis=axis, keepdims=kwargs.get("keepdims", False))
        return NotImplemented

    def __array_function__(self, function: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        known = _FUNCTIONS.get(function.__name__)
        if known is None:
            return NotImplemented
        return known(*args, **kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> types.ModuleType:
        """Return the module that holds the Array API's functions."""
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"api_version: 2024.12 and earlier are served; received {api_version!r}.")
        import grilly_core

        return grilly_core

    def __dlpack__(self, **kwargs: Any) -> Any:
        if self._node is not None:
            raise AutogradError(
                "__dlpack__ of a tensor that requires grad would drop its history; call .detach() first."
            )
        view = self._value
        if view.array is None:
            return view.spec.context.download(view).__dlpack__(**kwargs)
        view.buffer.shared = True
        return view.array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # host memory: other devices hand out a copy
