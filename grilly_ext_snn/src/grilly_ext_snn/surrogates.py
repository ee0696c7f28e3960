"""Surrogate gradients: what stands for the derivative of a spike by the distance to the threshold.

All built-in ones are finite everywhere. A further one is a plain function in grilly ops, registered by name; it runs
through the bodies of the ops, the built-in ones also inside the fused kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from grilly_core.errors import RegistrationError
from grilly_core.ops.creation import ones_like
from grilly_core.ops.math import reciprocal, square
from grilly_core.ops.primitives import abs, exp, maximum, minimum

__all__ = ["BUILT_IN", "coefficients", "derivative", "names", "register_surrogate"]

Derivative = Callable[[Any, float], Any]

#: Distances beyond this count as this, so that their squares stay finite.
FAR: Final = 1e18


def _atan(x: Any, alpha: float) -> Any:
    return (0.5 * alpha) * reciprocal(square((0.5 * math.pi * alpha) * _bounded(x)) + 1.0)


def _sigmoid(x: Any, alpha: float) -> Any:
    small = exp(-alpha * abs(x))  # of the absolute value: it never overflows
    return alpha * small * reciprocal(square(small + 1.0))


def _fast_sigmoid(x: Any, alpha: float) -> Any:
    return (0.5 * alpha) * reciprocal(square(alpha * abs(_bounded(x)) + 1.0))


def _triangular(x: Any, alpha: float) -> Any:
    return alpha * maximum(1.0 - alpha * abs(_bounded(x)), 0.0)


def _straight_through(x: Any, alpha: float) -> Any:
    return ones_like(x)


def _bounded(x: Any) -> Any:
    return minimum(maximum(x, -FAR), FAR)


#: Name → derivative, and the coefficients ``alpha -> (c0, c1, c2, c3)`` of the form that kernels compute,
#: ``c0 max(1 - c3 d, 0) / (1 + d (c1 + c2 d))`` with ``d = min(|x|, FAR)``. The sigmoid has a form of its own.
BUILT_IN: Final[dict[str, Callable[[float], tuple[float, float, float, float]] | None]] = {
    "atan": lambda a: (0.5 * a, 0.0, (0.5 * math.pi * a) ** 2, 0.0),
    "sigmoid": None,
    "fast_sigmoid": lambda a: (0.5 * a, 2.0 * a, a * a, 0.0),
    "triangular": lambda a: (a, 0.0, 0.0, a),
    "straight_through": lambda a: (1.0, 0.0, 0.0, 0.0),
}

_registry: Final[dict[str, Derivative]] = {
    "atan": _atan,
    "sigmoid": _sigmoid,
    "fast_sigmoid": _fast_sigmoid,
    "triangular": _triangular,
    "straight_through": _straight_through,
}


def register_surrogate(name: str, function: Derivative) -> None:
    """Give a surrogate gradient a name that neurons take.

    Parameters
    ----------
    name : str
        A new one.
    function : callable
        ``function(x, alpha)`` returns the derivative at the distances x from the threshold, in grilly ops.

    Raises
    ------
    RegistrationError
        If the name means another function already: gradients of recorded plans would change.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.surrogates import register_surrogate
    >>> def gaussian(x, alpha):
    ...     return alpha * grilly.exp(-(alpha * x) ** 2)
    >>> register_surrogate("gaussian", gaussian)
    >>> from grilly_ext_snn.nn.nodes import LIFNode
    >>> from grilly_ext_snn.nn.surrogates import Surrogate
    >>> node = LIFNode(surrogate_function=Surrogate("gaussian", alpha=1.0))
    """
    if not isinstance(name, str) or not name or not callable(function):
        raise RegistrationError(
            f"register_surrogate: expected a name and a function; received {name!r}, {function!r}."
        )
    if _registry.setdefault(name, function) is not function:
        raise RegistrationError(f"the surrogate {name!r} is registered already; choose another name.")


def names() -> list[str]:
    """Return the names of all surrogates."""
    return sorted(_registry)


def derivative(name: str) -> Derivative:
    """Return the function of a surrogate."""
    if name not in _registry:
        raise ValueError(
            f"surrogate {name!r} is not known; known are {', '.join(names())}. register_surrogate adds one."
        )
    return _registry[name]


def coefficients(name: str, alpha: float) -> tuple[float, float, float, float]:
    """Return the coefficients of a built-in surrogate for the kernels; of the sigmoid only alpha counts."""
    form = BUILT_IN[name]
    return (alpha, 0.0, 0.0, 0.0) if form is None else form(alpha)
