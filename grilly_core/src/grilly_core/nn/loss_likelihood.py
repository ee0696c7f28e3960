"""Negative log-likelihoods as modules: counts, normal variables, label sequences."""

from __future__ import annotations

from typing import Any

from grilly_core.functional import losses_ctc, losses_likelihood
from grilly_core.nn.loss import _Loss
from grilly_core.tensor import Tensor

__all__ = ["CTCLoss", "GaussianNLLLoss", "PoissonNLLLoss"]


class PoissonNLLLoss(_Loss):
    """Negative log-likelihood of counts under Poisson distributions.

    Parameters
    ----------
    log_input : bool
        Whether inputs are logarithms of rates.
    full : bool
        Add Stirling's approximation of ``log(target!)``.
    eps : float
        Added to rates before their logarithm.
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.PoissonNLLLoss()(grilly.tensor([0.0]), grilly.tensor([2.0])).item()
    1.0
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare (log-)rates with counts."""
        return losses_likelihood.poisson_nll_loss(
            input, target, self.log_input, self.full, self.eps, self.reduction
        )


class GaussianNLLLoss(_Loss):
    """Negative log-likelihood under normal distributions.

    Parameters
    ----------
    full : bool
        Add the constant ``log(2 pi) / 2``.
    eps : float
        Least variance.
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> one = grilly.tensor([1.0])
    >>> grilly.nn.GaussianNLLLoss()(one - 1.0, one + 1.0, one).item()
    2.0
    """

    vectors = 3

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Any, target: Any, var: Any) -> Tensor:
        """Compare means and variances with targets."""
        return losses_likelihood.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


class CTCLoss(_Loss):
    """Minus the log-probability of label sequences, summed over all alignments.

    Parameters
    ----------
    blank : int
        The class that separates labels.
    reduction : {"mean", "sum", "none"}
    zero_infinity : bool
        Losses of targets that do not fit into their frames become 0.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.functional.log_softmax(grilly.zeros((2, 1, 2)), -1)
    >>> round(grilly.nn.CTCLoss()(x, grilly.tensor([[1]]), [2], [1]).item(), 4)
    0.2877
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Tensor:
        """Compare log-probabilities of frames with label sequences."""
        return losses_ctc.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
