"""Linear maps: dense, and convolution over any number of axes.

The three convolution ops are each other's gradients, so they are closed under differentiation: the map is
linear in the input and in the weight, and `conv_input_grad`, `conv_weight_grad` are its two adjoints.
"""

from __future__ import annotations

import math
from typing import Any

from grilly_core.errors import ShapeError
from grilly_core.ops._typing import Attrs, Needs, Samples, Tensors
from grilly_core.ops._windows import Pads, Shape, padded, spread, windows
from grilly_core.ops.primitives import matmul, sum
from grilly_core.ops.views import broadcast_to, flip, permute_dims, reshape
from grilly_core.opspec import op
from grilly_core.tensor import Tensor

__all__ = ["conv", "conv_input_grad", "conv_output_size", "conv_weight_grad", "linear"]


@op("nn.linear", autocast="lower", saves="ins")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x @ weight.T + bias`` over the last axis; weight is ``(out, in)``.

    Examples
    --------
    >>> import grilly
    >>> x, w = grilly.ones((1, 2)), grilly.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> grilly.functional.linear(x, w).tolist()
    [[3.0, 7.0]]
    """
    if weight.ndim != 2 or x.ndim < 1 or x.shape[-1] != weight.shape[1]:
        raise ShapeError(
            f"linear: the last axis of the input must equal the second of weight (out, in); received shapes "
            f"{tuple(x.shape)} and {tuple(weight.shape)}."
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise ShapeError(f"linear: bias must have shape ({weight.shape[0]},); received {tuple(bias.shape)}.")
    rows = reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))
    y = matmul(rows, permute_dims(weight, axes=(1, 0)))
    if bias is not None:
        y = y + bias
    return reshape(y, shape=(*x.shape[:-1], weight.shape[0]))


@linear.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    g, (x, weight, _bias) = grads[0], ins
    rows = _as_rows(g)
    gx = gweight = None
    if needs[0]:
        gx = matmul(rows, weight)
        gx = gx if x.ndim == 2 else reshape(gx, shape=x.shape)
    if needs[1]:
        gweight = matmul(permute_dims(rows, axes=(1, 0)), _as_rows(x))
    return gx, gweight, sum(rows, axis=0) if needs[2] else None


def _as_rows(x: Tensor) -> Tensor:
    """Join all axes but the last."""
    return x if x.ndim == 2 else reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))


@linear.samples
def _(s: Samples) -> None:
    s.case(s.f32(4, 3), s.f32(5, 3), s.f32(5))
    s.case(s.f32(2, 4, 3), s.f32(5, 3), None)
    s.case(s.f32(3), s.f32(5, 3), s.f32(5))
    s.case(s.f32(0, 3), s.f32(5, 3), s.f32(5))
    s.error(ShapeError, "linear", s.f32(4, 2), s.f32(5, 3))
    s.error(ShapeError, "bias", s.f32(4, 3), s.f32(5, 3), s.f32(4))


def conv_output_size(size: int, kernel: int, stride: int, pads: tuple[int, int], dilation: int) -> int:
    """Length of one axis after a convolution (may come out below 1, which is an error to report)."""
    return (size + pads[0] + pads[1] - dilation * (kernel - 1) - 1) // stride + 1


def _check_conv(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Shape, groups: int) -> None:
    d = len(stride)
    if x.ndim != d + 2 or weight.ndim != d + 2:
        raise ShapeError(
            f"conv: with {d} spatial axes the input is (N, C, ...) and the weight (O, C/groups, ...), "
            f"{d + 2} axes each; received shapes {tuple(x.shape)} and {tuple(weight.shape)}."
        )
    channels, out = x.shape[1], weight.shape[0]
    if groups < 1 or channels % groups or out % groups or weight.shape[1] * groups != channels:
        raise ShapeError(
            f"conv: groups={groups} must divide the channels of the input ({channels}) and of the output "
            f"({out}), and weight's second axis must be {channels}/{groups}; received weight of shape "
            f"{tuple(weight.shape)}."
        )
    if bias is not None and tuple(bias.shape) != (out,):
        raise ShapeError(f"conv: bias must have shape ({out},); received {tuple(bias.shape)}.")


def _conv_sizes(x: Tensor, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape) -> Shape:
    sizes = tuple(
        conv_output_size(n, k, s, p, d)
        for n, k, s, p, d in zip(x.shape[2:], kernel, stride, padding, dilation, strict=True)
    )
    if any(n < 1 for n in sizes):
        raise ShapeError(
            f"conv: the kernel {kernel} with dilation {dilation} does not fit the padded input; the input "
            f"has spatial shape {tuple(x.shape[2:])}, padding {padding}."
        )
    return sizes


def _columns(
    x: Tensor, kernel: Shape, sizes: Shape, stride: Shape, padding: Pads, dilation: Shape, groups: int
) -> Tensor:
    """Unfold x to ``(N, groups, C/groups * prod(kernel), prod(sizes))``."""
    d = len(kernel)
    w = windows(padded(x, padding), kernel, sizes, stride, dilation)
    w = permute_dims(w, axes=(0, 1, *range(2 + d, 2 + 2 * d), *range(2, 2 + d)))
    rows = x.shape[1] // groups * math.prod(kernel)
    return reshape(w, shape=(x.shape[0], groups, rows, math.prod(sizes)))


@op("nn.conv", autocast="lower", saves="ins")
def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Shape,
    padding: Pads,
    dilation: Shape,
    groups: int = 1,
) -> Tensor:
    """Cross-correlate ``(N, C, *S)`` with ``(O, C/groups, *K)``; `padding` holds a (low, high) pair per axis."""
    _check_conv(x, weight, bias, stride, groups)
    kernel = tuple(weight.shape[2:])
    sizes = _conv_sizes(x, kernel, stride, padding, dilation)
    columns = _columns(x, kernel, sizes, stride, padding, dilation, groups)
    out = weight.shape[0]
    filters = reshape(weight, shape=(1, groups, out // groups, columns.shape[2]))
    filters = broadcast_to(filters, shape=(x.shape[0], *filters.shape[1:]))
    y = reshape(matmul(filters, columns), shape=(x.shape[0], out, *sizes))
    return y if bias is None else y + reshape(bias, shape=(out, *(1,) * len(sizes)))


def _geometry(attrs: Attrs) -> dict[str, Any]:
    return {name: attrs[name] for name in ("stride", "padding", "dilation", "groups")}


@conv.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    g, (x, weight, _bias) = grads[0], ins
    how = _geometry(attrs)
    return (
        conv_input_grad(g, weight, input_shape=tuple(x.shape), **how) if needs[0] else None,
        conv_weight_grad(g, x, weight_shape=tuple(weight.shape), **how) if needs[1] else None,
        sum(g, axis=(0, *range(2, g.ndim))) if needs[2] else None,
    )


@op("nn.conv_input_grad", internal=True, autocast="lower", saves="ins")
def conv_input_grad(
    g: Tensor,
    weight: Tensor,
    *,
    input_shape: Shape,
    stride: Shape,
    padding: Pads,
    dilation: Shape,
    groups: int = 1,
) -> Tensor:
    """Adjoint of `conv` in its input: a convolution of the spread gradient with the turned weight."""
    kernel = tuple(weight.shape[2:])
    g = spread(g, stride)
    pads = []
    for n, m, k, d, (low, _) in zip(input_shape[2:], g.shape[2:], kernel, dilation, padding, strict=True):
        before = d * (k - 1) - low
        pads.append((before, n + d * (k - 1) - m - before))
    ones, zeros = (1,) * len(kernel), ((0, 0),) * len(kernel)
    return conv(
        padded(g, tuple(pads)), _turned(weight, groups), stride=ones, padding=zeros, dilation=dilation,
        groups=groups,
    )  # fmt: skip


def _turned(weight: Tensor, groups: int) -> Tensor:
    """Exchange a weight's input and output channels within each group and mirror its kernel."""
    (out, per_group), kernel = weight.shape[:2], weight.shape[2:]
    w = flip(weight, axis=tuple(range(2, weight.ndim)))
    w = reshape(w, shape=(groups, out // groups, per_group, *kernel))
    w = permute_dims(w, axes=(0, 2, 1, *range(3, w.ndim)))
    result: Tensor = reshape(w, shape=(groups * per_group, out // groups, *kernel))
    return result


@conv_input_grad.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    gg, (g, weight) = grads[0], ins
    how = _geometry(attrs)
    return (
        conv(gg, weight, **how) if needs[0] else None,
        conv_weight_grad(g, gg, weight_shape=tuple(weight.shape), **how) if needs[1] else None,
    )


@op("nn.conv_weight_grad", internal=True, autocast="lower", saves="ins")
def conv_weight_grad(
    g: Tensor,
    x: Tensor,
    *,
    weight_shape: Shape,
    stride: Shape,
    padding: Pads,
    dilation: Shape,
    groups: int = 1,
) -> Tensor:
    """Adjoint of `conv` in its weight: the gradient against the unfolded input."""
    kernel, sizes = tuple(weight_shape[2:]), tuple(g.shape[2:])
    columns = _columns(x, kernel, sizes, stride, padding, dilation, groups)
    batch, _, rows, places = columns.shape
    out = weight_shape[0] // groups
    # The batch joins the places, so that each group is one product.
    left = permute_dims(reshape(g, shape=(batch, groups, out, places)), axes=(1, 2, 0, 3))
    left = reshape(left, shape=(groups, out, batch * places))
    right = reshape(permute_dims(columns, axes=(1, 0, 3, 2)), shape=(groups, batch * places, rows))
    return reshape(matmul(left, right), shape=weight_shape)


@conv_weight_grad.vjp
def _(grads: Tensors, outs: Tensors, ins: Tensors, attrs: Attrs, needs: Needs) -> Tensors:
    gg, (g, x) = grads[0], ins
    how = _geometry(attrs)
    return (
        conv(x, gg, **how) if needs[0] else None,
        conv_input_grad(g, gg, input_shape=tuple(x.shape), **how) if needs[1] else None,
    )


_ONE = {"stride": (1,), "padding": ((0, 0),), "dilation": (1,)}
_TWO = {"stride": (2, 1), "padding": ((1, 0), (2, 1)), "dilation": (1, 2)}
_WIDE = {"stride": (3, 2), "padding": ((0, 0), (1, 1)), "dilation": (1, 1)}


@conv.samples
def _(s: Samples) -> None:
    s.case(s.f32(2, 3, 7), s.f32(4, 3, 3), s.f32(4), **_ONE)
    s.case(s.f32(2, 4, 6, 7), s.f32(6, 2, 3, 2), None, **_TWO, groups=2)
    s.case(s.f32(1, 2, 8, 8), s.f32(2, 1, 2, 3), s.f32(2), **_WIDE, groups=2)
    s.error(ShapeError, "groups", s.f32(2, 3, 7), s.f32(4, 3, 3), groups=2, **_ONE)
    s.error(ShapeError, "does not fit", s.f32(2, 3, 2), s.f32(4, 3, 3), **_ONE)


@conv_input_grad.samples
def _(s: Samples) -> None:
    s.case(s.f32(2, 4, 5), s.f32(4, 3, 3), input_shape=(2, 3, 7), **_ONE)
    s.case(s.f32(2, 6, 3, 8), s.f32(6, 2, 3, 2), input_shape=(2, 4, 6, 7), **_TWO, groups=2)


@conv_weight_grad.samples
def _(s: Samples) -> None:
    s.case(s.f32(2, 4, 5), s.f32(2, 3, 7), weight_shape=(4, 3, 3), **_ONE)
    s.case(s.f32(2, 6, 3, 8), s.f32(2, 4, 6, 7), weight_shape=(6, 2, 3, 2), **_TWO, groups=2)
