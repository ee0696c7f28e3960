"""Registration through attributes: what is a parameter, a buffer or a module of a module.

The objects themselves live in the instance's ``__dict__``, where Python finds them without help; beside them only
their kinds are kept, by name. So there is one place to read and nothing to keep in step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from grilly_core.nn.parameter import Buffer, Parameter
from grilly_core.tensor import Tensor

if TYPE_CHECKING:
    from grilly_core.nn.module import Module

__all__ = ["Registered"]


class Registered:
    """The part of `Module` that knows what belongs to it."""

    _kinds: dict[str, str]
    _transient: set[str]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Prepare the registers."""
        self = super().__new__(cls)
        self.__dict__.update(_kinds={}, _transient=set())
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        kind = _kind_of(value)
        if kind is None and name not in self._kinds:
            object.__setattr__(self, name, value)
        else:
            self._register(name, value, kind)

    def _register(self, name: str, value: Any, kind: str | None) -> None:
        known = self._kinds.get(name)
        if kind in (None, "container") and known in ("parameter", "buffer", "module") and value is not None:
            if known != "buffer" or not isinstance(value, Tensor):
                wanted = {"parameter": "a Parameter", "buffer": "a Tensor", "module": "a Module"}[known]
                raise TypeError(
                    f"{type(self).__name__}.{name} is a registered {known}: expected {wanted} or None; received "
                    f"{type(value).__name__}. To change a value, write to it under no_grad()."
                )
            kind = "buffer"
            if value._view_of:  # a view would refuse to be written to
                value = Tensor(value._value, value._node, value._index)
        elif value is None:
            kind = known
        if kind is None:
            self._kinds.pop(name, None)
        elif kind == known:
            pass
        else:
            self._kinds.pop(name, None)
            self._kinds[name] = kind
            self._transient.discard(name)
        if isinstance(value, Buffer) and not value.persistent:
            self._transient.add(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._kinds.pop(name, None)
        self._transient.discard(name)

    def _checked_name(self, name: str) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise KeyError(f"a registered name is a non-empty string without dots; received {name!r}.")
        if hasattr(self, name) and name not in self._kinds:
            raise KeyError(f"{type(self).__name__} already has an attribute {name!r}.")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register a parameter by name; None reserves the name.

        Examples
        --------
        >>> import grilly_core as grilly
        >>> m = grilly.nn.Module()
        >>> m.register_parameter("scale", grilly.nn.Parameter(grilly.ones(1)))
        >>> len(list(m.parameters()))
        1
        """
        self._checked_name(name)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"register_parameter: expected a Parameter or None; received {type(param).__name__}."
            )
        self._kinds.pop(name, None)
        self._kinds[name] = "parameter"
        object.__setattr__(self, name, param)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Register state that is not learnt.

        Parameters
        ----------
        name : str
        tensor : array_like or None
        persistent : bool
            Whether it is part of `state_dict`.

        Examples
        --------
        >>> import grilly_core as grilly
        >>> m = grilly.nn.Module()
        >>> m.register_buffer("count", grilly.tensor(0))
        >>> list(m.state_dict())
        ['count']
        """
        from grilly_core.apply import as_tensor

        self._checked_name(name)
        # A cell of its own: a view would refuse to be written to, and a shared cell would follow its owner.
        cell = None if tensor is None else Tensor(as_tensor(tensor)._value)
        self._kinds.pop(name, None)
        self._kinds[name] = "buffer"
        (self._transient.discard if persistent else self._transient.add)(name)
        object.__setattr__(self, name, cell)

    def register_module(self, name: str, module: Module | None) -> None:
        """Register a module by name; None reserves the name."""
        from grilly_core.nn.module import Module

        self._checked_name(name)
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"register_module: expected a Module or None; received {type(module).__name__}.")
        self._kinds[name] = "module"
        object.__setattr__(self, name, module)

    add_module = register_module

    def get_submodule(self, target: str) -> Module:
        """Return the module of a dotted name.

        Examples
        --------
        >>> import grilly_core as grilly
        >>> grilly.nn.Sequential(grilly.nn.ReLU()).get_submodule("0")
        ReLU()
        """
        found = self._find(target)
        if not isinstance(found, Registered):
            raise AttributeError(
                f"{type(self).__name__}: {target!r} is not a module but {type(found).__name__}."
            )
        return found  # type: ignore[return-value]

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter of a dotted name."""
        found = self._find(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"{type(self).__name__}: {target!r} is not a parameter.")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer of a dotted name."""
        owner = self.get_submodule(target.rpartition(".")[0])
        name = target.rpartition(".")[2]
        if owner._kinds.get(name) != "buffer":
            raise AttributeError(f"{type(self).__name__}: {target!r} is not a buffer.")
        found: Tensor = getattr(owner, name)
        return found

    def _find(self, target: str) -> Any:
        found: Any = self
        for part in target.split(".") if target else ():
            try:
                if isinstance(found, list | tuple):
                    found = found[int(part)]
                elif isinstance(found, dict):
                    found = next(v for k, v in found.items() if str(k) == part)
                else:
                    found = getattr(found, part)
            except (AttributeError, IndexError, ValueError, StopIteration):
                raise AttributeError(
                    f"{type(self).__name__} has no {target!r}: nothing is called {part!r}."
                ) from None
        return found

    def _of_kind(self, kind: str) -> Iterator[tuple[str, Any]]:
        """Yield what is registered directly here (also in containers), by kind and without the Nones."""
        content = self.__dict__
        for name, known in list(self._kinds.items()):
            if known == "container":
                if kind != "buffer":
                    wanted = Parameter if kind == "parameter" else Registered
                    yield from _inside(name, content[name], wanted, ())
            elif known == kind and content[name] is not None:
                yield name, content[name]


def _kind_of(value: Any) -> str | None:
    if isinstance(value, Parameter):
        return "parameter"
    if isinstance(value, Registered):
        return "module"
    if isinstance(value, Buffer):
        return "buffer"
    if isinstance(value, list | tuple | dict):
        return "container"
    return None


def _inside(prefix: str, container: Any, wanted: type, above: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    if id(container) in above:  # a container that holds itself
        return
    items = container.items() if isinstance(container, dict) else enumerate(container)
    for key, value in items:
        if isinstance(value, wanted):
            yield f"{prefix}.{key}", value
        elif isinstance(value, list | tuple | dict):
            yield from _inside(f"{prefix}.{key}", value, wanted, (*above, id(container)))
