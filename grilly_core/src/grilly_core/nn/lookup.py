"""Bags of embeddings, products of two inputs, and distances between two."""

from __future__ import annotations

import math
from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.config import no_grad
from grilly_core.errors import ShapeError
from grilly_core.functional import lookup as f
from grilly_core.functional.losses import cosine_similarity, pairwise_distance
from grilly_core.nn import init
from grilly_core.nn.linear import DeviceLike, positive
from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter
from grilly_core.ops.creation import zeros
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = ["Bilinear", "CosineSimilarity", "EmbeddingBag", "PairwiseDistance"]


class EmbeddingBag(Module):
    """Sums, means or maxima of the rows of a table that bags of ids name.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
    max_norm : float, optional
        Rows that are looked up and longer than this are shortened in the table.
    norm_type : float
        Which p-norm `max_norm` measures.
    scale_grad_by_freq : bool
        Divide each row's gradient by how often it was looked up.
    mode : {"mean", "sum", "max"}
    sparse : bool
        Only False: there are no sparse gradients.
    _weight : Tensor, optional
        The table, instead of a random one.
    include_last_offset : bool
        Whether `offsets` has one number more, the end of the last bag.
    padding_idx : int, optional
        This row is left out, starts at zero and gets no gradient.
    device : Device or str, optional
    dtype : DType, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> bags = grilly.nn.EmbeddingBag(10, 3, mode="sum")
    >>> bags(grilly.tensor([1, 2, 4]), grilly.tensor([0, 2])).shape
    (2, 3)
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: DeviceLike = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        positive(num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if sparse:
            raise ValueError("EmbeddingBag: there are no sparse gradients; leave sparse at False.")
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise IndexError(
                    f"padding_idx: {padding_idx} is out of range for {num_embeddings} embeddings."
                )
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self.padding_idx = padding_idx
        shape = (num_embeddings, embedding_dim)
        if _weight is None:
            self.weight = Parameter(zeros(shape, device=device, dtype=dtype))
            self.reset_parameters()
            return
        given = as_tensor(_weight)
        if tuple(given.shape) != shape:
            raise ShapeError(f"EmbeddingBag: _weight must be {shape}; received {tuple(given.shape)}.")
        self.weight = Parameter(given)

    def reset_parameters(self, *, rng: Generator | None = None) -> None:
        """Draw the first values again: standard normal."""
        init.normal_(self.weight, rng=rng)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, **options: Any) -> EmbeddingBag:
        """Return a table with the given rows, frozen unless told otherwise; options as for the class."""
        rows = as_tensor(embeddings)
        if rows.ndim != 2:
            raise ShapeError(f"from_pretrained: expected rows (N, D); received shape {tuple(rows.shape)}.")
        made = cls(rows.shape[0], rows.shape[1], _weight=rows, **options)
        made.weight.requires_grad_(not freeze)
        return made

    def forward(self, input: Tensor, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        """Map bags ``(B, L)``, or all bags ``(L,)`` with `offsets`, to ``(B, embedding_dim)``."""
        return f.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
            self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Sizes and options that were set."""
        usual = {"max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False}
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text += "".join(f", {k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v)
        return (
            text
            + f", mode={self.mode!r}"
            + ("" if self.padding_idx is None else f", padding_idx={self.padding_idx}")
        )


class Bilinear(Module):
    """Map two inputs by ``x1 @ weight[o] @ x2 + bias[o]`` for every output o.

    Parameters
    ----------
    in1_features, in2_features, out_features : int
    bias : bool
    device : Device or str, optional
    dtype : DType, optional

    Attributes
    ----------
    weight : Parameter, (out_features, in1_features, in2_features)
        Starts uniform in ``±1 / sqrt(in1_features)``, like the bias.
    bias : Parameter, (out_features,) or None

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Bilinear(3, 4, 2)(grilly.ones((5, 3)), grilly.ones((5, 4))).shape
    (5, 2)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: DeviceLike = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        positive(in1_features=in1_features, in2_features=in2_features, out_features=out_features)
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        how: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = Parameter(zeros((out_features, in1_features, in2_features), **how))
        self.register_parameter("bias", Parameter(zeros((out_features,), **how)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self, *, rng: Generator | None = None) -> None:
        """Draw the first values again."""
        bound = 1.0 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound, rng=rng)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound, rng=rng)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Map ``(..., in1_features)`` and ``(..., in2_features)`` to ``(..., out_features)``."""
        return f.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes and whether there is a bias."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class CosineSimilarity(Module):
    """Return the cosine of the angle between vectors along one axis.

    Parameters
    ----------
    dim : int
    eps : float
        Least value of each norm.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.CosineSimilarity(dim=0)(grilly.tensor([1.0, 0.0]), grilly.tensor([0.0, 2.0])).item()
    0.0
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Compare two tensors of one shape."""
        return cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """Return the p-norm of the difference along the last axis.

    Parameters
    ----------
    p : float
    eps : float
        Added to each difference, which keeps the gradient finite for equal vectors.
    keepdim : bool
        Whether the last axis stays, with one element.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.PairwiseDistance(eps=0.0)(grilly.tensor([[3.0, 4.0]]), grilly.zeros((1, 2))).tolist()
    [5.0]
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Compare two tensors ``(N, D)`` or ``(D,)``."""
        return pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
