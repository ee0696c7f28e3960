"""Hooks of modules: what runs before and after `forward`, and when gradients pass."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from grilly_core.autograd import custom_vjp
from grilly_core.tensor import Tensor

if TYPE_CHECKING:
    from grilly_core.nn.module import Module

__all__ = ["Hooks", "RemovableHandle"]

_ids = itertools.count()
Table = dict[int, tuple[Callable[..., Any], bool]]


class RemovableHandle:
    """Removes a hook: by `remove`, or at the end of a ``with`` block.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.Identity()
    >>> with layer.register_forward_hook(lambda module, args, output: output + 1):
    ...     layer(grilly.tensor(1.0)).item()
    2.0
    """

    def __init__(self, table: Table, key: int) -> None:
        self._table = table
        self.id = key

    def remove(self) -> None:
        """Remove the hook; doing it twice is fine."""
        self._table.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Hooks:
    """The hooks of one module; modules without any have no such object."""

    __slots__ = ("backward", "backward_pre", "load", "load_pre", "post", "pre", "save", "save_pre")

    def __init__(self) -> None:
        self.pre: Table = {}
        self.post: Table = {}
        self.backward_pre: Table = {}
        self.backward: Table = {}
        self.save_pre: Table = {}
        self.save: Table = {}
        self.load_pre: Table = {}
        self.load: Table = {}

    def add(self, kind: str, hook: Callable[..., Any], with_kwargs: bool, prepend: bool) -> RemovableHandle:
        """Register a hook and return its handle."""
        table: Table = getattr(self, kind)
        key = next(_ids)
        table[key] = (hook, with_kwargs)
        if prepend:
            for other in [k for k in table if k != key]:
                table[other] = table.pop(other)
        return RemovableHandle(table, key)

    def call(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run `forward` with everything that is hooked to it."""
        for hook, with_kwargs in list(self.pre.values()):
            args, kwargs = _before(module, hook, with_kwargs, args, kwargs)
        tap = _Tap(module, self) if self.backward or self.backward_pre else None
        if tap is not None:
            args = tap.inputs(args)
        output = module.forward(*args, **kwargs)
        for hook, with_kwargs in list(self.post.values()):
            changed = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
            output = output if changed is None else changed
        return output if tap is None else tap.outputs(output)


def _before(
    module: Module, hook: Callable[..., Any], with_kwargs: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if with_kwargs:
        changed = hook(module, args, kwargs)
        if changed is None:
            return args, kwargs
        if not (isinstance(changed, tuple) and len(changed) == 2):
            raise TypeError("a forward pre-hook with kwargs returns None or (args, kwargs).")
        return changed
    changed = hook(module, args)
    if changed is None:
        return args, kwargs
    return changed if isinstance(changed, tuple) else (changed,), kwargs


class _Tap:
    """Identities round a module through which its gradients pass."""

    def __init__(self, module: Module, hooks: Hooks) -> None:
        self.module = module
        self.hooks = hooks
        self.places: list[int] = []
        self.count = 0
        self.grad_output: tuple[Any, ...] = ()

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.count = len(args)
        self.places = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
        if not self.places:
            return args
        tapped = list(args)
        passed = _identity([args[i] for i in self.places], self._at_inputs)
        for i, t in zip(self.places, passed, strict=True):
            tapped[i] = t
        return tuple(tapped)

    def outputs(self, output: Any) -> Any:
        single = isinstance(output, Tensor)
        given = [output] if single else list(output) if isinstance(output, tuple | list) else []
        places = [i for i, t in enumerate(given) if isinstance(t, Tensor) and t.requires_grad]
        if not places:
            return output
        for i, t in zip(places, _identity([given[i] for i in places], self._at_outputs), strict=True):
            given[i] = t
        return given[0] if single else type(output)(given)

    def _at_outputs(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook, _ in list(self.hooks.backward_pre.values()):
            changed = hook(self.module, grads)
            grads = grads if changed is None else _as_tuple(changed)
        self.grad_output = grads
        if not self.places:
            self._run(tuple([None] * self.count))
        return grads

    def _at_inputs(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        full: list[Any] = [None] * self.count
        for i, g in zip(self.places, grads, strict=True):
            full[i] = g
        changed = self._run(tuple(full))
        return tuple(changed[i] for i in self.places)

    def _run(self, grad_input: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook, _ in list(self.hooks.backward.values()):
            changed = hook(self.module, grad_input, self.grad_output)
            grad_input = grad_input if changed is None else _as_tuple(changed)
        return grad_input


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _identity(
    tensors: list[Tensor], at_backward: Callable[[tuple[Any, ...]], tuple[Any, ...]]
) -> tuple[Any, ...]:
    @custom_vjp
    def passed(*xs: Tensor) -> tuple[Tensor, ...]:
        return xs

    @passed.vjp
    def _(grads: tuple[Any, ...], outs: Any, ins: Any) -> tuple[Any, ...]:
        return at_backward(tuple(grads))

    result: tuple[Any, ...] = passed(*tensors)
    return result
