"""Making tensors: from values, from the host, and by rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.apply import apply, array_dtype, as_tensor, python_scalar
from grilly_core.config import current
from grilly_core.device import Context, Device, default_context, open_context
from grilly_core.dtypes import DType, as_dtype
from grilly_core.errors import DTypeError, ShapeError
from grilly_core.ops import primitives as p
from grilly_core.ops.structure import tri_mask
from grilly_core.ops.views import broadcast_to, reshape
from grilly_core.opspec import freeze, op
from grilly_core.tensor import Tensor

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace",
    "meshgrid", "ones",
    "ones_like", "tensor", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip

Shape = int | Sequence[int]
DeviceLike = Device | str | None


def _context(device: DeviceLike) -> Context:
    if device is not None:
        return open_context(device)
    sink = current().sink
    return sink.context if getattr(sink, "symbolic", False) else default_context()


def _shape(shape: Any) -> tuple[int, ...]:
    sizes = tuple(int(n) for n in shape) if isinstance(shape, Sequence) else (int(shape),)
    if any(n < 0 for n in sizes):
        raise ShapeError(f"shape: sizes must not be negative; received {sizes}.")
    return sizes


def _made(tensor: Tensor, requires_grad: bool) -> Tensor:
    return tensor.requires_grad_() if requires_grad else tensor


def _filled(shape: Any, value: Any, dtype: DType, device: DeviceLike, requires_grad: bool) -> Tensor:
    return _made(apply(p.full, [], (freeze(value), _shape(shape), dtype), _context(device)), requires_grad)


def full(
    shape: Shape,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor filled with one value.

    Parameters
    ----------
    shape : int or sequence of int
    fill_value : bool, int, float or complex
    dtype : DType, optional
        By default the weak type of the value: bool, int32, float32 or complex64.
    device : Device or str, optional
        By default the default device.
    requires_grad : bool

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.full((2,), 7).tolist()
    [7, 7]
    """
    scalar = python_scalar(fill_value)
    if scalar is None:
        return broadcast_to(asarray(fill_value, dtype=dtype, device=device), shape=_shape(shape)).clone()
    chosen = as_dtype(dtype) if dtype is not None else dtypes.promote_scalar(dtypes.bool_, type(scalar))
    return _filled(shape, scalar, chosen, device, requires_grad)


