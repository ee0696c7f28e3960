"""Gradients written by the user: a decorator, and PyTorch's `Function`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.config import is_grad_enabled, no_grad
from grilly_core.errors import AutogradError
from grilly_core.opspec import Op, Schema
from grilly_core.tape import Node
from grilly_core.tensor import Tensor

__all__ = ["Function", "FunctionCtx", "custom_vjp"]


class custom_vjp:
    """Give a Python function its own gradient.

    Parameters
    ----------
    function : callable
        Takes tensors (and keyword attributes) and returns one tensor or a tuple.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> @grilly.custom_vjp
    ... def straight_through(x):
    ...     return x.round()
    >>> @straight_through.vjp
    ... def _(grads, outs, ins):
    ...     return (grads[0],)
    >>> x = grilly.tensor([0.4, 1.6], requires_grad=True)
    >>> straight_through(x).sum().backward()
    >>> x.grad.tolist()
    [1.0, 1.0]
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._rule: Callable[..., Any] | None = None

    def vjp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Declare the gradient: ``rule(grads, outs, ins, **attributes) -> tuple`` (decorator)."""
        self._rule = rule
        return rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """See the class."""
        rule = self._rule
        if rule is None:
            raise AutogradError(
                f"{self._function.__name__}: declare its gradient with @{self._function.__name__}.vjp."
            )
        tensors = [as_tensor(a) for a in args]
        with no_grad():
            result = self._function(*[t.detach() for t in tensors], **kwargs)
        return _record_python(
            self._function.__name__,
            result,
            tensors,
            lambda gs, outs, ins, attrs, needs: rule(gs, outs, ins, **kwargs),
        )


def _record_python(name: str, result: Any, tensors: list[Tensor], rule: Callable[..., Any]) -> Any:
    """Put a node with a Python gradient rule on the tape."""
    single = isinstance(result, Tensor)
    outs = [result] if single else list(result)
    if not (is_grad_enabled() and any(t._node is not None for t in tensors)):
        return result
    op: Op[Any, Any] = Op(
        name, "python", Schema((), frozenset(), frozenset(), {}, frozenset()), rule, "", vjp_rule=rule
    )
    edges = tuple(None if t._node is None else (t._node, t._index) for t in tensors)
    node = Node(op, {}, (), tuple(t._value for t in tensors), tuple(o._value for o in outs), edges)
    made = [Tensor(o._value, node, i) for i, o in enumerate(outs)]
    return made[0] if single else tuple(made)


class FunctionCtx:
    """What a `Function` hands from forward to backward."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self.saved_tensors: tuple[Tensor, ...] = ()

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keep tensors for `backward`."""
        self.saved_tensors = tensors


class Function:
    """A custom op in PyTorch's form: static ``forward(ctx, ...)`` and ``backward(ctx, *grads)``; call `apply`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core.autograd import Function
    >>> class Double(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> x = grilly.tensor([1.0], requires_grad=True)
    >>> Double.apply(x).sum().backward()
    >>> x.grad.tolist()
    [2.0]
    """

    @staticmethod
    def forward(ctx: FunctionCtx, *args: Any) -> Any:
        """Compute the result; override."""
        raise NotImplementedError("define a static forward(ctx, ...)")

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Any) -> Any:
        """Compute the gradients of the inputs; override."""
        raise NotImplementedError("define a static backward(ctx, *grads)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run `forward` and record `backward`."""
        places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        tensors = [args[i] for i in places]
        ctx = FunctionCtx(tuple(isinstance(a, Tensor) and a.requires_grad for a in args))
        with no_grad():
            result = cls.forward(ctx, *args)

        def rule(grads: Any, outs: Any, ins: Any, attrs: Any, needs: Any) -> tuple[Any, ...]:
            returned = cls.backward(ctx, *grads)
            returned = returned if isinstance(returned, tuple) else (returned,)
            if len(returned) != len(args):
                raise AutogradError(
                    f"{cls.__name__}.backward: expected {len(args)} gradients, received {len(returned)}."
                )
            return tuple(returned[i] for i in places)

        return _record_python(cls.__name__, result, tensors, rule)
