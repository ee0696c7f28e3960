"""Contrastive losses as modules."""

from __future__ import annotations

from typing import Any

from grilly_core.functional import losses_contrastive as f
from grilly_core.nn.loss import _Loss
from grilly_core.tensor import Tensor

__all__ = [
    "ContrastiveLoss", "InfoNCELoss", "NTXentLoss", "PairContrastiveLoss", "SupervisedContrastiveLoss",
]  # fmt: skip


class InfoNCELoss(_Loss):
    """Cross-entropy of finding the positive among the negatives by cosine.

    Parameters
    ----------
    temperature : float
    reduction : {"mean", "sum", "none"}
    symmetric : bool
        Half of it, and half of finding the anchor from its positive; only without negatives of its own.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a = grilly.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(grilly.nn.InfoNCELoss(1.0)(a, a).item(), 4)
    0.3133
    """

    vectors = 3

    def __init__(self, temperature: float = 0.07, reduction: str = "mean", symmetric: bool = False) -> None:
        super().__init__(reduction)
        f._positive(temperature, "InfoNCELoss")
        self.temperature = temperature
        self.symmetric = symmetric

    def forward(self, anchor: Any, positive: Any, negative: Any = None) -> Tensor:
        """Compare ``(N, D)`` with its partners, among ``(N, K, D)`` or ``(K, D)`` or each other's partners."""
        return f.info_nce_loss(
            anchor, positive, negative, self.temperature, self.reduction, symmetric=self.symmetric
        )


class NTXentLoss(_Loss):
    """Each of 2N views finds its partner among the 2N - 1 others, by cosine.

    Parameters
    ----------
    temperature : float
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a = grilly.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(grilly.nn.NTXentLoss(1.0)(a, a).item(), 4)
    0.5514
    """

    vectors = 2

    def __init__(self, temperature: float = 0.5, reduction: str = "mean") -> None:
        super().__init__(reduction)
        f._positive(temperature, "NTXentLoss")
        self.temperature = temperature

    def forward(self, input1: Any, input2: Any) -> Tensor:
        """Compare two views ``(N, D)`` of the same things."""
        return f.nt_xent_loss(input1, input2, self.temperature, self.reduction)


class SupervisedContrastiveLoss(_Loss):
    """Vectors of one label are near each other, others far.

    Parameters
    ----------
    temperature : float
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(grilly.nn.SupervisedContrastiveLoss(1.0)(x, grilly.tensor([0, 0, 1])).item(), 4)
    0.3133
    """

    def __init__(self, temperature: float = 0.1, reduction: str = "mean") -> None:
        super().__init__(reduction)
        f._positive(temperature, "SupervisedContrastiveLoss")
        self.temperature = temperature

    def forward(self, input: Any, labels: Any) -> Tensor:
        """Compare vectors ``(N, D)``, or views ``(N, V, D)``, by their labels."""
        return f.supervised_contrastive_loss(input, labels, self.temperature, self.reduction)


class ContrastiveLoss(_Loss):
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))``; without negatives ``d(anchor, positive)**2``.

    Parameters
    ----------
    margin : float
    distance_metric : {"cosine", "euclidean"}
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a, n = grilly.tensor([[1.0, 0.0]]), grilly.tensor([[0.0, 1.0]])
    >>> grilly.nn.ContrastiveLoss()(a, n, a).item()
    1.5
    """

    vectors = 3

    def __init__(self, margin: float = 0.5, distance_metric: str = "cosine", reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin
        self.distance_metric = distance_metric

    def forward(self, anchor: Any, positive: Any, negative: Any = None) -> Tensor:
        """Compare vectors ``(..., D)`` with what they belong to, and with what they do not."""
        return f.contrastive_loss(
            anchor, positive, negative, self.margin, self.distance_metric, self.reduction
        )


class PairContrastiveLoss(_Loss):
    """Half the squared distance of similar pairs, half ``max(0, margin - d)**2`` of the others.

    Parameters
    ----------
    margin : float
    distance_metric : {"euclidean", "cosine"}
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a, b = grilly.zeros((1, 2)), grilly.tensor([[0.0, 0.5]])
    >>> grilly.nn.PairContrastiveLoss()(a, b, grilly.tensor([1])).item()
    0.125
    """

    vectors = 2

    def __init__(
        self, margin: float = 1.0, distance_metric: str = "euclidean", reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.margin = margin
        self.distance_metric = distance_metric

    def forward(self, input1: Any, input2: Any, target: Any) -> Tensor:
        """Compare pairs; the target is 1 where they are similar, else 0."""
        return f.pair_contrastive_loss(
            input1, input2, target, self.margin, self.distance_metric, self.reduction
        )
