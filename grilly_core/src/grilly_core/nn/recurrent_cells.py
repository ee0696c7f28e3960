"""Single steps of recurrent layers."""

from __future__ import annotations

import math
from typing import Any, ClassVar, cast

from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.nn import init
from grilly_core.nn.linear import DeviceLike, positive
from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter
from grilly_core.ops import nn as ops
from grilly_core.ops.creation import zeros
from grilly_core.ops.primitives import tanh
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]


class _Cell(Module):
    """What the cells share; `gates` is how many blocks of rows the weights have."""

    gates: ClassVar[int]
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: DeviceLike = None, dtype: Any = None
    ) -> None:  # fmt: skip
        super().__init__()
        positive(input_size=input_size, hidden_size=hidden_size)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows, how = self.gates * hidden_size, {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(zeros((rows, input_size), **how))
        self.weight_hh = Parameter(zeros((rows, hidden_size), **how))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(zeros((rows,), **how)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self, *, rng: Generator | None = None) -> None:
        """Draw the first values again: uniform in ``±1 / sqrt(hidden_size)``."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound, rng=rng)

    def _inputs(self, input: Any, *states: Any) -> tuple[bool, Tensor, tuple[Tensor, ...]]:
        """Return whether the batch axis was added, the input and the states with it."""
        name = type(self).__name__
        x = input if isinstance(input, Tensor) else as_tensor(input, self.weight_ih)
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{name}: expected an input (N, {self.input_size}) or ({self.input_size},); received shape "
                f"{tuple(x.shape)}."
            )
        shape = (*x.shape[:-1], self.hidden_size)
        full = [
            zeros(shape, dtype=x.dtype, device=x.device) if s is None
            else s if isinstance(s, Tensor)
            else as_tensor(s, x)
            for s in states
        ]  # fmt: skip
        for state in full:
            if tuple(state.shape) != shape:
                raise ShapeError(f"{name}: expected a state of shape {shape}; received {tuple(state.shape)}.")
        if x.ndim == 2:
            return False, x, tuple(full)
        return True, x.unsqueeze(0), tuple(s.unsqueeze(0) for s in full)

    def _projections(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return ops.linear(x, self.weight_ih, self.bias_ih), ops.linear(h, self.weight_hh, self.bias_hh)

    def extra_repr(self) -> str:
        """Sizes, and the bias if there is none."""
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_Cell):
    """One step of `RNN`: ``tanh(W_ih x + b_ih + W_hh h + b_hh)``.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    nonlinearity : {"tanh", "relu"}
    device : Device or str, optional
    dtype : DType, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.RNNCell(3, 5)(grilly.ones((2, 3))).shape
    (2, 5)
    """

    gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
        device: DeviceLike = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity: expected 'tanh' or 'relu'; received {nonlinearity!r}.")
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Tensor:
        """Return the new state ``(N, hidden_size)``; `hx` is the old one, zeros if not given."""
        added, x, (h,) = self._inputs(input, hx)
        own, other = self._projections(x, h)
        new: Tensor = (tanh if self.nonlinearity == "tanh" else ops.relu)(own + other)
        return new.squeeze(0) if added else new

    def extra_repr(self) -> str:
        """Sizes, and options that differ from their defaults."""
        extra = "" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}"
        return super().extra_repr() + extra


class LSTMCell(_Cell):
    """One step of `LSTM`.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    device : Device or str, optional
    dtype : DType, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> h, c = grilly.nn.LSTMCell(3, 5)(grilly.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 5), (2, 5))
    """

    gates = 4

    def forward(self, input: Any, hx: Any = None) -> tuple[Tensor, Tensor]:
        """Return the new state ``(h, c)``, each ``(N, hidden_size)``; `hx` is the old one, zeros if not given."""
        added, x, (h, c) = self._inputs(input, *((None, None) if hx is None else hx))
        h, c = cast("tuple[Tensor, Tensor]", ops.lstm_cell(*self._projections(x, h), c))
        return (h.squeeze(0), c.squeeze(0)) if added else (h, c)


class GRUCell(_Cell):
    """One step of `GRU`.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    device : Device or str, optional
    dtype : DType, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.GRUCell(3, 5)(grilly.ones((2, 3))).shape
    (2, 5)
    """

    gates = 3

    def forward(self, input: Any, hx: Any = None) -> Tensor:
        """Return the new state ``(N, hidden_size)``; `hx` is the old one, zeros if not given."""
        added, x, (h,) = self._inputs(input, hx)
        new = cast(Tensor, ops.gru_cell(*self._projections(x, h), h))
        return new.squeeze(0) if added else new
