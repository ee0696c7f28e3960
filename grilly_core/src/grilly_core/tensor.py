"""`Tensor`: a cell that holds a value, and the short path from a call to a kernel.

A tensor is a value: views share storage inside but never alias for the user. Writing replaces the value of
this one object. Methods reach ops through `Handle`, so that this layer does not import the ops above it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from grilly_core import config, dtypes, opspec, registry, resolve
from grilly_core.buffer import Spec, View, is_sole_owner
from grilly_core.device import Context, Device, default_context
from grilly_core.dtypes import DType
from grilly_core.errors import AutogradError, CaptureError, DTypeError, ShapeError, WriteError
from grilly_core.methods import TensorMethods
from grilly_core.opspec import Handle, Op
from grilly_core.plan import EAGER, Plan, SymbolicBuffer
from grilly_core.tape import Edge, Leaf, Node

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Handle", "Tensor", "apply", "as_tensor", "plan_of", "wrap"]

_CACHE_LIMIT: Final = 8192
_plans: dict[tuple[Any, ...], Plan] = {}
registry.on_change(_plans.clear)
_state = config.current
_SCALARS: Final = (bool, int, float, complex, np.number, np.bool_)


_abs: Final = Handle("abs")
_add: Final = Handle("add")
_bitwise_and: Final = Handle("bitwise_and")
_bitwise_not: Final = Handle("bitwise_not")
_bitwise_or: Final = Handle("bitwise_or")
_bitwise_xor: Final = Handle("bitwise_xor")
_div: Final = Handle("div")
_eq: Final = Handle("eq")
_floordiv: Final = Handle("floordiv")
_ge: Final = Handle("ge")
_gt: Final = Handle("gt")
_le: Final = Handle("le")
_lt: Final = Handle("lt")
_matmul_any: Final = Handle("matmul_any")
_mul: Final = Handle("mul")
_ne: Final = Handle("ne")
_neg: Final = Handle("neg")
_pow: Final = Handle("pow")
_remainder: Final = Handle("remainder")
_shift_left: Final = Handle("shift_left")
_shift_right: Final = Handle("shift_right")
_sub: Final = Handle("sub")


def _evict() -> None:
    """Drop the plans that were not used since the last time (a clock approximation of least recently used)."""
    for key, plan in list(_plans.items()):
        if plan.used:
            plan.used = False
        else:
            _plans.pop(key, None)
    if len(_plans) >= _CACHE_LIMIT:
        for key in list(_plans)[: _CACHE_LIMIT // 2]:
            _plans.pop(key, None)


def plan_of(
    op: Op[Any, Any], specs: Sequence[Spec | None], values: tuple[Any, ...], state: config.State, record: bool,
    context: Context | None = None,
) -> Plan:  # fmt: skip
    """Return the cached plan of an op, building it on first use."""
    key = (op, *specs, values, state.policy, record, context)
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= _CACHE_LIMIT:
            _evict()
        generation = registry.generation[0]
        plan = resolve.build(op, specs, values, state, record, context)
        if generation == registry.generation[0]:
            _plans[key] = plan
    plan.used = True
    return plan


class Tensor(TensorMethods):
    """An n-dimensional array on a device, whose history can be recorded for gradients.

    Make one with `grilly.tensor`, `grilly.asarray`, `grilly.zeros` and their like.

    Attributes
    ----------
    shape : tuple of int
    dtype : DType
    device : Device
    requires_grad : bool
    grad : Tensor or None
        The accumulated gradient of a leaf.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad.tolist()
    [2.0, 4.0]
    """

    __slots__ = ("__weakref__", "_index", "_node", "_value", "_view_of")
    __array_priority__ = 1000
    __hash__ = object.__hash__

    def __init__(
        self, value: View, node: Node | Leaf | None = None, index: int = 0, view_of: str = ""
    ) -> None:
        self._value = value
        self._node = node
        self._index = index
        self._view_of = view_of

    # -- facts ---------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._value.spec.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._value.spec.dtype

    @property
    def device(self) -> Device:
        """Where the elements are."""
        return self._value.spec.context.device

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._value.spec.ndim

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made it."""
        return not isinstance(self._node, Node)

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to or through it."""
        return self._node is not None

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.requires_grad_(flag)

    def requires_grad_(self, flag: bool = True) -> Tensor:
        """Start or stop watching this leaf; returns itself."""
        if not flag:
            if isinstance(self._node, Node):
                raise AutogradError(
                    "requires_grad_(False) on the result of an op; use .detach() for a copy without history."
                )
            self._node = None
        elif self._node is None:
            if not self.dtype.is_differentiable:
                raise AutogradError(
                    f"only floating and complex tensors can require grad; this one is {self.dtype.name}."
                )
            self._node = Leaf()
        return self

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient, or None."""
        node = self._node
        if isinstance(node, Leaf):
            return node.grad
        if node is not None and node.retained and self._index in node.retained:
            return node.retained[self._index].grad
        return None

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        node = self._node
        if not isinstance(node, Leaf):
            if value is None:
                return
            raise AutogradError("grad can be set on a leaf that requires grad; call requires_grad_() first.")
        if value is not None:
            value = as_tensor(value, self)
            if value.shape != self.shape or value.dtype is not self.dtype or value.device != self.device:
                raise ShapeError(
                    f"grad: expected {self._value.spec!r}; received {value._value.spec!r}; "
                    "a gradient has its tensor's shape, dtype and device."
                )
        node.grad = value

    def retain_grad(self) -> None:
        """Keep the gradient of this intermediate result in `.grad` after `backward`."""
        if isinstance(self._node, Node):
            if self._node.retained is None:
                self._node.retained = {}
            self._node.retained.setdefault(self._index, Leaf())
        elif self._node is None:
            raise AutogradError("retain_grad() on a tensor that does not require grad.")

    # -- host reads ----------------------------------------------------------------------------------------

    def _host(self) -> NDArray[Any]:
        view = self._value
        sink = _state().sink
        if isinstance(view.buffer, SymbolicBuffer):
            raise CaptureError(
                "the body of an op may not read values: it runs once on shapes. Write it with ops such as where()."
            )
        if sink is not None:
            refuse = getattr(sink, "refuse_read", None)
            if refuse is not None:
                refuse()
        return view.spec.context.download(view)

    def numpy(self, *, copy: bool = False) -> NDArray[Any]:
        """Return the elements as a NumPy array.

        Parameters
        ----------
        copy : bool
            False (default) gives a read-only view of the same memory on the CPU (a copy from other devices);
            True gives a writable copy.

        Raises
        ------
        AutogradError
            If the tensor requires grad; call `detach` first.
        """
        if self._node is not None:
            raise AutogradError(
                "numpy() on a tensor that requires grad would drop its history; call .detach().numpy()."
            )
        array = self._host()
        if copy:
            return array.copy()
        if self._value.array is not None:
            self._value.buffer.shared = True
            array = array.view()
        array.flags.writeable = False
        return array

    def item(self) -> Any:
        """Return the only element as a Python number."""
        if self._value.spec.size != 1:
            raise ShapeError(
                f"item() needs exactly one element; this tensor has shape {self.shape}. Use .tolist()."
            )
        return self._host().item()

    def tolist(self) -> Any:
        """Return nested lists of Python numbers."""
        return self._host().tolist()

    def __bool__(self) -> bool:
        if self._value.spec.size != 1:
            raise ValueError(
                f"the truth of a tensor of shape {self.shape} is ambiguous; use .any() or .all()."
            )
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if not (self.dtype.is_integer or self.dtype.kind == "b"):
            raise TypeError(f"only an integer tensor can be an index; this one is {self.dtype.name}.")
        return int(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Any:
        if not self.shape:
            raise TypeError("a 0-d tensor cannot be iterated; use .item().")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, item: Any) -> bool:
        return bool((self == item).any())

    def __repr__(self) -> str:
        if isinstance(self._value.buffer, SymbolicBuffer):
            return f"tensor(<{self._value.spec!r}>)"
        body = np.array2string(self._host(), separator=", ", prefix="tensor(", threshold=1000)
        extras = (
            [] if self.dtype in (dtypes.float32, dtypes.int32, dtypes.bool_) else [f"dtype={self.dtype.name}"]
        )
        if self.device.backend != "cpu":
            extras.append(f"device='{self.device}'")
        if isinstance(self._node, Node):
            extras.append(f"grad_fn=<{self._node.op.name}>")
        elif self._node is not None:
            extras.append("requires_grad=True")
        return f"tensor({', '.join([body, *extras])})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self._value.spec.size == 1 else str(self)

    # -- operators -----------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Tensor:
        return binary(_add, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return binary(_add, other, self)

    def __sub__(self, other: Any) -> Tensor:
        return binary(_sub, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return binary(_sub, other, self)

    def __mul__(self, other: Any) -> Tensor:
        return binary(_mul, self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return binary(_mul, other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return binary(_div, self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return binary(_div, other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return binary(_floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return binary(_floordiv, other, self)

    def __mod__(self, other: Any) -> Tensor:
        return binary(_remainder, self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return binary(_remainder, other, self)

    def __pow__(self, other: Any) -> Tensor:
        return binary(_pow, self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return binary(_pow, other, self)

    def __and__(self, other: Any) -> Tensor:
        return binary(_bitwise_and, self, other)

    def __rand__(self, other: Any) -> Tensor:
        return binary(_bitwise_and, other, self)

    def __or__(self, other: Any) -> Tensor:
        return binary(_bitwise_or, self, other)

    def __ror__(self, other: Any) -> Tensor:
        return binary(_bitwise_or, other, self)

    def __xor__(self, other: Any) -> Tensor:
        return binary(_bitwise_xor, self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return binary(_bitwise_xor, other, self)

    def __lshift__(self, other: Any) -> Tensor:
        return binary(_shift_left, self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return binary(_shift_left, other, self)

    def __rshift__(self, other: Any) -> Tensor:
        return binary(_shift_right, self, other)

    def __rrshift__(self, other: Any) -> Tensor:
        return binary(_shift_right, other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return binary(_matmul_any, self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return binary(_matmul_any, other, self)

    def __lt__(self, other: Any) -> Tensor:
        return binary(_lt, self, other)

    def __le__(self, other: Any) -> Tensor:
        return binary(_le, self, other)

    def __gt__(self, other: Any) -> Tensor:
        return binary(_gt, self, other)

    def __ge__(self, other: Any) -> Tensor:
        return binary(_ge, self, other)

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        return binary(_eq, self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return binary(_ne, self, other)

    def __iadd__(self, other: Any) -> Tensor:
        return self._assign(binary(_add, self, other), "an augmented assignment")

    def __isub__(self, other: Any) -> Tensor:
        return self._assign(binary(_sub, self, other), "an augmented assignment")

    def __imul__(self, other: Any) -> Tensor:
        return self._assign(binary(_mul, self, other), "an augmented assignment")

    def __itruediv__(self, other: Any) -> Tensor:
        return self._assign(binary(_div, self, other), "an augmented assignment")

    def __ifloordiv__(self, other: Any) -> Tensor:
        return self._assign(binary(_floordiv, self, other), "an augmented assignment")

    def __imod__(self, other: Any) -> Tensor:
        return self._assign(binary(_remainder, self, other), "an augmented assignment")

    def __ipow__(self, other: Any) -> Tensor:
        return self._assign(binary(_pow, self, other), "an augmented assignment")

    def __iand__(self, other: Any) -> Tensor:
        return self._assign(binary(_bitwise_and, self, other), "an augmented assignment")

    def __ior__(self, other: Any) -> Tensor:
        return self._assign(binary(_bitwise_or, self, other), "an augmented assignment")

    def __ixor__(self, other: Any) -> Tensor:
        return self._assign(binary(_bitwise_xor, self, other), "an augmented assignment")

    def __ilshift__(self, other: Any) -> Tensor:
        return self._assign(binary(_shift_left, self, other), "an augmented assignment")

    def __irshift__(self, other: Any) -> Tensor:
        return self._assign(binary(_shift_right, self, other), "an augmented assignment")

    def __imatmul__(self, other: Any) -> Tensor:
        return self._assign(binary(_matmul_any, self, other), "an augmented assignment")

    def __neg__(self) -> Tensor:
        return unary(_neg, self)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return unary(_abs, self)

    def __invert__(self) -> Tensor:
        return unary(_bitwise_not, self)

    # -- indexing ------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tensor:
        from grilly_core import indexing

        return indexing.getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        from grilly_core import indexing

        indexing.setitem(self, key, value)

    # -- values --------------------------------------------------------------------------------------------

    def detach(self) -> Tensor:
        """Return the same value without history."""
        return Tensor(self._value, view_of="a detached tensor")

    @property
    def data(self) -> Tensor:
        """The value without history; writing to it is refused (use ``no_grad`` and write to the tensor itself)."""
        return self.detach()

    def _assign(self, new: Tensor, what: str = "an in-place operation") -> Tensor:
        """Make `new`'s value this tensor's value; every write ends here."""
        if self._view_of:
            raise WriteError(
                f"{what} on {self._view_of} would not reach the tensor it came from: views never alias. "
                "Write to the tensor itself, as in x[0, 1] = 5 (under no_grad for a parameter), or to a .clone()."
            )
        grad_on = _state().grad
        if grad_on and isinstance(self._node, Leaf):
            raise WriteError(f"{what} on a leaf that requires grad; do it under grilly.no_grad().")
        if new.shape != self.shape:
            raise ShapeError(
                f"{what}: the tensor has shape {self.shape}, the new value {new.shape}; they must be equal."
            )
        if new.dtype is not self.dtype:
            if dtypes.promote(self.dtype, new.dtype) is not self.dtype:
                raise DTypeError(
                    f"{what}: a {new.dtype.name} result does not fit the tensor's {self.dtype.name}; cast with .to(...) first."
                )
            new = new.to(self.dtype)
        if new._value.spec.context is not self._value.spec.context:
            raise DTypeError(
                f"{what}: the new value is on {new.device}, the tensor on {self.device}; move it with .to(...)."
            )
        self._value = new._value
        if grad_on:
            self._node, self._index = new._node, new._index
        return self

    def backward(
        self, gradient: Any = None, retain_graph: bool = False, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Add the gradients of this tensor to `.grad` of the leaves it depends on.

        Parameters
        ----------
        gradient : Tensor, optional
            Gradient of this tensor; may be left out for a single element.
        retain_graph : bool
            Keep the recorded values for another backward pass.
        create_graph : bool
            Record the backward pass itself, for higher derivatives.
        inputs : sequence of Tensor, optional
            Only these leaves receive a gradient.
        """
        from grilly_core import autograd

        autograd.backward([self], [gradient], retain_graph, create_graph, inputs)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Callable[[], None]:
        """Call `hook(grad)` when the gradient of this tensor is known; it may return another one.

        Returns
        -------
        callable
            Removes the hook again.
        """
        from grilly_core import autograd

        return autograd.register_hook(self, hook)


# -- from Python values to tensors ---------------------------------------------------------------------------


def scalar_tensor(value: Any, dtype: DType, context: Context) -> Tensor:
    """Return a 0-d tensor of a weak scalar in `dtype` (cached by value)."""
    if value == 0 and isinstance(value, float) and math.copysign(1.0, value) < 0:  # equal to 0.0 as a key
        return Tensor(context._constant(value, dtype))
    try:
        return Tensor(context.constant(value, dtype))
    except OverflowError as error:
        raise DTypeError(
            f"the number {value} does not fit {dtype.name}; cast the tensor to a wider type first."
        ) from error


def _python_scalar(value: Any) -> Any:
    """Return a scalar or 0-d array as a Python number, or None if it is neither."""
    if isinstance(value, _SCALARS):
        return value if type(value) in (bool, int, float, complex) else value.item()
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "biufc":
        return value.item()
    return None


def array_dtype(array: NDArray[Any], floating: DType = dtypes.default_float) -> DType:
    """Return the dtype in which an array enters: floating ones as `floating`, the others as they are."""
    dtype = dtypes.from_numpy(array.dtype)
    if dtype.is_floating:
        return floating
    if dtype.is_complex:
        return dtypes.complex128 if floating is dtypes.float64 else dtypes.complex64
    return dtype


def as_tensor(value: Any, like: Tensor | None = None, dtype: DType | None = None) -> Tensor:
    """Return `value` as a tensor on the device of `like` (else the default device).

    Scalars take the dtype of `like` (weakly), floating arrays that of `like` if it is floating, else float32.
    """
    if isinstance(value, Tensor):
        return value
    state = _state()
    if like is not None:
        context = like._value.spec.context
    else:
        context = state.sink.context if getattr(state.sink, "symbolic", False) else default_context()
    scalar = _python_scalar(value)
    if scalar is not None:
        base = dtypes.bool_ if like is None else like.dtype
        return scalar_tensor(scalar, dtype or dtypes.promote_scalar(base, type(scalar)), context)
    array = np.asarray(value)
    if array.dtype == object:
        raise DTypeError(
            f"expected a tensor, an array or a number; received {type(value).__name__}: {value!r:.80}."
        )
    if dtype is None:
        floating = like.dtype if like is not None and like.dtype.is_floating else dtypes.default_float
        dtype = array_dtype(array, floating)
        if isinstance(value, list | tuple) and dtype is dtypes.int64:
            dtype = dtypes.default_int
    return Tensor(context.upload(array, dtype))


def _reference(op: Op[Any, Any], tensors: Sequence[Any]) -> Tensor | None:
    """The tensor whose device and dtype the scalars and arrays among the inputs follow."""
    given = [t for t in tensors if isinstance(t, Tensor)]
    if not given:
        return None
    if op.name == "where" and len(given) > 1 and isinstance(tensors[0], Tensor):
        given = given[1:]
    if op.elementwise:
        return max(given, key=lambda t: ("biufc".index(t.dtype.kind), t.dtype.itemsize))
    return next((t for t in given if t.dtype.is_differentiable), given[0])


def _converted(op: Op[Any, Any], tensors: list[Any]) -> list[Any]:
    like = _reference(op, tensors)
    if like is None and op.elementwise:  # arrays first, then the scalars that meet them
        arrays = [t if t is None or _python_scalar(t) is not None else as_tensor(t) for t in tensors]
        like = _reference(op, arrays)
        tensors = arrays
    if op.name == "where" and isinstance(tensors[0], bool | np.bool_):
        tensors = [as_tensor(tensors[0], like, dtypes.bool_), *tensors[1:]]
    return [t if t is None or isinstance(t, Tensor) else as_tensor(t, like) for t in tensors]


# -- running an op -------------------------------------------------------------------------------------------


def _flatten(
    op: Op[Any, Any], tensors: list[Any], values: tuple[Any, ...]
) -> tuple[list[Any], tuple[Any, ...]]:
    """Lay lists of tensors out flat; their lengths (-1: absent) become the last attribute value."""
    flat: list[Any] = []
    lengths = []
    for name, t in zip(op.schema.tensors, tensors, strict=True):
        if name not in op.schema.lists:
            flat.append(t)
        elif t is None:
            lengths.append(-1)
        else:
            if isinstance(t, Tensor) or not isinstance(t, Sequence):
                raise TypeError(f"{op.name}: {name} is a list of tensors; received {type(t).__name__}.")
            lengths.append(len(t))
            flat.extend(t)
    return flat, (*values, tuple(lengths))


def apply(
    op: Op[Any, Any], tensors: list[Any], values: tuple[Any, ...], context: Context | None = None
) -> Any:
    """Run an op on tensors in schema order and wrap what comes out; `context` places ops without inputs."""
    if op.schema.lists:
        tensors, values = _flatten(op, tensors, values)
    watched = False
    convert = False
    for t in tensors:
        if isinstance(t, Tensor):
            if t._node is not None:
                watched = True
        elif t is not None:
            convert = True
    if convert:
        tensors = _converted(op, tensors)
    state = _state()
    record = watched and state.grad and not op.nondiff
    owned = _owned(op, tensors, values, state.sink) if op.donates and not record else None
    views = [None if t is None else t._value for t in tensors]
    sink = state.sink
    if sink is None or not sink.symbolic:
        specs = [None if v is None else v.spec for v in views]
        if not any(specs):
            context = context or default_context()
        plan = plan_of(op, specs, values, state, record and op.hidden > 0, context)
        reuse = {i: views[j] for i, j in owned} if owned else None
        outs = plan.emit(EAGER if sink is None else sink, views, reuse)  # type: ignore[arg-type]
        attrs = plan.attrs
    else:
        _, outs, attrs = resolve.emit_symbolic(op, views, values, state, record and op.hidden > 0, plan_of)
    node = _recorded(op, attrs, values, tensors, views, outs) if record else None
    return wrap(op, outs, node)


def _owned(op: Op[Any, Any], tensors: list[Any], values: tuple[Any, ...], sink: Any) -> list[tuple[int, int]]:
    """Outputs that may take over the memory of the input they donate from: (output, input) pairs."""
    if sink is not None and sink.symbolic:
        return []
    may_reuse = is_sole_owner if sink is None else getattr(sink, "may_reuse", is_sole_owner)
    first: dict[str, tuple[int, int]] = {}
    position, lengths = 0, iter(values[-1] if op.schema.lists else ())
    for name in op.schema.tensors:
        size = max(next(lengths), 0) if name in op.schema.lists else 1
        first[name] = (position, size)
        position += size
    pairs, out = [], 0
    for source in op.donates.values():
        start, size = first[source]
        for k in range(start, start + size):
            if tensors[k] is not None:
                if tensors[k]._value.spec.contiguous and may_reuse(tensors[k]):
                    pairs.append((out, k))
                out += 1
    return pairs


def _recorded(
    op: Op[Any, Any], attrs: dict[str, Any], values: tuple[Any, ...], tensors: Sequence[Tensor | None],
    views: Sequence[View | None], outs: list[View],
) -> Node | None:  # fmt: skip
    edges: list[Edge | None] = [
        None if t is None or t._node is None else (t._node, t._index) for t in tensors
    ]
    if op.nondiff_inputs:
        edges = [None if n in op.nondiff_inputs else e for n, e in zip(op.schema.tensors, edges, strict=True)]
    return Node(op, attrs, values, tuple(views), tuple(outs), tuple(edges))


def wrap(op: Op[Any, Any], outs: list[View], node: Node | None) -> Any:
    """Wrap the public outputs: one tensor, or a tuple of several."""
    count = len(outs) if node is None or not op.hidden else len(outs) - op.hidden
    view_of = f"a view ({op.name})" if op.aliasing else ""
    if node is None:
        made = [Tensor(v, view_of=view_of) for v in outs[:count]]
    else:
        made = [
            Tensor(
                v, None if i in op.nondiff_outputs or not v.spec.dtype.is_differentiable else node, i, view_of
            )
            for i, v in enumerate(outs[:count])
        ]
    return made[0] if count == 1 and not op.many else tuple(made)


def _call(op: Op[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensors, values = op.bind(args, kwargs)
    return apply(op, tensors, values)


def unary(handle: Handle, a: Tensor) -> Tensor:
    """Run an elementwise op of one tensor on the shortest path."""
    return cast(Tensor, apply(handle._op or handle.op, [a], ()))


def binary(handle: Handle, a: Any, b: Any) -> Any:
    """Run an elementwise op of two operands on the shortest path.

    One tuple, one lookup, one allocation, one kernel call, one tensor; anything unusual takes `apply`.
    """
    op = handle._op or handle.op
    try:
        va, vb = a._value, b._value
    except AttributeError:
        return _mixed(handle, op, a, b)
    state = _state()
    plan: Any = _plans.get((op, va.spec, vb.spec, state.policy))
    if plan is None:
        return _first_binary(op, a, b, state)
    if state.sink is not None or not plan.simple:
        return apply(op, [a, b], ())
    plan.used = True
    spec = plan.out_spec
    out = spec.context.empty(spec)
    plan.fn(plan.stream, (out,), (va, vb), plan.attrs)
    if (a._node is not None or b._node is not None) and state.grad and not op.nondiff:
        return Tensor(out, _recorded(op, plan.attrs, (), (a, b), (va, vb), [out]))
    return Tensor(out)


def _first_binary(op: Op[Any, Any], a: Tensor, b: Tensor, state: config.State) -> Any:
    """Build the plan and file it under the short key too."""
    result = apply(op, [a, b], ())
    if state.sink is None:
        specs = (a._value.spec, b._value.spec)
        _plans[(op, *specs, state.policy)] = plan_of(op, specs, (), state, False)
    return result


def _mixed(handle: Handle, op: Op[Any, Any], a: Any, b: Any) -> Any:
    """One operand is not a tensor."""
    if isinstance(a, Tensor) and type(b) in (float, int, bool):
        spec = a._value.spec
        return binary(handle, a, scalar_tensor(b, dtypes.promote_scalar(spec.dtype, type(b)), spec.context))
    for x in (a, b):
        if not isinstance(x, (Tensor, np.ndarray, *_SCALARS)):
            return NotImplemented
    a, b = _converted(op, [a, b])
    return binary(handle, a, b)


def _run_body(op: Op[Any, Any], views: Sequence[View | None], attrs: dict[str, Any]) -> list[View]:
    """Run the body of a composite on symbolic tensors; returns the views of its results."""
    tensors: list[Any] = [None if v is None else Tensor(v) for v in views]
    attrs = dict(attrs)
    if op.schema.lists:
        tensors = _unflattened(op, tensors, attrs.pop("lengths"))
    result = op.rule(*tensors, **{k: v for k, v in attrs.items() if k in op.schema.attrs})
    outs = result if isinstance(result, tuple | list) else (result,)
    return [as_tensor(t)._value for t in outs]


def _unflattened(op: Op[Any, Any], flat: list[Any], lengths: tuple[int, ...]) -> list[Any]:
    remaining, sizes = iter(flat), iter(lengths)
    result: list[Any] = []
    for name in op.schema.tensors:
        if name not in op.schema.lists:
            result.append(next(remaining))
            continue
        size = next(sizes)
        result.append(None if size < 0 else [next(remaining) for _ in range(size)])
    return result


opspec.install_dispatcher(_call)
resolve._run_body[:] = [_run_body]
