"""Dense layers and look-up tables with adapters."""

from __future__ import annotations

from typing import Any, Self

from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.functional.layers import embedding
from grilly_core.lora.config import LoRAConfig
from grilly_core.lora.layer import DEFAULT, LoRALayer
from grilly_core.nn.linear import Embedding, Linear
from grilly_core.nn.parameter import Parameter
from grilly_core.ops.nn_conv import linear
from grilly_core.tensor import Tensor

__all__ = ["LoRAEmbedding", "LoRALinear", "apply_lora_to_linear"]


def _table(name: str, values: Any, shape: tuple[int, ...]) -> Parameter:
    given = as_tensor(values)
    if tuple(given.shape) != shape:
        raise ShapeError(f"{name}: expected shape {shape}; received {tuple(given.shape)}.")
    return Parameter(given, requires_grad=False)


class LoRALinear(LoRALayer):
    """A dense layer with a frozen weight: ``x @ W.T + scaling * dropout(x) @ A.T @ B.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
    rank : int
    alpha : float
        The update is scaled by ``alpha / rank``.
    dropout : float
        Share of the adapter's input that is dropped in training.
    bias : bool
        Whether there is a bias, which is trained.
    init_weights : {"kaiming", "gaussian", "random", "zeros"}
        First values of A and B; see `LoRAConfig`.
    base_weights : array_like, optional
        W, instead of a random one.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.lora.LoRALinear(768, 768, rank=8).num_trainable_params()
    12288
    """

    base_layer: Linear

    def __init__(
        self,
        in_features: int,
        out_features: int,
        rank: int = 8,
        alpha: float = 16,
        dropout: float = 0.0,
        bias: bool = False,
        init_weights: str = "kaiming",
        base_weights: Any = None,
    ) -> None:
        config = LoRAConfig(rank, alpha, dropout, init_lora_weights=init_weights)
        base = Linear(in_features, out_features, bias)
        if base_weights is not None:
            base.weight = _table("base_weights", base_weights, (out_features, in_features))
            base.to(base.weight)
        super().__init__(base)
        self.add_adapter(DEFAULT, config)
        if base.bias is not None:
            base.bias.requires_grad_()

    @classmethod
    def around(cls, layer: Linear) -> Self:
        """Return a layer that computes as `layer`, still without adapters."""
        self = cls.__new__(cls)
        LoRALayer.__init__(self, layer)
        return self

    def _shapes(self, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (rank, self.base_layer.in_features), (self.base_layer.out_features, rank)

    def _product(self, a: Tensor, b: Tensor) -> Tensor:
        return b @ a

    def _low_rank(self, input: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return linear(linear(input, a), b)

    def _plain(self, input: Tensor, weight: Tensor) -> Tensor:
        return linear(input, weight)

    def _along(self, factors: Tensor, output: Tensor) -> Tensor:
        return factors


class LoRAEmbedding(LoRALayer):
    """A frozen look-up table with a low-rank update: rows of ``W + scaling * (B @ A).T``.

    Only the columns of A that are looked up are read.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
    rank : int
    alpha : float
        The update is scaled by ``alpha / rank``.
    base_weights : array_like, optional
        W, instead of a random one.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.lora.LoRAEmbedding(10, 4, rank=2)(grilly.tensor([1, 2])).shape
    (2, 4)
    """

    out_axis = 1
    lookup = True
    base_layer: Embedding

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        rank: int = 8,
        alpha: float = 16,
        base_weights: Any = None,
    ) -> None:
        config = LoRAConfig(rank, alpha)
        base = Embedding(num_embeddings, embedding_dim)
        if base_weights is not None:
            base.weight = _table("base_weights", base_weights, (num_embeddings, embedding_dim))
        super().__init__(base)
        self.add_adapter(DEFAULT, config)

    @classmethod
    def around(cls, layer: Embedding) -> Self:
        """Return a table that computes as `layer`, still without adapters."""
        if layer.max_norm is not None:
            raise ValueError(
                "LoRAEmbedding: a table with max_norm is rewritten as it is read, so it cannot be frozen; "
                "leave it out of target_modules."
            )
        self = cls.__new__(cls)
        LoRALayer.__init__(self, layer)
        return self

    def _shapes(self, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (rank, self.base_layer.num_embeddings), (self.base_layer.embedding_dim, rank)

    def _product(self, a: Tensor, b: Tensor) -> Tensor:
        return (b @ a).T

    def _low_rank(self, input: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return linear(self._plain(input, a.T), b)

    def _plain(self, input: Tensor, weight: Tensor) -> Tensor:
        base = self.base_layer
        return embedding(input, weight, base.padding_idx, scale_grad_by_freq=base.scale_grad_by_freq)

    def _along(self, factors: Tensor, output: Tensor) -> Tensor:
        return factors


def apply_lora_to_linear(weight: Any, config: LoRAConfig | None = None) -> LoRALinear:
    """Return a dense layer with the given frozen weight ``(out, in)`` and a fresh adapter.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.lora.apply_lora_to_linear(grilly.ones((3, 2)))(grilly.ones((1, 2))).tolist()
    [[2.0, 2.0, 2.0]]
    """
    given = as_tensor(weight)
    if given.ndim != 2:
        raise ShapeError(
            f"apply_lora_to_linear: expected a weight (out, in); received shape {tuple(given.shape)}."
        )
    base = Linear(given.shape[1], given.shape[0], bias=False)
    base.weight = Parameter(given, requires_grad=False)
    return LoRALinear.around(base).add_adapter(DEFAULT, config)
