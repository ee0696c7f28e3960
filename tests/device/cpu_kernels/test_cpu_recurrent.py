"""Recurrent layers in one pass; the oracle is the same layer on each sequence alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

import grilly
from grilly_backend_cpu import jit_setup

nn = grilly.nn
LAYERS = {
    "rnn": lambda **how: nn.RNN(7, 40, **how), "relu": lambda **how: nn.RNN(7, 40, nonlinearity="relu", **how),
    "lstm": lambda **how: nn.LSTM(7, 40, **how), "gru": lambda **how: nn.GRU(7, 40, **how),
}  # fmt: skip


def run(layer: Any, x: np.ndarray, g: np.ndarray, lengths: list[int]) -> list[np.ndarray]:
    """Return outputs, last states and the input's gradient; unused steps of the input count as 0."""
    a = grilly.asarray(x).requires_grad_()
    packed = nn.utils.rnn.pack_padded_sequence(a, lengths, enforce_sorted=False)
    y, state = layer(packed)
    y, _ = nn.utils.rnn.pad_packed_sequence(y, total_length=len(x))
    (y * grilly.asarray(g)).sum().backward()
    states = state if isinstance(state, tuple) else (state,)
    return [v.detach().numpy() for v in (y, *states)] + [a.grad.numpy()]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_sequence_gives_what_it_gives_alone(name: str, bidirectional: bool) -> None:
    rng = np.random.default_rng(4)
    layer = LAYERS[name](bidirectional=bidirectional)
    x = rng.standard_normal((9, 19, 7)).astype(np.float32)
    g = rng.standard_normal((9, 19, 80 if bidirectional else 40)).astype(np.float32)
    lengths = [int(n) for n in rng.integers(1, 10, 19)]
    lengths[3] = 9
    together = run(layer, x, g, lengths)
    for i in (0, 3, 7, 8, 18):
        alone = run(layer, x[:, i : i + 1], g[:, i : i + 1], [lengths[i]])
        for whole, part in zip(together, alone, strict=True):
            np.testing.assert_allclose(whole[:, i : i + 1], part, rtol=1e-5, atol=1e-6)
        assert np.abs(alone[-1]).sum() > 0


@pytest.mark.parametrize("name", LAYERS)
def test_bits_do_not_depend_on_the_number_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    layer, x = LAYERS[name](), rng.standard_normal((6, 30, 7)).astype(np.float32)
    g, found = rng.standard_normal((6, 30, 40)).astype(np.float32), []
    for threads in (2, 1):
        monkeypatch.setitem(jit_setup._state, "threads", threads)
        found.append(run(layer, x, g, [6] * 30))
    for one, other in zip(*found, strict=True):
        assert one.tobytes() == other.tobytes()
