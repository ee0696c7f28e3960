"""The outermost call of a module, and the explicit ``model.backward(grad_output)``.

Only the outermost call of a module in training mode keeps its last output; the next forward pass, a backward
pass, `eval` or `no_grad` drops it. Gradients stop at the inputs of that call, so that modules can be chained by hand:
``enc.backward(dec.backward(g))``.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from grilly_core import autograd
from grilly_core.apply import as_tensor
from grilly_core.config import is_grad_enabled, no_grad
from grilly_core.errors import AutogradError
from grilly_core.tensor import Tensor

if TYPE_CHECKING:
    from grilly_core.nn.module import Module

__all__ = ["backward", "outermost", "scope"]


class _Scope(threading.local):
    inside = False


scope = _Scope()


def outermost(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a call that is not inside another module's."""
    state = module.__dict__
    state["_last"] = None  # before the forward pass, which may need the memory
    keep = state["training"] and is_grad_enabled()
    if any(isinstance(a, np.ndarray) for a in args) or any(
        isinstance(a, np.ndarray) for a in kwargs.values()
    ):
        like = next(iter(module.parameters()), None)
        args = tuple(_entered(a, like, keep) for a in args)
        kwargs = {k: _entered(a, like, keep) for k, a in kwargs.items()}
    scope.inside = True
    try:
        hooks = state["_hooks"]
        output = module.forward(*args, **kwargs) if hooks is None else hooks.call(module, args, kwargs)
    finally:
        scope.inside = False
    if keep:
        inputs = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor) and a._node is not None]
        state["_last"] = (output, inputs)
    return output


def _entered(value: Any, like: Tensor | None, watch: bool) -> Any:
    """Turn an array into a tensor on the module's device, watched if it is floating."""
    if not isinstance(value, np.ndarray):
        return value
    made = as_tensor(value, like)
    return Tensor(made._value).requires_grad_() if watch and made.dtype.is_floating else made


def _paired(output: Any, grad_output: Any) -> tuple[list[Tensor], list[Any]]:
    """Return the tensors of an output and the gradient of each; where a tuple has no gradient, none flows."""
    places = list(output) if isinstance(output, tuple | list) else [output]
    outs = [t for t in places if t is not None]
    if not outs or not all(isinstance(t, Tensor) for t in outs):
        raise AutogradError(
            "backward: the last output is not a tensor or a tuple of tensors; use loss.backward() instead."
        )
    given = list(grad_output) if isinstance(grad_output, tuple | list) else [grad_output]
    if len(given) == len(places) > 1 and any(g is not None for g in given):
        pairs = [(t, g) for t, g in zip(places, given, strict=True) if g is not None]
        if all(t is not None for t, _ in pairs):
            return [t for t, _ in pairs], [g for _, g in pairs]
    if len(given) != len(outs):
        raise AutogradError(f"backward: {len(outs)} outputs, but {len(given)} gradients.")
    return outs, given


def backward(module: Module, grad_output: Any) -> Any:
    """Pull a gradient of the last output back; see `Module.backward`."""
    last, module.__dict__["_last"] = module.__dict__["_last"], None
    if last is None:
        raise AutogradError(
            f"{type(module).__name__}.backward: there is no forward pass to go back through. Call the module itself "
            "(not one that contains it) in training mode, with gradients on, then call backward once."
        )
    output, inputs = last
    outs, given = _paired(output, grad_output)
    known = {id(t) for t in inputs}
    params = [p for p in module.parameters() if p.requires_grad and id(p) not in known]
    gradients = [as_tensor(g, o) if g is not None else None for g, o in zip(given, outs, strict=True)]
    # What lies before the inputs is another module's to go back through; the rest goes with the dropped output.
    found = autograd.grad(outs, [*params, *inputs], gradients, allow_unused=True, retain_graph=True)
    with no_grad():
        for t, g in zip([*params, *inputs], found, strict=True):
            if g is not None and t.is_leaf:
                t.grad = g if t.grad is None else t.grad + g
    grads = found[len(params) :]
    return None if not grads else grads[0] if len(grads) == 1 else grads
