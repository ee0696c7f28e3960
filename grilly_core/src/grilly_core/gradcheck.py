"""Gradients against central differences, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.autograd import grad
from grilly_core.config import enable_grad
from grilly_core.errors import AutogradError
from grilly_core.tensor import Tensor

__all__ = ["gradcheck", "gradgradcheck", "numerical_gradient"]


def numerical_gradient(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], index: int, weights: Any, eps: float
) -> Any:
    """Return the central-difference gradient of ``sum(weights * function(*inputs))`` by one input, as an array."""
    base = np.array(inputs[index].detach().numpy(), np.float64)
    found = np.zeros_like(base)
    for place in np.ndindex(base.shape):
        values = []
        for sign in (1, -1):
            moved = base.copy()
            moved[place] += sign * eps
            args = list(inputs)
            args[index] = as_tensor(moved, inputs[index], inputs[index].dtype)
            values.append(float((np.asarray(function(*args).detach().numpy(), np.float64) * weights).sum()))
        found[place] = (values[0] - values[1]) / (2 * eps)
    return found


def gradcheck(
    function: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor],
    eps: float = 1e-6,
    atol: float = 1e-6,
    rtol: float = 1e-4,
) -> bool:
    """Check the gradients of a function by central differences.

    Parameters
    ----------
    function : callable
        Takes the inputs; returns a tensor or a tuple of tensors.
    inputs : Tensor or sequence of Tensor
        float64; those that require grad are checked.
    eps : float
        Step of the differences.
    atol, rtol : float
        Tolerances.

    Returns
    -------
    bool
        True.

    Raises
    ------
    AutogradError
        If a gradient is wrong; the message shows both.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([0.5, 1.5], dtype=grilly.float64, requires_grad=True)
    >>> grilly.gradcheck(lambda x: grilly.sin(x) * x, x)
    True
    """
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    for i, x in enumerate(given):
        if x.requires_grad and x.dtype is not dtypes.float64:
            raise AutogradError(
                f"gradcheck: input {i} is {x.dtype.name}; use float64, or the differences drown in rounding."
            )
    rng = np.random.default_rng(0)
    with enable_grad():
        outs = function(*given)
    count = len(outs) if isinstance(outs, tuple | list) else 1
    for k in range(count):
        _check_output(_picked(function, k), given, k, rng, eps, atol, rtol)
    return True


def _picked(function: Callable[..., Any], index: int) -> Callable[..., Tensor]:
    def call(*args: Tensor) -> Tensor:
        outs = function(*args)
        return outs[index] if isinstance(outs, tuple | list) else outs  # type: ignore[no-any-return]

    return call


def _check_output(
    function: Callable[..., Tensor],
    given: list[Tensor],
    k: int,
    rng: Any,
    eps: float,
    atol: float,
    rtol: float,
) -> None:
    watched = [x.detach().requires_grad_() if x.requires_grad else x for x in given]
    with enable_grad():
        out = function(*watched)
    places = [i for i, x in enumerate(watched) if x.requires_grad]
    if not out.requires_grad:
        return
    weights = rng.standard_normal(out.shape)
    found = grad(out, [watched[i] for i in places], as_tensor(weights, out), allow_unused=True)
    for i, g in zip(places, found, strict=True):
        expected = numerical_gradient(function, [x.detach() for x in watched], i, weights, eps)
        actual = np.zeros(watched[i].shape) if g is None else np.asarray(g.numpy(), np.float64)
        if not np.allclose(actual, expected, rtol=rtol, atol=atol):
            worst = (
                np.unravel_index(np.argmax(np.abs(actual - expected)), expected.shape)
                if expected.size
                else ()
            )
            raise AutogradError(
                f"gradcheck: gradient of output {k} by input {i} is wrong, most at {tuple(map(int, worst))}: "
                f"recorded {actual[worst]:.8g}, by differences {expected[worst]:.8g}."
            )


def gradgradcheck(
    function: Callable[..., Tensor],
    inputs: Tensor | Sequence[Tensor],
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
) -> bool:
    """Check second derivatives: `gradcheck` of the gradient; see there for the parameters."""
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    rng = np.random.default_rng(1)
    with enable_grad():
        weights = as_tensor(rng.standard_normal(function(*given).shape), given[0])

    def first(*args: Tensor) -> tuple[Tensor, ...]:
        with enable_grad():
            args = tuple(
                a if a.requires_grad else a.detach().requires_grad_() if x.requires_grad else a
                for a, x in zip(args, given, strict=True)
            )
            out = function(*args)
            found = grad(
                out,
                [a for a, x in zip(args, given, strict=True) if x.requires_grad],
                weights,
                create_graph=True,
                allow_unused=True,
            )
        return tuple(g for g in found if g is not None and g.requires_grad)

    return gradcheck(first, given, eps, atol, rtol)
