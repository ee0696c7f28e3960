"""Linear maps, convolutions, normalisations, embedding and dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from grilly_core.errors import DTypeError, ShapeError
from grilly_core.functional._arguments import Size, TensorLike, batched, per_axis, tensor
from grilly_core.functional.padding import pad
from grilly_core.ops import nn as ops
from grilly_core.ops.primitives import gather, scatter
from grilly_core.random import Generator, default_generator
from grilly_core.tensor import Tensor

__all__ = [
    "batch_norm", "conv1d", "conv2d", "conv3d", "dropout", "embedding", "group_norm", "layer_norm", "linear",
    "linear_act", "matmul_int8", "normalize", "one_hot", "pad", "rms_norm",
]  # fmt: skip


def linear(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """Return ``input @ weight.T + bias``.

    Parameters
    ----------
    input : array_like, (..., I)
    weight : array_like, (O, I)
    bias : array_like, (O,), optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.linear(grilly.ones((1, 2)), grilly.tensor([[1.0, 2.0]])).tolist()
    [[3.0]]
    """
    return ops.linear(cast(Tensor, input), cast(Tensor, weight), cast("Tensor | None", bias))


def linear_act(
    input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, residual: TensorLike | None = None, *,
    activation: str,
) -> Tensor:  # fmt: skip
    """Return ``activation(input @ weight.T + bias) + residual``, where the device can in one pass.

    Parameters
    ----------
    input : array_like, (..., I)
    weight : array_like, (O, I)
    bias : array_like, (O,), optional
    residual : array_like, (..., O), optional
    activation : {"none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"}

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x, weight = grilly.ones((1, 2)), grilly.tensor([[1.0, 2.0], [-3.0, -4.0]])
    >>> grilly.functional.linear_act(x, weight, residual=grilly.ones((1, 2)), activation="relu").tolist()
    [[4.0, 1.0]]
    """
    given = (cast(Tensor, input), cast(Tensor, weight))
    extra = (cast("Tensor | None", bias), cast("Tensor | None", residual))
    return ops.linear_act(*given, *extra, activation=activation)


def matmul_int8(input: TensorLike, other: TensorLike) -> Tensor:
    """Return the exact product of two int8 matrices, or batches of them, as int32.

    Parameters
    ----------
    input : array_like of int8, (..., M, K)
    other : array_like of int8, (..., K, N)

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.full((2, 2), 100, dtype=grilly.int8)
    >>> grilly.functional.matmul_int8(x, x).tolist()
    [[20000, 20000], [20000, 20000]]
    """
    return ops.matmul_int8(cast(Tensor, input), cast(Tensor, other))


def same_padding(
    kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Return the (low, high) pads that keep the size; the odd element goes to the high side."""
    if any(s != 1 for s in stride):
        raise ValueError(
            f"padding='same' needs stride 1; received {tuple(stride)}. Give the padding in numbers."
        )
    totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    return tuple((t // 2, t - t // 2) for t in totals)


def _pads(
    padding: Size | str, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    if isinstance(padding, str):
        if padding == "same":
            return same_padding(kernel, stride, dilation)
        if padding != "valid":
            raise ValueError(f"padding: expected 'same', 'valid' or numbers; received {padding!r}.")
        return ((0, 0),) * len(kernel)
    return tuple((p, p) for p in per_axis(padding, len(kernel), "padding", 0))


def _conv(
    axes: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Size,
    padding: Size | str,
    dilation: Size,
    groups: int,
) -> Tensor:
    x, added = batched(tensor(input), axes, f"conv{axes}d")
    w = tensor(weight, like=x)
    steps, holes = per_axis(stride, axes, "stride"), per_axis(dilation, axes, "dilation")
    pads = _pads(padding, w.shape[2:], steps, holes)
    y = ops.conv(x, w, bias, stride=steps, padding=pads, dilation=holes, groups=groups)
    return y.squeeze(0) if added else y


def conv1d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlate along one axis.

    Parameters
    ----------
    input : array_like, (N, C, L) or (C, L)
    weight : array_like, (O, C / groups, K)
    bias : array_like, (O,), optional
    stride, dilation : int or sequence of int
    padding : int, sequence of int, "valid" or "same"
    groups : int

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x, w = grilly.tensor([[[1.0, 2.0, 4.0]]]), grilly.tensor([[[-1.0, 1.0]]])
    >>> grilly.functional.conv1d(x, w).tolist()
    [[[1.0, 2.0]]]
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlate along two axes: ``(N, C, H, W)`` with ``(O, C / groups, KH, KW)``; see `conv1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.conv2d(grilly.ones((1, 1, 3, 3)), grilly.ones((1, 1, 3, 3))).item()
    9.0
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlate along three axes; see `conv1d`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.conv3d(grilly.ones((1, 1, 2, 2, 2)), grilly.ones((1, 1, 2, 2, 2))).item()
    8.0
    """
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


def layer_norm(
    input: TensorLike,
    normalized_shape: int | Sequence[int],
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise the last axes to mean 0 and variance 1, then scale and shift.

    Parameters
    ----------
    input : array_like, (..., *normalized_shape)
    normalized_shape : int or sequence of int
    weight, bias : array_like, normalized_shape, optional
    eps : float
        Added to the variance.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.layer_norm(grilly.tensor([-1.0, 1.0]), 2, eps=0.0).tolist()
    [-1.0, 1.0]
    """
    return cast(
        Tensor,
        ops.layer_norm(tensor(input), weight, bias, normalized_shape=_shape(normalized_shape), eps=eps),  # type: ignore[arg-type]
    )


def rms_norm(
    input: TensorLike,
    normalized_shape: int | Sequence[int],
    weight: TensorLike | None = None,
    eps: float | None = None,
) -> Tensor:
    """Divide by the root mean square over the last axes, then scale.

    Without `eps` the machine epsilon of the input's dtype is used.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.rms_norm(grilly.tensor([3.0, 3.0]), 2, eps=0.0).tolist()
    [1.0, 1.0]
    """
    return cast(
        Tensor,
        ops.rms_norm(tensor(input), weight, normalized_shape=_shape(normalized_shape), eps=eps),  # type: ignore[arg-type]
    )


def batch_norm(
    input: TensorLike,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel (axis 1), by batch statistics in training and by the running ones else.

    In training the running statistics, where given, are written to: they move by `momentum` towards the batch's
    mean and its *unbiased* variance, while the output is normalised by the biased one.

    Parameters
    ----------
    input : array_like, (N, C, ...)
    running_mean, running_var : Tensor, (C,), optional
    weight, bias : array_like, (C,), optional
    training : bool
    momentum : float
    eps : float

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([[1.0], [3.0]])
    >>> grilly.functional.batch_norm(x, None, None, training=True, eps=0.0).tolist()
    [[-1.0], [1.0]]
    """
    x = tensor(input)
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm: running_mean and running_var are needed unless training=True.")
        return ops.batch_norm_eval(x, weight, bias, running_mean, running_var, eps=eps)  # type: ignore[arg-type]
    n = x.shape[0] * math.prod(x.shape[2:]) if x.ndim > 1 else 0
    if n == 1:
        raise ShapeError(
            f"batch_norm: training needs more than one value per channel; received shape {tuple(x.shape)}. "
            "Use a larger batch, or eval()."
        )
    y, mean, var = cast("tuple[Tensor, ...]", ops.batch_norm_train(x, weight, bias, eps=eps))  # type: ignore[arg-type]
    if running_mean is not None:
        running_mean.copy_(running_mean + (mean - running_mean) * momentum)
    if running_var is not None:
        running_var.copy_(running_var + (var * (n / (n - 1)) - running_var) * momentum)
    return y


def group_norm(
    input: TensorLike,
    num_groups: int,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise groups of channels (axis 1) of each sample, then scale and shift each channel.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.group_norm(grilly.tensor([[-1.0, 1.0]]), 1, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    x = tensor(input)
    if x.ndim < 2 or x.shape[1] % num_groups:
        raise ShapeError(
            f"group_norm: num_groups={num_groups} must divide axis 1 of the input; received shape {tuple(x.shape)}."
        )
    width = math.prod(x.shape[1:]) // num_groups
    rows = x.reshape((x.shape[0], num_groups, width))
    y = cast(Tensor, ops.layer_norm(rows, normalized_shape=(width,), eps=eps)).reshape(x.shape)
    per_channel = (x.shape[1], *(1,) * (x.ndim - 2))
    if weight is not None:
        y = y * tensor(weight, like=y).reshape(per_channel)
    return y if bias is None else y + tensor(bias, like=y).reshape(per_channel)


def embedding(
    input: TensorLike,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of `weight` that `input` names.

    Parameters
    ----------
    input : array_like of int
        Ids from 0 to N - 1; others raise IndexError.
    weight : Tensor, (N, D)
    padding_idx : int, optional
        This row gets no gradient; negative numbers count from the end.
    max_norm : float, optional
        Rows that are looked up and longer than this are first shortened in `weight` itself.
    norm_type : float
        Which p-norm `max_norm` measures.
    scale_grad_by_freq : bool
        Divide each row's gradient by how often it was looked up.
    sparse : bool
        Only False: there are no sparse gradients.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.embedding([1], grilly.tensor([[1.0], [2.0]])).tolist()
    [[2.0]]
    """
    if sparse:
        raise ValueError("embedding: there are no sparse gradients; leave sparse at False.")
    ids = tensor(input, like=None)
    if isinstance(weight, Tensor) and not isinstance(input, Tensor):
        ids = ids.to(weight.device)
    if padding_idx is not None:
        n = weight.shape[0]
        if not -n <= padding_idx < n:
            raise IndexError(f"padding_idx: {padding_idx} is out of range for {n} embeddings.")
        padding_idx %= n
    if max_norm is not None:
        _shorten(weight, ids, max_norm, norm_type)
    rows = ops.embedding(ids, weight, padding_idx=padding_idx)
    return _per_use(rows, ids, weight.shape[0]) if scale_grad_by_freq else rows


def _per_use(rows: Tensor, ids: Tensor, count: int) -> Tensor:
    """Return the same values, with gradients divided by how often each row was looked up."""
    flat = ids.reshape((math.prod(ids.shape),))
    values = rows.detach()
    zero = values.sum() * 0.0
    uses = scatter(zero.expand((count,)), flat, (zero + 1.0).expand((flat.shape[0],)), axis=0, mode="add")
    share = (1.0 / gather(uses, flat, axis=0)).reshape((*ids.shape, 1))
    return values + (rows - values) * share


def _shorten(weight: Tensor, ids: Tensor, max_norm: float, norm_type: float) -> None:
    from grilly_core.config import no_grad

    with no_grad():
        flat = ids.reshape((math.prod(ids.shape),))
        rows = ops.embedding(flat, weight)
        length = (rows.abs() ** norm_type).sum(dim=1, keepdim=True) ** (1.0 / norm_type)
        scale = (max_norm / (length + 1e-7)).clamp(max=1.0)
        weight.copy_(scatter(weight, flat, rows * scale, axis=0, mode="set"))


def dropout(
    input: TensorLike,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    rng: Generator | None = None,
) -> Tensor:
    """Zero each element with probability `p` and scale the others by ``1 / (1 - p)``.

    Parameters
    ----------
    input : array_like
    p : float
        From 0 to 1.
    training : bool
        False returns the input.
    inplace : bool
        Also write the result to `input`.
    rng : Generator, optional
        Where the mask comes from; the default generator of the device if not given.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.dropout(grilly.ones(3), p=1.0).tolist()
    [0.0, 0.0, 0.0]
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p must lie in [0, 1]; received {p}.")
    x = tensor(input)
    if not training or p == 0:
        return x
    if not x.dtype.is_floating:
        raise DTypeError(f"dropout: expected a floating input; received {x.dtype.name}.")
    state, relative = (rng or default_generator()).take(math.prod(x.shape), x._value.spec.context)
    y = ops.dropout(x, state, p=float(p), relative=relative)
    return x.copy_(y) if inplace else y


def normalize(input: TensorLike, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divide by the p-norm along one axis, or by `eps` where the norm is smaller.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.normalize(grilly.tensor([3.0, 4.0]), dim=0).tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    x = tensor(input)
    length = x.norm(p, dim=dim, keepdim=True)
    return x / length.clamp(min=eps)


def one_hot(tensor: TensorLike, num_classes: int = -1) -> Tensor:
    """Return integer vectors with a 1 at each index; by default as long as the largest index needs.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.one_hot(grilly.tensor([0, 2])).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    from grilly_core.functional._arguments import tensor as as_given
    from grilly_core.ops.creation import arange

    ids = as_given(tensor)
    if not ids.dtype.is_integer:
        raise DTypeError(f"one_hot: expected integers; received {ids.dtype.name}.")
    host = ids.numpy()
    largest = int(host.max()) if host.size else -1
    classes = largest + 1 if num_classes < 0 else num_classes
    if host.size and (host.min() < 0 or largest >= classes):
        raise IndexError(f"one_hot: indices must lie in [0, {classes}); received {host.min()} to {largest}.")
    return (ids.unsqueeze(-1) == arange(classes, dtype=ids.dtype, device=ids.device)).to("int32")
