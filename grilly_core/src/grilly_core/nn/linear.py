"""Dense layers, look-up tables, dropout and changes of shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.device import Device
from grilly_core.errors import ShapeError
from grilly_core.functional.layers import dropout, embedding
from grilly_core.nn import init
from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter
from grilly_core.ops.creation import zeros
from grilly_core.ops.nn_conv import linear
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = ["Dropout", "Embedding", "Flatten", "Identity", "Linear", "Unflatten", "positive"]

DeviceLike = Device | str | None


def positive(**sizes: Any) -> None:
    """Raise unless every size is a positive integer."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ShapeError(f"{name}: expected a positive integer; received {size!r}.")


class Linear(Module):
    """Map the last axis by ``x @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
    bias : bool
    device : Device or str, optional
    dtype : DType, optional

    Attributes
    ----------
    weight : Parameter, (out_features, in_features)
        Starts uniform in ``±1 / sqrt(in_features)``.
    bias : Parameter, (out_features,) or None
        Starts like the weight.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Linear(3, 2)(grilly.ones((4, 3))).shape
    (4, 2)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        positive(in_features=in_features, out_features=out_features)
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(zeros((out_features, in_features), device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(zeros((out_features,), device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self, *, rng: Generator | None = None) -> None:
        """Draw the first values again."""
        bound = 1.0 / math.sqrt(self.in_features)
        init.uniform_(self.weight, -bound, bound, rng=rng)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound, rng=rng)

    def forward(self, input: Tensor) -> Tensor:
        """Map ``(..., in_features)`` to ``(..., out_features)``."""
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes and whether there is a bias."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


def _rows(table: Any, shape: tuple[int, int]) -> Tensor:
    rows = as_tensor(table)
    if tuple(rows.shape) != shape:
        raise ShapeError(f"_weight: expected a table of shape {shape}; received {tuple(rows.shape)}.")
    return rows


class Embedding(Module):
    """Look rows of a table up by integer ids.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
    padding_idx : int, optional
        This row starts at zero and gets no gradient; negative numbers count from the end.
    max_norm : float, optional
        Rows that are looked up and longer than this are shortened in the table.
    norm_type : float
        Which p-norm `max_norm` measures.
    scale_grad_by_freq : bool
        Divide each row's gradient by how often it was looked up.
    sparse : bool
        Only False: there are no sparse gradients.
    _weight : array_like, optional
        The table, instead of a random one.
    _freeze : bool
        Whether the table is not learnt.
    device : Device or str, optional
    dtype : DType, optional

    Attributes
    ----------
    weight : Parameter, (num_embeddings, embedding_dim)
        Starts standard normal.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Embedding(10, 3)(grilly.tensor([[1, 2]])).shape
    (1, 2, 3)
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: DeviceLike = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if sparse:
            raise ValueError("Embedding: there are no sparse gradients; leave sparse at False.")
        positive(num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise IndexError(
                    f"padding_idx: {padding_idx} is out of range for {num_embeddings} embeddings."
                )
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if _weight is not None:
            self.weight = Parameter(
                _rows(_weight, (num_embeddings, embedding_dim)), requires_grad=not _freeze
            )
            return
        made = zeros((num_embeddings, embedding_dim), device=device, dtype=dtype)
        self.weight = Parameter(made, requires_grad=not _freeze)
        self.reset_parameters()

    def reset_parameters(self, *, rng: Generator | None = None) -> None:
        """Draw the first values again."""
        from grilly_core.config import no_grad

        init.normal_(self.weight, rng=rng)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Return a table with the given rows, frozen unless told otherwise."""
        from grilly_core.apply import as_tensor

        rows = as_tensor(embeddings)
        if rows.ndim != 2:
            raise ShapeError(f"from_pretrained: expected rows (N, D); received shape {tuple(rows.shape)}.")
        made = cls(rows.shape[0], rows.shape[1], padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        made.weight = Parameter(rows, requires_grad=not freeze)
        return made

    def forward(self, input: Tensor) -> Tensor:
        """Map ids ``(...)`` to rows ``(..., embedding_dim)``; an id out of range raises IndexError."""
        return embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq
        )

    def extra_repr(self) -> str:
        """Sizes and options that were set."""
        extra = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        usual = {"max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False}
        extra += "".join(f", {k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v)
        return f"{self.num_embeddings}, {self.embedding_dim}{extra}"


class Dropout(Module):
    """In training, zero elements with probability `p` and scale the others by ``1 / (1 - p)``.

    Parameters
    ----------
    p : float
        From 0 to 1.
    inplace : bool
        Also write the result to the input.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Dropout(0.5).eval()(grilly.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"Dropout: p must lie in [0, 1]; received {p}.")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Drop elements of a tensor of any shape."""
        return dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Identity(Module):
    """Return the input; arguments of the constructor are accepted and mean nothing, as in PyTorch.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Identity()(grilly.tensor(1.0)).item()
    1.0
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return the input."""
        return input


class Flatten(Module):
    """Join the axes from `start_dim` to `end_dim`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Flatten()(grilly.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Join the axes."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The range of axes."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split the axis `dim` into several.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Unflatten(1, (3, 4))(grilly.ones((2, 12))).shape
    (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """Split the axis."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The axis and its new sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
