"""Surrogate gradients as objects that nodes take."""

from __future__ import annotations

from typing import Any

from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import tensor
from grilly_ext_snn.ops.spikes import spike
from grilly_ext_snn.surrogates import derivative

__all__ = ["ATan", "FastSigmoid", "SigmoidSurrogate", "StraightThrough", "Surrogate", "Triangular"]


class Surrogate:
    """A spike with a surrogate gradient: called, it returns 1 where its argument is at least 0, else 0.

    Parameters
    ----------
    name : str
        Of a built-in surrogate or of one that `register_surrogate` was given.
    alpha : float
        Its sharpness, above 0.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.surrogates import Surrogate
    >>> x = grilly.tensor([-0.5, 0.5], requires_grad=True)
    >>> y = Surrogate("triangular", alpha=1.0)(x)
    >>> y.sum().backward()
    >>> y.tolist(), x.grad.tolist()
    ([0.0, 1.0], [0.5, 0.5])
    """

    def __init__(self, name: str, alpha: float = 1.0) -> None:
        derivative(name)
        if not 0 < alpha < float("inf"):
            raise ValueError(f"{type(self).__name__}: alpha must be positive and finite; received {alpha!r}.")
        self.name, self.alpha = name, float(alpha)

    def __call__(self, distance: Any) -> Tensor:
        """Return the spikes."""
        return spike(tensor(distance), surrogate=self.name, alpha=self.alpha)

    def derivative(self, distance: Any) -> Tensor:
        """Return what stands for the derivative of the spike."""
        result: Tensor = derivative(self.name)(tensor(distance), self.alpha)
        return result

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, alpha={self.alpha})"


class ATan(Surrogate):
    """``alpha / 2 / (1 + (pi alpha x / 2)^2)``.

    Examples
    --------
    >>> from grilly_ext_snn.nn.surrogates import ATan
    >>> ATan().derivative([0.0]).tolist()
    [1.0]
    """

    def __init__(self, alpha: float = 2.0) -> None:
        super().__init__("atan", alpha)


class SigmoidSurrogate(Surrogate):
    """``alpha s (1 - s)`` with ``s = sigmoid(alpha x)``; `Sigmoid` is the activation.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.surrogates import SigmoidSurrogate
    >>> x = grilly.tensor([-0.5, 0.25], requires_grad=True)
    >>> SigmoidSurrogate()(x).sum().backward()
    >>> [round(g, 4) for g in x.grad.tolist()]
    [0.42, 0.7864]
    """

    def __init__(self, alpha: float = 4.0) -> None:
        super().__init__("sigmoid", alpha)


class FastSigmoid(Surrogate):
    """``alpha / 2 / (1 + alpha |x|)^2``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.surrogates import FastSigmoid
    >>> x = grilly.tensor([-0.5, 0.25], requires_grad=True)
    >>> FastSigmoid()(x).sum().backward()
    >>> [round(g, 4) for g in x.grad.tolist()]
    [0.25, 0.4444]
    """

    def __init__(self, alpha: float = 2.0) -> None:
        super().__init__("fast_sigmoid", alpha)


class Triangular(Surrogate):
    """``alpha max(0, 1 - alpha |x|)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.surrogates import Triangular
    >>> x = grilly.tensor([-0.5, 0.25], requires_grad=True)
    >>> Triangular()(x).sum().backward()
    >>> [round(g, 4) for g in x.grad.tolist()]
    [0.5, 0.75]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__("triangular", alpha)


class StraightThrough(Surrogate):
    """1 everywhere.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_ext_snn.nn.surrogates import StraightThrough
    >>> x = grilly.tensor([-0.5, 0.25], requires_grad=True)
    >>> StraightThrough()(x).sum().backward()
    >>> [round(g, 4) for g in x.grad.tolist()]
    [1.0, 1.0]
    """

    def __init__(self) -> None:
        super().__init__("straight_through", 1.0)
