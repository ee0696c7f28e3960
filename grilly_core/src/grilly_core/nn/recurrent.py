"""Recurrent layers over whole sequences: several layers deep, in one or both directions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, cast

from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.functional.layers import dropout
from grilly_core.nn import init
from grilly_core.nn.linear import DeviceLike, positive
from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter
from grilly_core.nn.utils.rnn import PackedSequence, lengths_of, packed_rows, padded_rows
from grilly_core.ops import nn as ops
from grilly_core.ops.creation import asarray, zeros
from grilly_core.ops.primitives import gather
from grilly_core.ops.structure import concat, stack
from grilly_core.ops.views import permute_dims
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = ["GRU", "LSTM", "RNN"]

States = tuple[Tensor, ...]


class _Batch(NamedTuple):
    """An input as ``(T, N, I)``, and what is needed to give the output the form that the input had."""

    x: Tensor
    lengths: Tensor | None
    packed: PackedSequence | None
    added: bool


class _Direction(NamedTuple):
    """The parameters of one direction of one layer."""

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None
    weight_hr: Parameter | None


class _Recurrent(Module):
    """What the recurrent layers share: parameters, directions, packed and unbatched inputs.

    `gates` is how many blocks of rows the weights have, `states` how many tensors the state is.
    """

    gates: ClassVar[int]
    states: ClassVar[int] = 1

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int, bias: bool, batch_first: bool, dropout: float,
        bidirectional: bool, proj_size: int, device: DeviceLike, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        positive(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"dropout: expected a number from 0 to 1; received {dropout!r}.")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"dropout={dropout} has no effect with num_layers=1: it acts between layers.", stacklevel=3
            )
        if not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"proj_size: expected 0 (none) or a number below hidden_size={hidden_size}; received {proj_size}."
            )
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._create({"device": device, "dtype": dtype})
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _width(self) -> int:
        return self.proj_size or self.hidden_size

    def _names(self) -> Iterator[tuple[int, str]]:
        """Yield the layer and the names' suffix of every direction, in order."""
        for layer in range(self.num_layers):
            for suffix in ("", "_reverse")[: self._directions]:
                yield layer, f"_l{layer}{suffix}"

    def _create(self, how: dict[str, Any]) -> None:
        rows = self.gates * self.hidden_size
        for layer, suffix in self._names():
            columns = self.input_size if layer == 0 else self._width * self._directions
            shapes: dict[str, tuple[int, ...]] = {
                "weight_ih": (rows, columns),
                "weight_hh": (rows, self._width),
            }
            if self.bias:
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
            if self.proj_size:
                shapes["weight_hr"] = (self.proj_size, self.hidden_size)
            for name, shape in shapes.items():
                self.register_parameter(name + suffix, Parameter(zeros(shape, **how)))

    def reset_parameters(self, *, rng: Generator | None = None) -> None:
        """Draw the first values again: uniform in ``±1 / sqrt(hidden_size)``."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound, rng=rng)

    def flatten_parameters(self) -> None:
        """Nothing is to be done here: parameters are used where they lie. For code written for PyTorch."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each direction of each layer."""
        return [[p for p in self._of(suffix) if p is not None] for _, suffix in self._names()]

    def _of(self, suffix: str) -> _Direction:
        return _Direction(*(getattr(self, name + suffix, None) for name in _Direction._fields))  # type: ignore[arg-type]

    # -- inputs and states -----------------------------------------------------------------------------------

    def _read(self, input: Any) -> _Batch:
        name = type(self).__name__
        if isinstance(input, PackedSequence):
            counts = lengths_of(input.batch_sizes)
            order = asarray(range(len(counts)), dtype="int32", device="cpu").numpy()
            x = padded_rows(input.data, counts, order, len(input.batch_sizes))
            batch = _Batch(x, asarray(counts, device=x.device), input, False)
        else:
            x = input if isinstance(input, Tensor) else as_tensor(input, next(self.parameters()))
            if x.ndim not in (2, 3):
                raise ShapeError(
                    f"{name}: expected an input of 3 axes, or of 2 without the batch; received shape {tuple(x.shape)}."
                )
            added = x.ndim == 2
            if added:
                x = x.unsqueeze(1)
            elif self.batch_first:
                x = permute_dims(x, axes=(1, 0, 2))
            batch = _Batch(x, None, None, added)
        if batch.x.ndim != 3 or batch.x.shape[2] != self.input_size:
            raise ShapeError(
                f"{name}: the last axis of the input must be input_size={self.input_size}; received shape "
                f"{tuple(batch.x.shape)}."
            )
        if batch.x.shape[0] == 0:
            raise ShapeError(f"{name}: expected at least one time step; received none.")
        return batch

    def _sizes(self) -> tuple[int, ...]:
        """The width of each tensor of the state."""
        return (self._width, self.hidden_size)[: self.states]

    def _first_states(self, given: Any, batch: _Batch) -> States:
        count, rows = self.num_layers * self._directions, batch.x.shape[1]
        if given is None:
            return tuple(
                zeros((count, rows, n), dtype=batch.x.dtype, device=batch.x.device) for n in self._sizes()
            )
        listed = (given,) if self.states == 1 else tuple(given)
        if len(listed) != self.states:
            raise ShapeError(
                f"{type(self).__name__}: the state is {self.states} tensors; received {len(listed)}."
            )
        states = [s if isinstance(s, Tensor) else as_tensor(s, batch.x) for s in listed]
        for state, n in zip(states, self._sizes(), strict=True):
            wanted = (count, n) if batch.added else (count, rows, n)
            if tuple(state.shape) != wanted:
                raise ShapeError(
                    f"{type(self).__name__}: expected a state of shape {wanted}; received {tuple(state.shape)}."
                )
        if batch.added:
            return tuple(s.unsqueeze(1) for s in states)
        return tuple(_reordered(s, batch.packed and batch.packed.sorted_indices) for s in states)

    # -- forward ---------------------------------------------------------------------------------------------

    def _scan(
        self, x: Tensor, weights: _Direction, states: States, lengths: Tensor | None, reverse: bool
    ) -> tuple[Tensor, ...]:
        """Return the outputs of one direction, then its last states."""
        raise NotImplementedError

    def _layers(self, batch: _Batch, states: States) -> tuple[Tensor, States]:
        x, finals = batch.x, []
        ways = self._directions
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                x = dropout(x, self.dropout)
            found = []
            for way in range(ways):
                weights = self._of(f"_l{layer}{'_reverse' if way else ''}")
                first = tuple(s[layer * ways + way] for s in states)
                found.append(self._scan(x, weights, first, batch.lengths, bool(way)))
            x = found[0][0] if ways == 1 else concat([f[0] for f in found], axis=2)
            finals += [f[1:] for f in found]
        return x, tuple(stack(list(same), axis=0) for same in zip(*finals, strict=True))

    def _run(self, input: Any, hx: Any) -> tuple[Any, States]:
        batch = self._read(input)
        y, states = self._layers(batch, self._first_states(hx, batch))
        if batch.packed is not None:
            counts = lengths_of(batch.packed.batch_sizes)
            data, _ = packed_rows(y, counts, asarray(range(len(counts)), dtype="int32", device="cpu").numpy())
            states = tuple(_reordered(s, batch.packed.unsorted_indices) for s in states)
            return batch.packed._replace(data=data), states
        if batch.added:
            return y.squeeze(1), tuple(s.squeeze(1) for s in states)
        return permute_dims(y, axes=(1, 0, 2)) if self.batch_first else y, states

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Return the outputs of all steps, and the last state of every layer and direction.

        Parameters
        ----------
        input : Tensor or PackedSequence
            (T, N, input_size), with `batch_first` (N, T, input_size), or (T, input_size) without a batch.
        hx : Tensor or tuple of Tensor, optional
            The first state, (layers * directions, N, hidden_size); zeros if not given.
        """
        y, states = self._run(input, hx)
        return y, states[0] if self.states == 1 else states

    def extra_repr(self) -> str:
        """Sizes, and options that differ from their defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        options = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False
        }  # fmt: skip
        return text + "".join(
            f", {n}={getattr(self, n)}" for n, usual in options.items() if getattr(self, n) != usual
        )


