"""How layers, their options and inputs are drawn: name to ``draw(draw, rng) -> (make, inputs, form)``.

`make` builds the layer from a library's ``nn``, `form` makes the arguments of the inputs if they are not the inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

LAYERS: dict[str, Callable[..., Any]] = {}


def layer(*names: str) -> Callable[..., Any]:
    """Register a way to draw, under several names that it gets as its third argument."""

    def registered(draw: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            LAYERS[name] = lambda d, rng, name=name: draw(d, rng, name)
        return draw

    return registered


def axes_of(name: str) -> int:
    return int(name[-2])


def several(draw, axes, low, high):
    """One number for all axes, or one for each."""
    if draw(st.booleans()):
        return draw(st.integers(low, high))
    return tuple(draw(st.integers(low, high)) for _ in range(axes))


def each(value, axes):
    return (value,) * axes if isinstance(value, int) else value


def image(draw, rng, axes, least, channels=None, extra=5):
    """An input (N, C, ...) or (C, ...) whose axes are at least `least` long, without ties."""
    channels = draw(st.integers(1, 3)) if channels is None else channels
    sizes = [n + draw(st.integers(0, extra)) for n in each(least, axes)]
    batch = [] if draw(st.booleans()) else [draw(st.integers(1, 3))]
    shape = (*batch, channels, *sizes)
    count = int(np.prod(shape))
    return (rng.permutation(count) / count * 4 - 2).reshape(shape)


@layer("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
def _(draw, rng, name):
    axes = axes_of(name)
    groups = draw(st.integers(1, 2))
    inside, outside = (groups * draw(st.integers(1, 2)) for _ in range(2))
    kernel, stride, dilation = (several(draw, axes, 1, 3) for _ in range(3))
    extra = tuple(
        draw(st.integers(0, max(s, d) - 1))
        for s, d in zip(each(stride, axes), each(dilation, axes), strict=True)
    )
    spans = [d * (k - 1) for k, d in zip(each(kernel, axes), each(dilation, axes), strict=True)]
    padding = tuple(draw(st.integers(0, (span + 1) // 2)) for span in spans)
    options = {
        "stride": stride, "padding": padding, "output_padding": extra, "groups": groups, "bias": draw(st.booleans()),
        "dilation": dilation,
    }  # fmt: skip
    x = image(draw, rng, axes, 2, inside, 2)
    return lambda n: getattr(n, name)(inside, outside, kernel, **options), [x], None


def pool_options(draw, axes, dilated):
    kernel = several(draw, axes, 1, 4)
    options: dict[str, Any] = {"padding": tuple(draw(st.integers(0, k // 2)) for k in each(kernel, axes))}
    if draw(st.booleans()):
        options["stride"] = several(draw, axes, 1, 3)
    if dilated:
        options["dilation"] = several(draw, axes, 1, 2)
    options["ceil_mode"] = draw(st.booleans())
    spans = [
        d * (k - 1) + 1
        for k, d in zip(each(kernel, axes), each(options.get("dilation", 1), axes), strict=True)
    ]
    return kernel, options, spans


@layer("MaxPool1d", "MaxPool2d", "MaxPool3d")
def _(draw, rng, name):
    axes = axes_of(name)
    kernel, options, spans = pool_options(draw, axes, True)
    if axes == 1:  # PyTorch's own one takes numbers only in some of its paths
        options = {k: v[0] if isinstance(v, tuple) else v for k, v in options.items()}
        kernel = kernel[0] if isinstance(kernel, tuple) else kernel
    return lambda n: getattr(n, name)(kernel, **options), [image(draw, rng, axes, tuple(spans))], None


@layer("AvgPool1d", "AvgPool2d", "AvgPool3d")
def _(draw, rng, name):
    axes = axes_of(name)
    kernel, options, spans = pool_options(draw, axes, False)
    options["count_include_pad"] = draw(st.booleans())
    if axes > 1 and draw(st.booleans()):
        options["divisor_override"] = draw(st.integers(1, 7))
    return lambda n: getattr(n, name)(kernel, **options), [image(draw, rng, axes, tuple(spans))], None


@layer(*(f"Adaptive{kind}Pool{d}d" for kind in ("Avg", "Max") for d in (1, 2, 3)))
def _(draw, rng, name):
    axes = axes_of(name)
    size = tuple(draw(st.one_of(st.none(), st.integers(1, 6))) for _ in range(axes)) if axes > 1 else None
    size = draw(st.integers(1, 6)) if size is None else size
    return lambda n: getattr(n, name)(size), [image(draw, rng, axes, 1)], None


@layer("LPPool1d", "LPPool2d", "LPPool3d")
def _(draw, rng, name):
    axes = axes_of(name)
    kernel = draw(st.integers(1, 3)) if axes == 1 else several(draw, axes, 1, 3)
    power, ceil = draw(st.sampled_from([1, 2, 3.5])), draw(st.booleans())
    stride = draw(st.one_of(st.none(), st.integers(1, 3)))
    x = np.abs(image(draw, rng, axes, kernel)) + 0.1
    return lambda n: getattr(n, name)(power, kernel, stride, ceil), [x], None


@layer("MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d")
def _(draw, rng, name):
    axes = axes_of(name)
    kernel = several(draw, axes, 1, 3)
    x = image(draw, rng, axes, kernel)
    sizes = x.shape[-axes:]

    def make(n):
        class Both(n.Module):
            def __init__(self):
                super().__init__()
                self.pool = getattr(n, name.replace("Unpool", "Pool"))(kernel, return_indices=True)
                self.unpool = getattr(n, name)(kernel)

            def forward(self, x):
                y, index = self.pool(x)
                return self.unpool(y, index, output_size=sizes) if full else self.unpool(y, index)

        return Both()

    full = all(n - (n - k) // k * k - k < k for n, k in zip(sizes, each(kernel, axes), strict=True))
    return make, [x], None


@layer("FractionalMaxPool2d", "FractionalMaxPool3d")
def _(draw, rng, name):
    axes = axes_of(name)
    kernel, size = several(draw, axes, 1, 3), several(draw, axes, 2, 4)
    spare = 1 if axes == 3 else 0  # PyTorch's asks for one more
    least = tuple(k + n - 1 + spare for k, n in zip(each(kernel, axes), each(size, axes), strict=True))
    x = image(draw, rng, axes, least)
    x = x if x.ndim == axes + 2 else x[None]
    samples = rng.uniform(0.01, 0.99, size=(*x.shape[:2], axes))

    def make(n):
        if n.__name__ == "torch.nn":
            import torch

            return getattr(n, name)(
                kernel, size, return_indices=True, _random_samples=torch.from_numpy(samples)
            )
        return getattr(n, name)(kernel, size, return_indices=True, _random_samples=samples)

    return make, [x], None


@layer("Upsample")
def _(draw, rng, name):
    axes = draw(st.integers(1, 3))
    x = image(draw, rng, axes, 1, extra=6)
    x = x if x.ndim == axes + 2 else x[None]
    modes = [
        "nearest",
        "nearest-exact",
        "area",
        *(["linear"], ["bilinear", "bicubic"], ["trilinear"])[axes - 1],
    ]
    mode = draw(st.sampled_from(modes))
    options = {"mode": mode}
    if mode not in ("nearest", "nearest-exact", "area"):
        options["align_corners"] = draw(st.booleans())
    if draw(st.booleans()):
        options["size"] = several(draw, axes, 1, 9)
    else:
        factors = [draw(st.sampled_from([0.5, 0.75, 1.0, 1.3, 2.0, 2.7])) for _ in range(axes)]
        # Where rounding leaves the size as it was, PyTorch's gradients are not those of its outputs.
        options["scale_factor"] = tuple(
            f if n * f >= 1 and int(n * f) != n else 1.0 for f, n in zip(factors, x.shape[2:], strict=True)
        )
        if mode != "area" and draw(st.booleans()):
            options["recompute_scale_factor"] = True
    return lambda n: n.Upsample(**options), [x], None


@layer("UpsamplingNearest2d", "UpsamplingBilinear2d")
def _(draw, rng, name):
    x = image(draw, rng, 2, 2)
    x = x if x.ndim == 4 else x[None]
    return lambda n: getattr(n, name)(scale_factor=2), [x], None


class Called:
    """A function as a module, for what has no module."""

    def __init__(self, n, call):
        self.library, self.call, self.functional = n, call, n.functional

    def named_parameters(self):
        return []

    def parameters(self):
        return []

    def eval(self):
        return self

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        return [], []

    def to(self, *args, **kwargs):
        return self

    def __repr__(self):
        return "Called"

    def __call__(self, *args):
        return self.call(self.functional, *args)


def function(call):
    return lambda n: Called(n, call)


@layer("interpolate-antialias")
def _(draw, rng, name):
    x = image(draw, rng, 2, 2)
    x = x if x.ndim == 4 else x[None]
    # PyTorch does not resize the other axis where one becomes 1.
    size, mode = several(draw, 2, 2, 9), draw(st.sampled_from(["bilinear", "bicubic"]))
    corners = draw(st.booleans())
    return (
        function(lambda f, x: f.interpolate(x, size, mode=mode, align_corners=corners, antialias=True)),
        [x],
        None,
    )


@layer("PixelShuffle", "PixelUnshuffle", "ChannelShuffle")
def _(draw, rng, name):
    r = draw(st.integers(1, 3))
    shape = {
        "PixelShuffle": (2, r * r * draw(st.integers(1, 2)), 2, 3), "PixelUnshuffle": (2, 2, 2 * r, 3 * r),
        "ChannelShuffle": (2, r * draw(st.integers(1, 3)), 2, 3),
    }[name]  # fmt: skip
    return lambda n: getattr(n, name)(r), [rng.normal(size=shape)], None


def window_options(draw):
    kernel, dilation, stride = (several(draw, 2, 1, 3) for _ in range(3))
    padding = several(draw, 2, 0, 2)
    spans = tuple(d * (k - 1) + 1 for k, d in zip(each(kernel, 2), each(dilation, 2), strict=True))
    return {"kernel_size": kernel, "dilation": dilation, "stride": stride, "padding": padding}, spans


@layer("Unfold")
def _(draw, rng, name):
    options, spans = window_options(draw)
    return lambda n: n.Unfold(**options), [image(draw, rng, 2, spans)], None


@layer("Fold")
def _(draw, rng, name):
    options, spans = window_options(draw)
    size = tuple(n + draw(st.integers(0, 4)) for n in spans)
    sides = [
        (n + 2 * p - span) // s + 1
        for n, p, span, s in zip(
            size, each(options["padding"], 2), spans, each(options["stride"], 2), strict=True
        )
    ]
    area = int(np.prod(each(options["kernel_size"], 2)))
    return lambda n: n.Fold(size, **options), [rng.normal(size=(2, 2 * area, int(np.prod(sides))))], None


@layer("affine_grid")
def _(draw, rng, name):
    d, corners = draw(st.integers(2, 3)), draw(st.booleans())
    size = (2, 1, *(draw(st.integers(1, 4)) for _ in range(d)))
    return function(lambda f, t: f.affine_grid(t, size, corners)), [rng.normal(size=(2, d, d + 1))], None


@layer("grid_sample")
def _(draw, rng, name):
    d, corners = draw(st.integers(2, 3)), draw(st.booleans())
    mode = draw(st.sampled_from(["bilinear", "nearest", "bicubic"][: 5 - d]))
    padding = draw(st.sampled_from(["zeros", "border", "reflection"]))
    x = rng.normal(size=(2, 2, *(draw(st.integers(1, 5)) for _ in range(d))))
    grid = rng.uniform(-1.6, 1.6, size=(2, *(draw(st.integers(1, 4)) for _ in range(d)), d))
    return function(lambda f, x, g: f.grid_sample(x, g, mode, padding, corners)), [x, grid], None


@layer("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")
def _(draw, rng, name):
    axes, channels = axes_of(name), draw(st.integers(1, 3))
    options = {"affine": draw(st.booleans()), "track_running_stats": draw(st.booleans())}
    x = image(draw, rng, axes, 2, channels, 3)
    return lambda n: getattr(n, name)(channels, momentum=0.3, **options), [x], None


@layer("LocalResponseNorm")
def _(draw, rng, name):
    size, alpha, k = (
        draw(st.integers(1, 4)),
        draw(st.sampled_from([1e-4, 0.5])),
        draw(st.sampled_from([1.0, 0.7])),
    )
    x = rng.normal(size=(2, draw(st.integers(1, 5)), *(3,) * draw(st.integers(1, 3))))
    return lambda n: n.LocalResponseNorm(size, alpha, 0.6, k), [x], None


@layer("Bilinear")
def _(draw, rng, name):
    left, right, out = (draw(st.integers(1, 4)) for _ in range(3))
    lead, bias = draw(st.sampled_from([(), (3,), (2, 3)])), draw(st.booleans())
    arrays = [rng.normal(size=(*lead, left)), rng.normal(size=(*lead, right))]
    return lambda n: n.Bilinear(left, right, out, bias), arrays, None


@layer("CosineSimilarity", "PairwiseDistance")
def _(draw, rng, name):
    arrays = [rng.normal(size=(3, 4)), rng.normal(size=(3, 4))]
    if name == "CosineSimilarity":
        dim = draw(st.integers(0, 1))
        return lambda n: n.CosineSimilarity(dim), arrays, None
    p, keep = draw(st.sampled_from([1.0, 2.0, 3.0])), draw(st.booleans())
    return lambda n: n.PairwiseDistance(p, keepdim=keep), arrays, None


@layer("EmbeddingBag")
def _(draw, rng, name):
    mode = draw(st.sampled_from(["sum", "mean", "max"]))
    options = {"mode": mode, "padding_idx": draw(st.sampled_from([None, 0, -1]))}
    weighted = mode == "sum" and draw(st.booleans())
    lengths = [draw(st.integers(0, 4)) for _ in range(draw(st.integers(1, 4)))]
    total = sum(lengths)
    if draw(st.booleans()):
        ids, offsets = rng.integers(0, 6, (3, 4)), []
    else:
        ids, offsets = rng.integers(0, 6, total), [np.cumsum([0, *lengths[:-1]])]
        if draw(st.booleans()):
            options["include_last_offset"] = True
            offsets = [np.cumsum([0, *lengths])]
    weights = [rng.normal(size=ids.shape)] if weighted else []

    def form(library, tensors):
        ids, *rest = tensors
        offset = rest[0] if offsets else None
        return (ids, offset, rest[-1]) if weighted else (ids, offset)

    return lambda n: n.EmbeddingBag(6, 3, **options), [ids, *offsets, *weights], form


@layer("Embedding-options")
def _(draw, rng, name):
    options = {"padding_idx": draw(st.sampled_from([None, 2])), "scale_grad_by_freq": draw(st.booleans())}
    return lambda n: n.Embedding(5, 3, **options), [rng.integers(0, 5, (4, 3))], None


@layer(
    *(
        f"{kind}Pad{d}d"
        for kind in ("Constant", "Zero", "Reflection", "Replication", "Circular")
        for d in (1, 2, 3)
    )
)
def _(draw, rng, name):
    axes, kind = axes_of(name), name[:-5]
    low = -1 if kind in ("Constant", "Zero") else 0
    widths = tuple(draw(st.integers(low, 3)) for _ in range(2 * axes))
    widths = draw(st.integers(0, 2)) if draw(st.booleans()) else widths
    x = image(draw, rng, axes, 4, extra=2)
    value = [draw(st.sampled_from([0.0, 1.5]))] if kind == "Constant" else []
    return lambda n: getattr(n, name)(widths, *value), [x], None


@layer("Softmax2d", "RReLU-eval")
def _(draw, rng, name):
    x = rng.normal(size=(*([] if draw(st.booleans()) else [2]), 3, 2, 4))
    if name == "Softmax2d":
        return lambda n: n.Softmax2d(), [x], None
    return function(lambda f, x: f.rrelu(x, 0.2, 0.6)), [x], None
