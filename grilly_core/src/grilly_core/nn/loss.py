"""Losses as modules. Besides the tape they offer ``loss.backward(grad_output, *inputs)``, which runs them again."""

from __future__ import annotations

from typing import Any, ClassVar

from grilly_core import autograd
from grilly_core.apply import as_tensor
from grilly_core.config import enable_grad
from grilly_core.functional import losses as f
from grilly_core.nn.module import Module
from grilly_core.tensor import Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "MSELoss", "NLLLoss", "NLLLoss2d", "SmoothL1Loss", "TripletMarginLoss",
]  # fmt: skip


class _Loss(Module):
    """What the losses share; `vectors` is how many leading inputs `backward` returns gradients of."""

    vectors: ClassVar[int] = 1

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none", "batchmean"):
            raise ValueError(f"reduction: expected 'none', 'mean' or 'sum'; received {reduction!r}.")
        self.reduction = reduction

    def backward(self, grad_output: Any = None, *inputs: Any) -> Any:
        """Run the loss again and return the gradient of its input.

        Parameters
        ----------
        grad_output : array_like, optional
            Gradient of the loss: one number, or the shape of the loss.
        *inputs : array_like
            What the loss was called with. Without them the last call is gone back through.

        Returns
        -------
        Tensor or tuple of Tensor
            One gradient for each input that is compared.
        """
        if not inputs:
            return super().backward(grad_output)
        with enable_grad():
            watched = [as_tensor(a).detach().requires_grad_() for a in inputs[: self.vectors]]
            loss = self.forward(*watched, *inputs[self.vectors :])
        g = None if grad_output is None else as_tensor(grad_output, loss)
        if g is not None and g.shape != loss.shape and g.numel() == 1:
            g = g.reshape(()).expand(loss.shape)
        grads = autograd.grad(loss, watched, g)
        return grads[0] if len(grads) == 1 else grads

    def extra_repr(self) -> str:
        """Only what differs from the default."""
        return "" if self.reduction == "mean" else f"reduction={self.reduction!r}"


class MSELoss(_Loss):
    """Squared difference.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.MSELoss()(grilly.tensor([1.0, 3.0]), grilly.tensor([1.0, 1.0])).item()
    2.0
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare two tensors of one shape."""
        return f.mse_loss(input, target, self.reduction)


class L1Loss(_Loss):
    """Absolute difference.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.L1Loss()(grilly.tensor([1.0, 3.0]), grilly.tensor([1.0, 1.0])).item()
    1.0
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare two tensors of one shape."""
        return f.l1_loss(input, target, self.reduction)


class SmoothL1Loss(_Loss):
    """Squared below `beta`, absolute above.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
    beta : float

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.SmoothL1Loss()(grilly.tensor([3.0]), grilly.tensor([0.0])).item()
    2.5
    """

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare two tensors of one shape."""
        return f.smooth_l1_loss(input, target, self.reduction, self.beta)


class HuberLoss(_Loss):
    """Squared below `delta`, absolute (times `delta`) above.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
    delta : float

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.HuberLoss(delta=2.0)(grilly.tensor([3.0]), grilly.tensor([0.0])).item()
    4.0
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare two tensors of one shape."""
        return f.huber_loss(input, target, self.reduction, self.delta)


class _Weighted(_Loss):
    """A loss with a weight per class or element, kept as a buffer."""

    weight: Tensor | None

    def __init__(self, weight: Any, reduction: str) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)


class CrossEntropyLoss(_Weighted):
    """Cross-entropy of logits against class indices or class probabilities.

    Parameters
    ----------
    weight : array_like, (C,), optional
        Weight of each class.
    ignore_index : int
        Targets of this value count for nothing.
    reduction : {"mean", "sum", "none"}
    label_smoothing : float
        Share of the target that is spread evenly over the classes.
    class_dim : int
        Axis of the classes; -1 for logits like ``(B, S, V)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> loss = grilly.nn.CrossEntropyLoss()(grilly.tensor([[2.0, 0.0]]), grilly.tensor([0]))
    >>> round(loss.item(), 4)
    0.1269
    """

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        *,
        class_dim: int = 1,
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.class_dim = class_dim

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare logits with targets."""
        return f.cross_entropy(
            input,
            target,
            self.weight,
            self.ignore_index,
            self.reduction,
            self.label_smoothing,
            class_dim=self.class_dim,
        )


class NLLLoss(_Weighted):
    """Minus the log-probability of each target class.

    Parameters
    ----------
    weight : array_like, (C,), optional
    ignore_index : int
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.NLLLoss()(grilly.tensor([[-1.0, -2.0]]), grilly.tensor([1])).item()
    2.0
    """

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare log-probabilities with class indices."""
        return f.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class NLLLoss2d(NLLLoss):
    """`NLLLoss` under the name that old code has for it.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.NLLLoss2d()(grilly.full((1, 2, 1, 1), -2.0), grilly.zeros((1, 1, 1), dtype=grilly.int32)).item()
    2.0
    """


class BCELoss(_Weighted):
    """Cross-entropy of probabilities.

    Parameters
    ----------
    weight : array_like, optional
        Factor of each element.
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> round(grilly.nn.BCELoss()(grilly.tensor([0.5]), grilly.tensor([1.0])).item(), 4)
    0.6931
    """

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(weight, reduction)

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare probabilities with targets from 0 to 1."""
        return f.binary_cross_entropy(input, target, self.weight, self.reduction)


class BCEWithLogitsLoss(_Weighted):
    """Cross-entropy of ``sigmoid(input)``.

    Parameters
    ----------
    weight : array_like, optional
        Factor of each element.
    reduction : {"mean", "sum", "none"}
    pos_weight : array_like, optional
        Factor of the positive part.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> round(grilly.nn.BCEWithLogitsLoss()(grilly.tensor([0.0]), grilly.tensor([1.0])).item(), 4)
    0.6931
    """

    pos_weight: Tensor | None

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None) -> None:
        super().__init__(weight, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare logits with targets from 0 to 1."""
        return f.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of the target from log-probabilities.

    Parameters
    ----------
    reduction : {"mean", "batchmean", "sum", "none"}
        ``"batchmean"`` is the divergence proper.
    log_target : bool
        Whether targets are log-probabilities too.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.tensor([[0.5, 0.5]])
    >>> grilly.nn.KLDivLoss(reduction="batchmean")(p.log(), p).item()
    0.0
    """

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare log-probabilities with (log-)probabilities."""
        return f.kl_div(input, target, self.reduction, self.log_target)


class CosineEmbeddingLoss(_Loss):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Parameters
    ----------
    margin : float
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a = grilly.tensor([[1.0, 0.0]])
    >>> grilly.nn.CosineEmbeddingLoss()(a, a, grilly.tensor([1.0])).item()
    0.0
    """

    vectors = 2

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: Any, input2: Any, target: Any) -> Tensor:
        """Compare pairs of vectors."""
        return f.cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


class TripletMarginLoss(_Loss):
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))``.

    Parameters
    ----------
    margin : float
    p : float
        Which norm measures the distance.
    eps : float
    swap : bool
        Use the distance between positive and negative where it is smaller.
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a, n = grilly.zeros((1, 2)), grilly.tensor([[3.0, 4.0]])
    >>> grilly.nn.TripletMarginLoss()(a, a, n).item()
    0.0
    """

    vectors = 3

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: margin must be positive; received {margin}.")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Tensor:
        """Compare triples of vectors."""
        return f.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, self.reduction
        )
