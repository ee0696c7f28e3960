"""Parameters computed from others: `register_parametrization` and its relatives, with PyTorch's state-dict keys.

A parametrised name is a property of a class made for the one module. What is learnt lies in
``module.parametrizations.NAME``: as ``original``, or as ``original0``, ``original1``, … if it takes several tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from grilly_core.config import no_grad
from grilly_core.errors import ShapeError
from grilly_core.nn.containers import ModuleDict, ModuleList
from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter
from grilly_core.tensor import Tensor

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]

_HOME: Final = "parametrizations"
_cache: ContextVar[dict[tuple[int, str], Any] | None] = ContextVar("parametrized", default=None)


class ParametrizationList(ModuleList):
    """The parametrisations of one tensor, applied in order, and the tensors they start from.

    Parameters
    ----------
    modules : sequence of Module
    original : Tensor or Parameter
        The value that they shall give.

    Attributes
    ----------
    ntensors : int
        Tensors that the first parametrisation takes.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor) -> None:
        super().__init__(modules)
        learnt = isinstance(original, Parameter)
        value = _inverted(list(self), original)
        self.is_tensor = isinstance(value, Tensor)
        values = (value,) if self.is_tensor else tuple(value)
        self.ntensors = len(values)
        for i, tensor in enumerate(values):
            name = "original" if self.is_tensor else f"original{i}"
            if learnt:
                parameter = original if self.is_tensor else Parameter(tensor.detach().clone())
                if parameter is original and tensor is not original:
                    original._value = tensor.detach()._value
                parameter.requires_grad_(original.requires_grad)
                self.register_parameter(name, parameter)  # type: ignore[arg-type]
            else:
                self.register_buffer(name, tensor)

    @property
    def originals(self) -> list[Tensor]:
        """What the first parametrisation takes."""
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def forward(self) -> Any:
        """Return the parametrised tensor."""
        first, *rest = self
        value = first(*self.originals)
        for module in rest:
            value = module(value)
        return value

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrised tensor becomes `value`."""
        with no_grad():
            found = _inverted(list(self), value)
            given = (found,) if self.is_tensor else tuple(found)
            if len(given) != self.ntensors:
                raise ValueError(
                    f"right_inverse: expected {self.ntensors} tensors; received {len(given)}. It must return what "
                    "forward takes."
                )
            for original, tensor in zip(self.originals, given, strict=True):
                if tensor.shape != original.shape:
                    raise ShapeError(
                        f"right_inverse: expected a tensor of shape {tuple(original.shape)}; received "
                        f"{tuple(tensor.shape)}."
                    )
                original.copy_(tensor)


def _inverted(modules: list[Module], value: Any) -> Any:
    with no_grad():
        for module in reversed(modules):
            inverse = getattr(module, "right_inverse", None)
            if inverse is not None:
                value = inverse(value)
    return value


def _homes(module: Module) -> Any:
    """The parametrisations of a module, by name."""
    return module.__dict__[_HOME]


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a parameter or buffer of a module from others from now on.

    Parameters
    ----------
    module : Module
    tensor_name : str
        Of a parameter or buffer of `module` itself.
    parametrization : Module
        Its `forward` takes the original tensor (or several) and returns the one that is used. If it has a
        ``right_inverse``, that makes the originals from the present value, and from what is assigned later; otherwise
        the present value becomes the original. A further one on the same tensor is applied to its present value.
    unsafe : bool
        Do not check that shape and dtype stay what they were.

    Returns
    -------
    Module
        The same module.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> class Symmetric(grilly.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = grilly.nn.Linear(3, 3)
    >>> _ = grilly.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    >>> sorted(layer.state_dict())
    ['bias', 'parametrizations.weight.original']
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        home: ParametrizationList = _homes(module)[tensor_name]
        if not unsafe:
            before = home().detach()
            _check(tensor_name, before, parametrization(before))
        home.append(parametrization)
        return module
    if module._kinds.get(tensor_name) not in ("parameter", "buffer") or getattr(module, tensor_name) is None:
        raise ValueError(
            f"register_parametrization: {type(module).__name__} has no parameter or buffer {tensor_name!r} of its own."
        )
    original = getattr(module, tensor_name)
    value = original.detach()
    home = ParametrizationList([parametrization], original)
    if not unsafe:
        try:
            _check(tensor_name, value, home())
        except Exception:
            original._value = value._value
            raise
    delattr(module, tensor_name)
    _make_room(module)
    setattr(type(module), tensor_name, _property(tensor_name))
    _homes(module)[tensor_name] = home
    return module


def _check(name: str, before: Tensor, after: Any) -> None:
    if not isinstance(after, Tensor):
        raise TypeError(
            f"parametrization of {name!r}: forward must return a tensor; received {type(after).__name__}."
        )
    if (after.shape, after.dtype) != (before.shape, before.dtype):
        raise ShapeError(
            f"parametrization of {name!r}: expected shape {tuple(before.shape)} and {before.dtype}, as before; "
            f"received {tuple(after.shape)} and {after.dtype}. Pass unsafe=True if that is meant."
        )


def _make_room(module: Module) -> None:
    """Give a module a class of its own, which can have properties."""
    if _HOME in module.__dict__:
        return
    base = type(module)

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if name in self.__dict__.get(_HOME, ()):
            _homes(self)[name].right_inverse(value)
        else:
            base.__setattr__(self, name, value)

    def __getstate__(self: Any) -> Any:
        raise TypeError(
            f"a parametrised {base.__name__} cannot be pickled; save its state_dict(), or call "
            "remove_parametrizations first."
        )

    content = {"__setattr__": __setattr__, "__getstate__": __getstate__, "_before": base}
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), content)
    setattr(module, _HOME, ModuleDict())


def _property(name: str) -> property:
    def computed(self: Module) -> Any:
        cache = _cache.get()
        if cache is None:
            return _homes(self)[name]()
        key = (id(self), name)
        if key not in cache:
            cache[key] = _homes(self)[name]()
        return cache[key]

    def assigned(self: Module, value: Tensor) -> None:
        _homes(self)[name].right_inverse(value)

    return property(computed, assigned)


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrised tensor once while the block runs.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.utils.parametrizations.weight_norm(grilly.nn.Linear(2, 2))
    >>> with grilly.nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    if _cache.get() is not None:
        yield
        return
    token = _cache.set({})
    try:
        yield
    finally:
        _cache.reset(token)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a module, or one of its tensors, is parametrised."""
    home = module.__dict__.get(_HOME)
    if home is None:
        return False
    return len(home) > 0 if tensor_name is None else tensor_name in home


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrised tensor plain again.

    Parameters
    ----------
    module : Module
    tensor_name : str
    leave_parametrized : bool
        Keep the parametrised value; else the original's, which must be a single tensor.

    Returns
    -------
    Module
        The same module, of its former class once nothing of it is parametrised.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"remove_parametrizations: {tensor_name!r} of {type(module).__name__} is not parametrised."
        )
    home: ParametrizationList = _homes(module)[tensor_name]
    if not leave_parametrized and not home.is_tensor:
        raise ValueError(
            f"remove_parametrizations: {tensor_name!r} is made of {home.ntensors} tensors, none of which is its "
            "original; use leave_parametrized=True."
        )
    originals = home.originals
    with no_grad():
        value = (home() if leave_parametrized else originals[0]).detach()
    learnt = isinstance(originals[0], Parameter)
    plain: Any = value
    if learnt:
        plain = originals[0] if home.is_tensor else Parameter(value.clone(), originals[0].requires_grad)
        plain._value = value._value
    del _homes(module)[tensor_name]
    delattr(type(module), tensor_name)
    if learnt:
        module.register_parameter(tensor_name, plain)
    else:
        module.register_buffer(tensor_name, plain)
    if not len(_homes(module)):
        delattr(module, _HOME)
        module.__class__ = type(module)._before  # type: ignore[attr-defined]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the class that a module had before anything of it was parametrised."""
    return getattr(type(module), "_before", type(module))