def zeros(
    *sizes: Any, shape: Any = None, dtype: Any = None, device: DeviceLike = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of zeros (float32 by default)."""
    return _filled(_sizes(sizes, shape), 0, as_dtype(dtype or dtypes.default_float), device, requires_grad)


def ones(
    *sizes: Any, shape: Any = None, dtype: Any = None, device: DeviceLike = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of ones (float32 by default)."""
    return _filled(_sizes(sizes, shape), 1, as_dtype(dtype or dtypes.default_float), device, requires_grad)


def empty(
    *sizes: Any, shape: Any = None, dtype: Any = None, device: DeviceLike = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor whose values do not matter; they are zeros, so that no run depends on old memory."""
    return zeros(*sizes, shape=shape, dtype=dtype, device=device, requires_grad=requires_grad)


def _sizes(sizes: tuple[Any, ...], shape: Any) -> Any:
    """Sizes one by one, as one sequence, or by the keyword `shape`."""
    if shape is not None:
        if sizes:
            raise TypeError(f"give the sizes {sizes} or shape={shape!r}, not both.")
        return shape
    return sizes[0] if len(sizes) == 1 else sizes


@op("zeros_like", nondiff=True)
def _zeros_like(x: Any) -> Tensor:
    """Zeros with the shape, dtype and device of a tensor."""
    return p.full(value=0, shape=x.shape, dtype=x.dtype)


@op("ones_like", nondiff=True)
def _ones_like(x: Any) -> Tensor:
    """Ones with the shape, dtype and device of a tensor."""
    return p.full(value=1, shape=x.shape, dtype=x.dtype)


for _like in (_zeros_like, _ones_like):

    @_like.samples
    def _(s: Any) -> None:
        s.case(s.f32(2, 3))
        s.case(s.i32(4))


def full_like(
    x: Any, /, fill_value: Any, *, dtype: Any = None, device: DeviceLike = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor like `x` filled with one value."""
    x = as_tensor(x)
    return _filled(
        x.shape, python_scalar(fill_value), as_dtype(dtype or x.dtype), device or x.device, requires_grad
    )


def zeros_like(
    x: Any, /, *, dtype: Any = None, device: DeviceLike = None, requires_grad: bool = False
) -> Tensor:
    """Return zeros with the shape of `x`."""
    return full_like(x, 0, dtype=dtype, device=device, requires_grad=requires_grad)


def ones_like(
    x: Any, /, *, dtype: Any = None, device: DeviceLike = None, requires_grad: bool = False
) -> Tensor:
    """Return ones with the shape of `x`."""
    return full_like(x, 1, dtype=dtype, device=device, requires_grad=requires_grad)


def empty_like(
    x: Any, /, *, dtype: Any = None, device: DeviceLike = None, requires_grad: bool = False
) -> Tensor:
    """Return zeros with the shape of `x`; see `empty`."""
    return zeros_like(x, dtype=dtype, device=device, requires_grad=requires_grad)


def asarray(
    obj: Any,
    /,
    *,
    dtype: Any = None,
    device: DeviceLike = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return `obj` as a tensor.

    Parameters
    ----------
    obj : Tensor, array, nested sequence, number or object with ``__dlpack__``
    dtype : DType, optional
        By default a tensor's own; floating arrays and numbers become float32, Python integers int32, NumPy integers
        and bools stay.
    device : Device or str, optional
        By default a tensor's own, else the default device.
    copy : bool, optional
        False shares memory with a NumPy array on the CPU, and raises where that is impossible; the caller
        then promises not
        to write to the array. True always copies.
    requires_grad : bool

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.asarray([1, 2]).dtype, grilly.asarray([1.0]).dtype
    (grilly.int32, grilly.float32)
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(obj, Tensor):
        return _made(_moved(obj, wanted, device, copy), requires_grad)
    if (
        not isinstance(obj, np.ndarray)
        and hasattr(obj, "__dlpack__")
        and not hasattr(obj, "__array_interface__")
    ):
        return _made(_moved(from_dlpack(obj), wanted, device, copy), requires_grad)
    array = _host_array(obj)
    if wanted is None:
        wanted = _default_dtype(obj, array)
    context = _context(device)
    if copy is False:
        if (
            not context.host_mapped
            or array.dtype != wanted.numpy
            or not array.flags.c_contiguous
            or not isinstance(obj, np.ndarray)
        ):
            raise ValueError(
                f"asarray(copy=False): a {array.dtype} array cannot be shared as {wanted.name} on {context.device}; "
                "leave copy out to allow a copy."
            )
        return _made(Tensor(context.upload(array, wanted, copy=False)), requires_grad)
    return _made(Tensor(context.upload(_converted(array, wanted), wanted)), requires_grad)


def _host_array(obj: Any) -> Any:
    if isinstance(obj, list | tuple) and _holds_tensors(obj):
        obj = [x.detach().numpy() if isinstance(x, Tensor) else x for x in obj]
    try:
        array = np.asarray(obj)
    except ValueError as error:
        raise ShapeError(
            f"asarray: the nested sequence is ragged ({error}); every row must have the same length."
        ) from error
    if array.dtype == object:
        raise DTypeError(
            f"asarray: expected numbers; received {type(obj).__name__} holding other objects: {obj!r:.80}"
        )
    return array


def _holds_tensors(obj: Sequence[Any]) -> bool:
    return any(isinstance(x, Tensor) for x in obj)


def _default_dtype(obj: Any, array: Any) -> DType:
    scalar = python_scalar(obj)
    if scalar is not None:
        return (
            dtypes.promote_scalar(dtypes.bool_, type(scalar))
            if type(obj) in (bool, int, float, complex)
            else array_dtype(array)
        )
    dtype = array_dtype(array)
    if dtype is dtypes.int64 and isinstance(obj, list | tuple | range):
        if array.size and (array.min() < -(2**31) or array.max() >= 2**31):
            raise DTypeError("asarray: an integer does not fit int32, the default; pass dtype=int64.")
        return dtypes.default_int
    return dtype


def _converted(array: Any, dtype: DType) -> Any:
    if array.dtype.kind == "c" and not dtype.is_complex:
        raise DTypeError(f"asarray: complex values do not fit {dtype.name}; take .real first.")
    if array.dtype.kind in "iu" and dtype.is_integer and array.size:
        info = np.iinfo(dtype.numpy)
        if array.min() < info.min or array.max() > info.max:
            raise DTypeError(
                f"asarray: a value does not fit {dtype.name} ({info.min} to {info.max}); choose a wider dtype."
            )
    return array


def _moved(x: Tensor, dtype: DType | None, device: DeviceLike, copy: bool | None) -> Tensor:
    target = x.device if device is None else Device(device)
    changes = target != x.device or (dtype is not None and dtype is not x.dtype)
    if copy is False and changes:
        raise ValueError("asarray(copy=False): another device or dtype needs a copy.")
    result = x.to(target, dtype or x.dtype)
    return result.clone() if copy and not changes else result


def tensor(data: Any, *, dtype: Any = None, device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """Return a new leaf tensor holding a copy of `data`; see `asarray` for the dtypes.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.tensor([[1.0, 2.0]]).shape
    (1, 2)
    """
    made = asarray(data, dtype=dtype, device=device, copy=True)
    return _made(Tensor(made._value), requires_grad)


def from_dlpack(x: Any, /, *, device: DeviceLike = None, copy: bool | None = None) -> Tensor:
    """Return a tensor that shares the memory of another library's array, where that is possible.

    Parameters
    ----------
    x : object with ``__dlpack__`` and ``__dlpack_device__``
    device : Device or str, optional
        Where the result lives; another device than the producer's means a copy.
    copy : bool, optional
        True copies, False raises where sharing is impossible.
    """
    array = np.from_dlpack(x)
    context = _context(device)
    dtype = dtypes.from_numpy(array.dtype)
    shareable = context.host_mapped and array.flags.c_contiguous
    if copy is False and not shareable:
        raise BufferError(
            f"from_dlpack(copy=False): the memory cannot be shared with {context.device}; leave copy out."
        )
    return Tensor(context.upload(array, dtype, copy=bool(copy) or not shareable))


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: DeviceLike = None
) -> Tensor:
    """Return evenly spaced numbers from `start` (0 if only one number is given) up to, not including, `stop`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.arange(1, 6, 2).tolist()
    [1, 3, 5]
    """
    if stop is None:
        start, stop = 0, start
    start, stop, step = (x.item() if isinstance(x, Tensor | np.generic) else x for x in (start, stop, step))
    if step == 0:
        raise ValueError("arange: step must not be 0.")
    size = int(max_of(math.ceil((stop - start) / step), 0))
    if dtype is None:
        dtype = (
            dtypes.default_float
            if any(isinstance(x, float) for x in (start, stop, step))
            else dtypes.default_int
        )
    return apply(p.iota, [], (size, start, step, as_dtype(dtype)), _context(device))  # type: ignore[no-any-return]


def max_of(a: int, b: int) -> int:
    """The larger of two integers."""
    return a if a > b else b


def linspace(
    start: float,
    stop: float,
    /,
    num: int = 50,
    *,
    dtype: Any = None,
    device: DeviceLike = None,
    endpoint: bool = True,
) -> Tensor:
    """Return `num` evenly spaced numbers from `start` to `stop` (complex ones if an end is complex)."""
    first, last = plain_number(start), plain_number(stop)
    kind = (
        dtypes.complex64 if isinstance(first, complex) or isinstance(last, complex) else dtypes.default_float
    )
    values = np.linspace(first, last, num, endpoint=endpoint)
    return asarray(values, dtype=as_dtype(dtype or kind), device=device)


def plain_number(value: Any) -> Any:
    """Return a number, a 0-d array or a 0-d tensor as a Python number."""
    return value.item() if isinstance(value, Tensor | np.ndarray | np.generic) else value


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: DeviceLike = None
) -> Tensor:
    """Return ones on the k-th diagonal and zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    context = _context(device)
    upper = apply(tri_mask, [], (n_rows, n_cols, k), context)
    lower = apply(tri_mask, [], (n_rows, n_cols, k - 1), context)
    return p.cast(upper ^ lower, dtype=as_dtype(dtype or dtypes.default_float))


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Tensor]:
    """Return coordinate tensors of 1-D tensors; ``indexing`` is ``"xy"`` (Cartesian) or ``"ij"`` (matrix)."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij'; received {indexing!r}.")
    tensors = [reshape(t, shape=(1,)) if t.ndim == 0 else t for t in map(as_tensor, arrays)]
    if any(t.ndim != 1 for t in tensors):
        raise ShapeError(f"meshgrid: expected 1-D tensors; received {[t.shape for t in tensors]}.")
    n = len(tensors)
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    shape = [0] * n
    for i, t in enumerate(tensors):
        shape[order[i]] = t.shape[0]
    out = []
    for i, t in enumerate(tensors):
        column = reshape(t, shape=tuple(-1 if a == order[i] else 1 for a in range(n)))
        out.append(broadcast_to(column, shape=tuple(shape)).clone())
    return out


def _zero_of(x: Any) -> Any:
    """A zero that keeps the dtype: the number 0 would make booleans integers."""
    return False if x.dtype is dtypes.bool_ else 0


@op("tril")
def _tril(x: Any, *, k: int = 0) -> Tensor:
    """The lower triangle of matrices: zero above the k-th diagonal."""
    return p.where(tri_mask(rows=x.shape[-2], cols=x.shape[-1], k=k), x, _zero_of(x))


@op("triu")
def _triu(x: Any, *, k: int = 0) -> Tensor:
    """The upper triangle of matrices: zero below the k-th diagonal."""
    return p.where(tri_mask(rows=x.shape[-2], cols=x.shape[-1], k=k - 1), _zero_of(x), x)


for _tri, _oracle in ((_tril, np.tril), (_triu, np.triu)):
    _tri.reference(lambda x, *, k, _oracle=_oracle: _oracle(x, k))

    @_tri.samples
    def _(s: Any) -> None:
        s.case(s.f32(3, 4), k=1)
        s.case(s.f32(2, 3, 3))
        s.case(s.f32(3, 3) > 0)


def tril(x: Any, /, *, k: int = 0) -> Tensor:
    """Return the lower triangle of matrices: zero above the k-th diagonal."""
    return _tril(as_tensor(x), k=k)


def triu(x: Any, /, *, k: int = 0) -> Tensor:
    """Return the upper triangle of matrices: zero below the k-th diagonal."""
    return _triu(as_tensor(x), k=k)