def _reordered(state: Tensor, order: Tensor | None) -> Tensor:
    return state if order is None else gather(state, order, axis=1)


def _both(weights: _Direction) -> Tensor | None:
    """The two biases as one, for layers that only ever add them."""
    if weights.bias_ih is None or weights.bias_hh is None:
        return None
    return weights.bias_ih + weights.bias_hh


class RNN(_Recurrent):
    """Plain recurrent layers: ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)``.

    Parameters
    ----------
    input_size, hidden_size : int
    num_layers : int
        Each layer takes the outputs of the one below.
    nonlinearity : {"tanh", "relu"}
    bias : bool
    batch_first : bool
        Whether input and output are ``(N, T, ...)``; states never are.
    dropout : float
        Probability with which outputs are zeroed in training before they go to the next layer.
    bidirectional : bool
        Also run backwards through time; the outputs stand side by side.
    device : Device or str, optional
    dtype : DType, optional

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 : Parameter
        Of the first layer, and so on; those of the backward direction end in ``_reverse``. All start uniform in
        ``±1 / sqrt(hidden_size)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, h = grilly.nn.RNN(3, 5, num_layers=2)(grilly.ones((7, 2, 3)))
    >>> y.shape, h.shape
    ((7, 2, 5), (2, 2, 5))
    """

    gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: DeviceLike = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity: expected 'tanh' or 'relu'; received {nonlinearity!r}.")
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )
        self.nonlinearity = nonlinearity

    def _scan(
        self, x: Tensor, weights: _Direction, states: States, lengths: Tensor | None, reverse: bool
    ) -> tuple[Tensor, ...]:
        projected = ops.linear(x, weights.weight_ih, _both(weights))
        return ops.rnn_layer(
            projected, weights.weight_hh, states[0], lengths, activation=self.nonlinearity, reverse=reverse
        )


