"""Losses with a margin as modules: ranking, hinges over classes or labels, triplets with any distance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grilly_core.functional import losses_margin as f
from grilly_core.nn.loss import _Loss, _Weighted
from grilly_core.tensor import Tensor

__all__ = [
    "HingeEmbeddingLoss", "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss",
    "SoftMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class MarginRankingLoss(_Loss):
    """``max(0, margin - target * (input1 - input2))``.

    Parameters
    ----------
    margin : float
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> loss = grilly.nn.MarginRankingLoss()
    >>> loss(grilly.tensor([1.0]), grilly.tensor([3.0]), grilly.tensor([1.0])).item()
    2.0
    """

    vectors = 2

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: Any, input2: Any, target: Any) -> Tensor:
        """Compare pairs of numbers; the target is 1 where the first should be larger, else -1."""
        return f.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class HingeEmbeddingLoss(_Loss):
    """Distance itself where the target is 1, ``max(0, margin - distance)`` where it is -1.

    Parameters
    ----------
    margin : float
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.HingeEmbeddingLoss()(grilly.tensor([0.25]), grilly.tensor([-1.0])).item()
    0.75
    """

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare distances with targets 1 and -1."""
        return f.hinge_embedding_loss(input, target, self.margin, self.reduction)


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))``.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.SoftMarginLoss()(grilly.tensor([-1000.0]), grilly.tensor([1.0])).item()
    1000.0
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare logits with targets 1 and -1."""
        return f.soft_margin_loss(input, target, self.reduction)


class MultiLabelSoftMarginLoss(_Weighted):
    """Cross-entropy of one sigmoid per class, averaged over the classes.

    Parameters
    ----------
    weight : array_like, (C,), optional
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> loss = grilly.nn.MultiLabelSoftMarginLoss()
    >>> round(loss(grilly.tensor([[0.0, 0.0]]), grilly.tensor([[1.0, 0.0]])).item(), 4)
    0.6931
    """

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare logits with targets 1 and 0."""
        return f.multilabel_soft_margin_loss(input, target, self.weight, self.reduction)


class MultiMarginLoss(_Weighted):
    """Hinge of every wrong class against the right one, summed and divided by the number of classes.

    Parameters
    ----------
    p : {1, 2}
    margin : float
    weight : array_like, (C,), optional
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.MultiMarginLoss()(grilly.tensor([[0.0, 1.0]]), grilly.tensor([0])).item()
    1.0
    """

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: p must be 1 or 2; received {p}.")
        self.p = p
        self.margin = margin

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare scores with class indices."""
        return f.multi_margin_loss(input, target, self.p, self.margin, self.weight, self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Hinge of every class that is no label against every label.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x, y = grilly.tensor([[0.0, 1.0, 1.0]]), grilly.tensor([[1, 2, -1]])
    >>> grilly.nn.MultiLabelMarginLoss()(x, y).item()
    0.0
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare scores with rows of label indices that a -1 ends."""
        return f.multilabel_margin_loss(input, target, self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))`` with any distance.

    Parameters
    ----------
    distance_function : callable, optional
        Takes two tensors; `pairwise_distance` if None.
    margin : float
    swap : bool
        Use the distance between positive and negative where it is smaller.
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a, n = grilly.zeros((1, 2)), grilly.tensor([[3.0, 4.0]])
    >>> grilly.nn.TripletMarginWithDistanceLoss()(a, a, n).item()
    0.0
    """

    vectors = 3

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginWithDistanceLoss: margin must be positive; received {margin}.")
        self.distance_function = distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Tensor:
        """Compare triples."""
        return f.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
