"""Valence and arousal of embeddings."""

from __future__ import annotations

from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.functional.activations import leaky_relu, sigmoid, tanh
from grilly_core.nn.linear import Dropout, Linear
from grilly_core.nn.module import Module
from grilly_core.ops.structure import concat
from grilly_core.tensor import Tensor

__all__ = ["AffectMLP"]


class AffectMLP(Module):
    """Two dense layers with leaky rectifiers and one to valence and arousal.

    Parameters
    ----------
    embedding_dim : int
    hidden1_dim, hidden2_dim : int
        Where they are equal, the second layer adds its input to its output.
    output_dim : int
    leaky_slope : float
    dropout_rate : float
        Share of the hidden features that is dropped in training, after either layer.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.AffectMLP(16)(grilly.ones((3, 16)), apply_output_activation=True).shape
    (3, 2)
    """

    def __init__(
        self,
        embedding_dim: int,
        hidden1_dim: int = 128,
        hidden2_dim: int = 64,
        output_dim: int = 2,
        leaky_slope: float = 0.01,
        dropout_rate: float = 0.1,
    ) -> None:
        super().__init__()
        self.fc1 = Linear(embedding_dim, hidden1_dim)
        self.fc2 = Linear(hidden1_dim, hidden2_dim)
        self.fc3 = Linear(hidden2_dim, output_dim)
        self.dropout = Dropout(dropout_rate)
        self.leaky_slope = leaky_slope

    def forward(self, embeddings: Any, apply_output_activation: bool = False) -> Tensor:
        """Map ``(B, embedding_dim)`` to ``(B, output_dim)``.

        With `apply_output_activation` valence, the first number, goes through tanh and arousal, the second, through
        the logistic function; then there must be two.
        """
        if apply_output_activation and self.fc3.out_features != 2:
            raise ValueError(
                "AffectMLP: apply_output_activation is for output_dim=2, valence and arousal; it is "
                f"{self.fc3.out_features}."
            )
        x = as_tensor(embeddings, self.fc1.weight)
        first = self.dropout(leaky_relu(self.fc1(x), self.leaky_slope))
        second = self.dropout(leaky_relu(self.fc2(first), self.leaky_slope))
        if self.fc1.out_features == self.fc2.out_features:
            second = second + first
        out: Tensor = self.fc3(second)
        if not apply_output_activation:
            return out
        both: Tensor = concat([tanh(out[..., :1]), sigmoid(out[..., 1:])], axis=-1)
        return both
