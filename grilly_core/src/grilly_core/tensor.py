"""`Tensor`: a cell that holds a value.

A tensor is a value: views share storage inside but never alias for the user. Writing replaces the value of
this one object. Methods reach ops through `Handle`, so that this layer does not import the ops above it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from grilly_core import config, dtypes
from grilly_core.buffer import View
from grilly_core.device import Device, open_context
from grilly_core.dtypes import DType
from grilly_core.errors import AutogradError, CaptureError, DTypeError, ShapeError, WriteError
from grilly_core.methods import TensorMethods
from grilly_core.operators import OperatorMethods
from grilly_core.plan import SymbolicBuffer
from grilly_core.protocols import NumPyProtocols
from grilly_core.tape import Leaf, Node

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Tensor"]

_state = config.current


class Tensor(NumPyProtocols, OperatorMethods, TensorMethods):
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
    _value: View
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
            from grilly_core.apply import as_tensor

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

    # -- indexing ------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tensor:
        from grilly_core import indexing

        return indexing.getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        from grilly_core import indexing

        indexing.setitem(self, key, value)

    def __copy__(self) -> Tensor:
        return Tensor(self._value, self._node, self._index, self._view_of)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if isinstance(self._node, Node):
            raise AutogradError(
                "deepcopy of the result of an op would tear it off its history; call .detach().clone()."
            )
        made = memo[id(self)] = Tensor(self.detach().clone()._value, None if self._node is None else Leaf())
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self._node, Node):
            raise AutogradError(
                "the result of an op cannot be pickled with its history; call .detach() first."
            )
        return _restored, (self._host(), str(self.device), self.requires_grad)

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
                    f"{what}: a {new.dtype.name} result does not fit the tensor's {self.dtype.name}; cast with "
                    ".to(...) first."
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


def _restored(array: NDArray[Any], device: str, requires_grad: bool) -> Tensor:
    """Make the tensor that was pickled."""
    view = open_context(device).upload(array, dtypes.from_numpy(array.dtype))
    return Tensor(view, Leaf() if requires_grad else None)
