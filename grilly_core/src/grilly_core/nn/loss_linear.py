"""Losses that have the output layer inside: one dense layer, or the adaptive softmax of a large vocabulary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.functional import losses_linear as f
from grilly_core.nn.containers import ModuleList, Sequential
from grilly_core.nn.linear import DeviceLike, Linear
from grilly_core.nn.loss import _Weighted
from grilly_core.nn.module import Module
from grilly_core.ops.nn import log_softmax
from grilly_core.ops.primitives import where
from grilly_core.ops.structure import concat
from grilly_core.tensor import Tensor

__all__ = ["AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss"]


class LinearCrossEntropyLoss(_Weighted):
    """A dense layer to class logits, and the cross-entropy of these.

    Parameters
    ----------
    in_features, num_classes : int
    out_features : tuple of int
        With them there is a prediction at each of ``(d1, ...)``.
    bias : bool
    device : Device or str, optional
    dtype : DType, optional
    reduction : {"mean", "sum", "none"}
    weight : array_like, (num_classes,), optional
        Weight of each class.
    ignore_index : int, optional
        Targets of this value count for nothing; None is -100.
    label_smoothing : float

    Examples
    --------
    >>> import grilly_core as grilly
    >>> loss = grilly.nn.LinearCrossEntropyLoss(5, 10)
    >>> loss(grilly.ones((2, 5)), grilly.tensor([3, 7])).shape
    ()
    """

    linear: Linear

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: Sequence[int] = (),
        bias: bool = False,
        device: DeviceLike = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction)
        if self.weight is not None and tuple(self.weight.shape) != (num_classes,):
            raise ShapeError(f"weight: expected shape ({num_classes},); received {tuple(self.weight.shape)}.")
        if not 0.0 <= label_smoothing <= 1.0:
            raise ValueError(f"label_smoothing: expected a number from 0 to 1; received {label_smoothing}.")
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.linear = Linear(in_features, num_classes * math.prod(self.out_features), bias, device, dtype)

    def forward(self, input: Any, target: Any) -> Tensor:
        """Compare inputs ``(N, in_features)`` with classes or class probabilities."""
        outputs, bias = (self.num_classes, *self.out_features), self.linear.bias
        return f.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*outputs, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(outputs),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
        )

    def extra_repr(self) -> str:
        """Sizes and settings."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
            f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options=None"
        )


class _Output(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Softmax of many classes in clusters, of which rare ones have narrow layers (Grave et al. 2017).

    Classes are numbered from the most frequent to the rarest. Only the rows whose target lies in a cluster go through
    the cluster's layers; how many they are is read on the host, so the layer cannot be captured.

    Parameters
    ----------
    in_features, n_classes : int
    cutoffs : sequence of int
        Where the clusters begin, in increasing order, each from 1 to ``n_classes - 1``.
    div_value : float
        Each cluster is this many times narrower than the one before.
    head_bias : bool
        Whether the layer of the frequent classes and of the clusters has a bias.
    device : Device or str, optional
    dtype : DType, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[4, 10], div_value=2.0)
    >>> out = layer(grilly.ones((3, 8)), grilly.tensor([0, 5, 19]))
    >>> out.output.shape, out.loss.shape
    ((3,), ())
    """

    head: Linear
    tail: ModuleList

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: DeviceLike = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        starts = [int(c) for c in cutoffs]
        rising = all(a < b for a, b in pairwise([0, *starts, n_classes]))
        if not starts or starts != list(cutoffs) or not rising:
            raise ValueError(
                f"cutoffs: expected integers in increasing order, each from 1 to {n_classes - 1}; received {cutoffs}."
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*starts, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = starts[0]
        self.n_clusters = len(starts)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            width = int(in_features // div_value ** (i + 1))
            narrow = Linear(in_features, width, False, device, dtype)
            self.tail.append(Sequential(narrow, Linear(width, high - low, False, device, dtype)))

    def reset_parameters(self) -> None:
        """Draw the first values again."""
        for module in self.modules():
            if isinstance(module, Linear):
                module.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> _Output:
        """Return the log-probability of each target and the mean of minus these.

        Parameters
        ----------
        input_ : Tensor, (N, in_features) or (in_features,)
        target_ : Tensor of int, (N,) or ()

        Returns
        -------
        output : Tensor, (N,) or ()
        loss : Tensor, ()
        """
        x = as_tensor(input_)
        target = as_tensor(target_, x)
        if target.ndim > 1 or x.ndim != target.ndim + 1 or x.shape[:-1] != target.shape:
            raise ShapeError(
                f"AdaptiveLogSoftmaxWithLoss: expected an input (N, {self.in_features}) with targets (N,), or a "
                f"vector with one; received shapes {tuple(x.shape)} and {tuple(target.shape)}."
            )
        rows, y = (x, target) if target.ndim else (x.unsqueeze(0), target.unsqueeze(0))
        in_tail, column = self._in_clusters(rows, y)
        head = log_softmax(self.head(rows), axis=1)
        output = head.gather(1, column.unsqueeze(1)).squeeze(1) + in_tail
        return _Output(output if target.ndim else output.squeeze(0), -output.mean())

    def _in_clusters(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each target in its cluster, and its column of the head."""
        output, column, used = x.new_zeros(y.shape), y, 0
        for i, (low, high) in enumerate(pairwise([0, *self.cutoffs])):
            inside = (y >= low) & (y < high)
            at = inside.nonzero().squeeze(1)
            used += at.shape[0]
            if i == 0 or at.shape[0] == 0:
                continue
            logp = log_softmax(self.tail[i - 1](x.index_select(0, at)), axis=1)
            relative = y.index_select(0, at) - low
            output = output.index_copy(0, at, logp.gather(1, relative.unsqueeze(1)).squeeze(1))
            column = where(inside, self.shortlist_size + i - 1, column)
        if used != y.shape[0]:
            raise IndexError(
                f"AdaptiveLogSoftmaxWithLoss: targets must be from 0 to {self.n_classes - 1}; received numbers "
                f"from {y.min().item()} to {y.max().item()}."
            )
        return output, column

    def log_prob(self, input: Any) -> Tensor:
        """Return the log-probabilities ``(N, n_classes)`` of all classes.

        Examples
        --------
        >>> import grilly_core as grilly
        >>> layer = grilly.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[4, 10], div_value=2.0)
        >>> round(layer.log_prob(grilly.ones((1, 8))).exp().sum().item(), 4)
        1.0
        """
        x = as_tensor(input)
        head = log_softmax(self.head(x), axis=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            at = self.shortlist_size + i
            parts.append(log_softmax(cluster(x), axis=1) + head[:, at : at + 1])
        whole: Tensor = concat(parts, axis=1)
        return whole

    def predict(self, input: Any) -> Tensor:
        """Return the most probable class of each row ``(N,)``.

        Examples
        --------
        >>> import grilly_core as grilly
        >>> layer = grilly.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[4, 10], div_value=2.0)
        >>> layer.predict(grilly.ones((3, 8))).shape
        (3,)
        """
        return self.log_prob(input).argmax(dim=1)
