"""Modules that hold modules or parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, overload

from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter
from grilly_core.tensor import Tensor

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Residual", "Sequential"]


class _Numbered(Module):
    """Members under the names "0", "1", …; the base of the list-like containers."""

    _member: type = Module

    def _numbers(self) -> list[str]:
        """Names of the members; a subclass may have parameters and buffers beside them."""
        return [name for name in self._kinds if name.isdecimal()]

    def _members(self) -> list[Any]:
        content = self.__dict__
        return [content[name] for name in self._numbers()]

    def _replace(self, members: Iterable[Any]) -> None:
        new = list(members)
        for member in new:
            if not isinstance(member, self._member):
                raise TypeError(
                    f"{type(self).__name__}: expected a {self._member.__name__}; received {type(member).__name__}."
                )
        for name in self._numbers():
            delattr(self, name)
        for i, member in enumerate(new):
            setattr(self, str(i), member)

    def __len__(self) -> int:
        return len(self._numbers())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._members())

    def __setitem__(self, index: int, member: Any) -> None:
        members = self._members()
        members[index] = member
        self._replace(members)

    def __delitem__(self, index: int | slice) -> None:
        members = self._members()
        del members[index]
        self._replace(members)

    def append(self, member: Any) -> Self:
        """Add one at the end; returns the container."""
        self._replace([*self._members(), member])
        return self

    def extend(self, members: Iterable[Any]) -> Self:
        """Add several at the end; returns the container."""
        self._replace([*self._members(), *members])
        return self

    def insert(self, index: int, member: Any) -> None:
        """Put one before the given place."""
        members = self._members()
        members.insert(index, member)
        self._replace(members)

    def pop(self, index: int = -1) -> Any:
        """Remove one and return it."""
        members = self._members()
        taken = members.pop(index)
        self._replace(members)
        return taken


class ModuleList(_Numbered):
    """A list of modules.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layers = grilly.nn.ModuleList([grilly.nn.ReLU()])
    >>> len(layers.append(grilly.nn.Tanh()))
    2
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self._replace(modules or ())

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    def __getitem__(self, index: int | slice) -> Module | ModuleList:
        """Return one module, or a list of some."""
        if isinstance(index, slice):
            return ModuleList(self._members()[index])
        found: Module = self._members()[index]
        return found


class ParameterList(_Numbered):
    """A list of parameters; other tensors are made parameters.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> len(list(grilly.nn.ParameterList([grilly.ones(2), grilly.ones(3)]).parameters()))
    2
    """

    _member = Parameter

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._replace(values or ())

    def _replace(self, members: Iterable[Any]) -> None:
        super()._replace(m if isinstance(m, Parameter) else Parameter(m) for m in members)

    @overload
    def __getitem__(self, index: int) -> Parameter: ...
    @overload
    def __getitem__(self, index: slice) -> ParameterList: ...
    def __getitem__(self, index: int | slice) -> Parameter | ParameterList:
        """Return one parameter, or a list of some."""
        if isinstance(index, slice):
            return ParameterList(self._members()[index])
        found: Parameter = self._members()[index]
        return found


class Sequential(Module):
    """Modules that run one after the other.

    Parameters
    ----------
    *modules : Module
        Or one dict of names to modules.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> model = grilly.nn.Sequential(grilly.nn.Linear(4, 8), grilly.nn.ReLU(), grilly.nn.Linear(8, 2))
    >>> model(grilly.ones((3, 4))).shape
    (3, 2)
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            named = modules[0].items()
        else:
            named = {str(i): m for i, m in enumerate(modules)}.items()
        for name, module in named:
            self._checked_member(module)
            self.register_module(name, module)

    @staticmethod
    def _checked_member(module: Any) -> None:
        if not isinstance(module, Module):
            raise TypeError(f"Sequential: expected a Module; received {type(module).__name__}.")

    def _members(self) -> list[Module]:
        return [m for _, m in self._of_kind("module")]

    def forward(self, input: Any) -> Any:
        """Run the modules in order."""
        content = self.__dict__
        for name, kind in self._kinds.items():
            if kind == "module":
                input = content[name](input)
        return input

    def __len__(self) -> int:
        return len(self._members())

    def __iter__(self) -> Iterator[Module]:
        return iter(self._members())

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | slice) -> Module | Sequential:
        """Return one module, or a `Sequential` of some (sharing them, under their names)."""
        named = list(self._of_kind("module"))
        if isinstance(index, slice):
            return Sequential(dict(named[index]))
        found: Module = named[index][1]
        return found

    def __setitem__(self, index: int, module: Module) -> None:
        self._checked_member(module)
        setattr(self, list(self._of_kind("module"))[index][0], module)

    def __delitem__(self, index: int | slice) -> None:
        members = self._members()
        del members[index]
        self._renumber(members)

    def _renumber(self, members: list[Module]) -> None:
        for name, _ in list(self._of_kind("module")):
            delattr(self, name)
        for i, module in enumerate(members):
            self.register_module(str(i), module)

    def append(self, module: Module) -> Self:
        """Add a module at the end; returns the container."""
        self._checked_member(module)
        self.register_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add several modules at the end; returns the container."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Put a module before the given place; returns the container."""
        self._checked_member(module)
        members = self._members()
        members.insert(index, module)
        self._renumber(members)
        return self


class ModuleDict(Module):
    """A dict of modules.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> heads = grilly.nn.ModuleDict({"a": grilly.nn.Linear(2, 1)})
    >>> list(heads.keys()), "a" in heads
    (['a'], True)
    """

    _member: type = Module

    def __init__(self, modules: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def update(self, modules: Mapping[str, Any]) -> None:
        """Add or replace members."""
        for name, module in modules.items():
            self[name] = module

    def __getitem__(self, name: str) -> Any:
        if name not in self._kinds:
            raise KeyError(name)
        return self.__dict__[name]

    def __setitem__(self, name: str, member: Any) -> None:
        if not isinstance(member, self._member):
            raise TypeError(
                f"{type(self).__name__}: expected a {self._member.__name__}; received {type(member).__name__}."
            )
        if name not in self._kinds:
            self._checked_name(name)
        setattr(self, name, member)

    def __delitem__(self, name: str) -> None:
        if name not in self._kinds:
            raise KeyError(name)
        delattr(self, name)

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._kinds))

    def __contains__(self, name: object) -> bool:
        return name in self._kinds

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return list(self._kinds)

    def values(self) -> Iterable[Any]:
        """Return the members."""
        return [self.__dict__[name] for name in self._kinds]

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return names and members."""
        return [(name, self.__dict__[name]) for name in self._kinds]

    def pop(self, name: str) -> Any:
        """Remove a member and return it."""
        taken = self[name]
        del self[name]
        return taken

    def clear(self) -> None:
        """Remove all members."""
        for name in list(self._kinds):
            delattr(self, name)


class ParameterDict(ModuleDict):
    """A dict of parameters; other tensors are made parameters.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> list(grilly.nn.ParameterDict({"scale": grilly.ones(2)}).state_dict())
    ['scale']
    """

    _member = Parameter

    def __init__(self, parameters: Mapping[str, Any] | None = None) -> None:
        super().__init__(parameters)

    def __setitem__(self, name: str, member: Any) -> None:
        super().__setitem__(name, member if isinstance(member, Parameter) else Parameter(member))


class Residual(Module):
    """Add a module's output to its input.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Residual(grilly.nn.ReLU())(grilly.tensor([-1.0, 2.0])).tolist()
    [-1.0, 4.0]
    """

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input + module(input)``."""
        return input + self.module(input)  # type: ignore[no-any-return]
