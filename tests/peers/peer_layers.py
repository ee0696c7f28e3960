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
