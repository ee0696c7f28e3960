"""Activation layers without settings, or with the one whether they also write to their input."""

from __future__ import annotations

from grilly_core.errors import ShapeError
from grilly_core.functional import activations as f
from grilly_core.functional.dropping import rrelu
from grilly_core.nn.module import Module
from grilly_core.tensor import Tensor

__all__ = [
    "GCU",
    "SELU",
    "Hardsigmoid",
    "Hardswish",
    "LogSigmoid",
    "Mish",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax2d",
    "Softsign",
    "Tanh",
    "Tanhshrink",
]  # fmt: skip


class _Plain(Module):
    """An activation without settings."""

    def __init__(self) -> None:
        super().__init__()


class _InPlace(Module):
    """An activation whose only setting is whether it also writes to its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Only what differs from the default."""
        return "inplace=True" if self.inplace else ""


class Sigmoid(_Plain):
    """Return ``1 / (1 + exp(-x))``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Sigmoid()(grilly.tensor(0.0)).item()
    0.5
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.sigmoid(input)


class Tanh(_Plain):
    """Return the hyperbolic tangent.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Tanh()(grilly.tensor(0.0)).item()
    0.0
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.tanh(input)


class LogSigmoid(_Plain):
    """Return ``log(sigmoid(x))``, finite for every finite x.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.LogSigmoid()(grilly.tensor(-1000.0)).item()
    -1000.0
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.logsigmoid(input)


class Softsign(_Plain):
    """Return ``x / (1 + |x|)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Softsign()(grilly.tensor(1.0)).item()
    0.5
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.softsign(input)


class Tanhshrink(_Plain):
    """Return ``x - tanh(x)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Tanhshrink()(grilly.tensor(0.0)).item()
    0.0
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.tanhshrink(input)


class GCU(_Plain):
    """Return the growing cosine unit ``x * cos(x)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.GCU()(grilly.tensor(0.0)).item()
    0.0
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.gcu(input)


class ReLU(_InPlace):
    """Return ``max(x, 0)``; with ``inplace=True`` also write it to the input.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ReLU()(grilly.tensor(-1.0)).item()
    0.0
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.relu(input, self.inplace)


class ReLU6(_InPlace):
    """Return ``min(max(x, 0), 6)``; with ``inplace=True`` also write it to the input.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ReLU6()(grilly.tensor(8.0)).item()
    6.0
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.relu6(input, self.inplace)


class SiLU(_InPlace):
    """Return ``x * sigmoid(x)``; with ``inplace=True`` also write it to the input.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.SiLU()(grilly.tensor(0.0)).item()
    0.0
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.silu(input, self.inplace)


class SELU(_InPlace):
    """Return the self-normalising exponential unit; with ``inplace=True`` also write it to the input.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.SELU()(grilly.tensor(0.0)).item()
    0.0
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.selu(input, self.inplace)


class Hardsigmoid(_InPlace):
    """Return ``relu6(x + 3) / 6``; with ``inplace=True`` also write it to the input.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Hardsigmoid()(grilly.tensor(0.0)).item()
    0.5
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.hardsigmoid(input, self.inplace)


class Hardswish(_InPlace):
    """Return ``x * relu6(x + 3) / 6``; with ``inplace=True`` also write it to the input.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Hardswish()(grilly.tensor(3.0)).item()
    3.0
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.hardswish(input, self.inplace)


class Mish(_InPlace):
    """Return ``x * tanh(softplus(x))``; with ``inplace=True`` also write it to the input.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Mish()(grilly.tensor(0.0)).item()
    0.0
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.mish(input, self.inplace)


class RReLU(Module):
    """Return x where it is positive, else a random part of it in training, and else the mean part.

    Parameters
    ----------
    lower, upper : float
        Bounds of the slope.
    inplace : bool
        Also write the result to the input.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.RReLU(0.25, 0.75).eval()(grilly.tensor(-4.0)).item()
    -2.0
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The bounds."""
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class Softmax2d(_Plain):
    """Return the softmax over the channels of ``(N, C, H, W)`` or ``(C, H, W)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Softmax2d()(grilly.zeros((2, 1, 1))).flatten().tolist()
    [0.5, 0.5]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply it along the channels."""
        if input.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: expected 3 or 4 axes; received shape {tuple(input.shape)}.")
        return f.softmax(input, -3)