class LSTM(_Recurrent):
    """Layers of long short-term memory.

    With i, f, g, o = the four blocks of ``W_ih x + b_ih + W_hh h + b_hh``:
    ``c = sigmoid(f) c + sigmoid(i) tanh(g)`` and ``h = sigmoid(o) tanh(c)``.

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional
        As for `RNN`.
    proj_size : int
        If not 0, h is mapped to this many features by ``weight_hr_l0`` and so on.
    device : Device or str, optional
    dtype : DType, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, (h, c) = grilly.nn.LSTM(3, 5, bidirectional=True)(grilly.ones((7, 2, 3)))
    >>> y.shape, h.shape, c.shape
    ((7, 2, 10), (2, 2, 5), (2, 2, 5))
    """

    gates = 4
    states = 2

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: DeviceLike = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )

    def _scan(
        self, x: Tensor, weights: _Direction, states: States, lengths: Tensor | None, reverse: bool
    ) -> tuple[Tensor, ...]:
        projected = ops.linear(x, weights.weight_ih, _both(weights))
        h, c = states
        found = ops.lstm_layer(
            projected, weights.weight_hh, h, c, weights.weight_hr, lengths, reverse=reverse
        )
        return cast("tuple[Tensor, ...]", found)


class GRU(_Recurrent):
    """Layers of gated recurrent units.

    With r, z, n = the three blocks of the projections: ``r = sigmoid(x_r + h_r)``, ``z = sigmoid(x_z + h_z)``,
    ``n = tanh(x_n + r h_n)`` and ``h = (1 - z) n + z h``.

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional
        As for `RNN`.
    device : Device or str, optional
    dtype : DType, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> y, h = grilly.nn.GRU(3, 5, batch_first=True)(grilly.ones((2, 7, 3)))
    >>> y.shape, h.shape
    ((2, 7, 5), (1, 2, 5))
    """

    gates = 3

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, device: DeviceLike = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )

    def _scan(
        self, x: Tensor, weights: _Direction, states: States, lengths: Tensor | None, reverse: bool
    ) -> tuple[Tensor, ...]:
        projected = ops.linear(x, weights.weight_ih, weights.bias_ih)
        return cast(
            "tuple[Tensor, ...]",
            ops.gru_layer(projected, weights.weight_hh, states[0], weights.bias_hh, lengths, reverse=reverse),
        )
