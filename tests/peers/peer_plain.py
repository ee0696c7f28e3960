"""More layers to draw, registered beside those of `peer_layers`: dense ones, norms, activations, containers, losses.

The names of layers that PyTorch lacks begin with ``ours-``; their oracle is the definition in PyTorch's functions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from tests.peers.peer_layers import Called, axes_of, each, image, layer, several


def shaped(draw, rng, last=None, least=1):
    """An array of one to four axes, without ties."""
    shape = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(0, 3)))]
    shape.append(draw(st.integers(least, 5)) if last is None else last)
    count = math.prod(shape)
    return ((rng.permutation(count) + 0.3) / count * 6 - 3).reshape(shape)


@layer("Linear")
def _(draw, rng, name):
    x, bias, out = shaped(draw, rng), draw(st.booleans()), draw(st.integers(1, 5))
    return lambda n: n.Linear(x.shape[-1], out, bias), [x], None


@layer("Conv1d", "Conv2d", "Conv3d")
def _(draw, rng, name):
    axes, groups = axes_of(name), draw(st.integers(1, 2))
    inside, outside = (groups * draw(st.integers(1, 2)) for _ in range(2))
    kernel, dilation = several(draw, axes, 1, 3), several(draw, axes, 1, 2)
    spans = tuple(d * (k - 1) + 1 for k, d in zip(each(kernel, axes), each(dilation, axes), strict=True))
    padding: Any = draw(st.sampled_from(["same", "valid", "numbers"]))
    mode = draw(st.sampled_from(["zeros", "reflect", "replicate", "circular"]))
    stride: Any = 1 if padding == "same" else several(draw, axes, 1, 3)
    padding = tuple(draw(st.integers(0, 2)) for _ in range(axes)) if padding == "numbers" else padding
    options = {
        "stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "bias": draw(st.booleans()),
        "padding_mode": mode,
    }  # fmt: skip
    x = image(draw, rng, axes, tuple(max(s, 5) for s in spans), inside, 2)
    return lambda n: getattr(n, name)(inside, outside, kernel, **options), [x], None


@layer("BatchNorm1d", "BatchNorm2d", "BatchNorm3d")
def _(draw, rng, name):
    axes, channels = axes_of(name), draw(st.integers(1, 3))
    sizes = [draw(st.integers(1, 3)) for _ in range(axes)]
    sizes = [] if axes == 1 and draw(st.booleans()) else sizes
    options = {
        "affine": draw(st.booleans()), "track_running_stats": draw(st.booleans()),
        "momentum": draw(st.sampled_from([None, 0.1, 0.6])), "eps": draw(st.sampled_from([1e-5, 0.1])),
    }  # fmt: skip
    x = rng.normal(size=(draw(st.integers(4, 6)), channels, *sizes))
    return lambda n: getattr(n, name)(channels, **options), [x], None


@layer("LayerNorm", "RMSNorm")
def _(draw, rng, name):
    shape = tuple(draw(st.integers(2, 4)) for _ in range(draw(st.integers(1, 2))))
    options: dict[str, Any] = {
        "elementwise_affine": draw(st.booleans()),
        "eps": draw(st.sampled_from([1e-5, 0.1])),
    }
    if name == "LayerNorm":
        options["bias"] = draw(st.booleans())
    return (
        lambda n: getattr(n, name)(shape, **options),
        [rng.normal(size=(draw(st.integers(1, 4)), *shape))],
        None,
    )


@layer("GroupNorm")
def _(draw, rng, name):
    groups, each_ = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    affine = draw(st.booleans())
    x = rng.normal(size=(2, groups * each_, *[3] * draw(st.integers(1, 2))))
    return lambda n: n.GroupNorm(groups, groups * each_, affine=affine), [x], None


@layer("ReLU", "ReLU6", "SiLU", "Tanh", "Sigmoid", "SELU", "Hardswish", "Hardsigmoid", "Mish", "Softsign", "Tanhshrink",
       "LogSigmoid", "Identity")  # fmt: skip
def _(draw, rng, name):
    return lambda n: getattr(n, name)(), [shaped(draw, rng)], None


SETTINGS = {
    "GELU": [{}, {"approximate": "tanh"}], "LeakyReLU": [{}, {"negative_slope": 0.3}],
    "ELU": [{}, {"alpha": 0.4}], "CELU": [{}, {"alpha": 0.5}], "Hardtanh": [{}, {"min_val": -0.6, "max_val": 0.8}],
    "Softplus": [{}, {"beta": 2.0, "threshold": 3.0}], "Softshrink": [{}, {"lambd": 0.9}],
    "Hardshrink": [{}, {"lambd": 0.9}], "Threshold": [{"threshold": 0.4, "value": -1.0}],
    "Softmax": [{"dim": -1}, {"dim": 0}], "LogSoftmax": [{"dim": -1}, {"dim": 0}], "Softmin": [{"dim": -1}, {"dim": 0}],
    "PReLU": [{}, {"init": 0.1}],
}  # fmt: skip


@layer(*SETTINGS)
def _(draw, rng, name):
    options = draw(st.sampled_from(SETTINGS[name]))
    return lambda n: getattr(n, name)(**options), [shaped(draw, rng)], None


@layer("GLU")
def _(draw, rng, name):
    return lambda n: n.GLU(), [shaped(draw, rng, 2 * draw(st.integers(1, 3)))], None


@layer("Flatten", "Unflatten")
def _(draw, rng, name):
    if name == "Flatten":
        start, end = draw(st.integers(0, 2)), draw(st.integers(-2, -1))
        return lambda n: n.Flatten(start, end), [rng.normal(size=(2, 3, 2, 3))], None
    a, b = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return lambda n: n.Unflatten(1, (a, b)), [rng.normal(size=(2, a * b, 3))], None


@layer("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")
def _(draw, rng, name):
    """Nothing or all is dropped; what chance drops is tested by its statistics in the core's tests."""
    p = draw(st.sampled_from([0.0, 1.0] if name.startswith("Dropout") else [0.0]))
    axes = int(name[-2]) if name[-1] == "d" else 2
    return lambda n: getattr(n, name)(p), [rng.normal(size=(2, 3, *[3] * axes))], None


@layer("Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict")
def _(draw, rng, name):
    width = draw(st.integers(1, 4))

    def make(n):
        library = torch if n is torch.nn else __import__("grilly_core")
        if name == "Sequential":
            return n.Sequential(n.Linear(3, width), n.Tanh(), n.Sequential(n.Linear(width, 2)))

        class Holder(n.Module):
            def __init__(self):
                super().__init__()
                first, second = n.Linear(3, width), n.Linear(width, 2)
                if name == "ModuleList":
                    self.held = n.ModuleList([first, second])
                elif name == "ModuleDict":
                    self.held = n.ModuleDict({"a": first, "b": second})
                else:
                    parts = [n.Parameter(library.ones((3, width))), n.Parameter(library.ones((width, 2)))]
                    self.held = (
                        n.ParameterList(parts)
                        if name == "ParameterList"
                        else n.ParameterDict(dict(zip("ab", parts, strict=True)))
                    )

            def __repr__(self):
                return "Holder"

            def forward(self, x):
                parts = list(self.held.values()) if "Dict" in name else list(self.held)
                for part in parts:
                    x = part(x) if "Module" in name else x @ part
                return x

        return Holder()

    return make, [rng.normal(size=(4, 3))], None


def kept(library, tensors):
    """The target is no input that is differentiated."""
    return (*tensors[:-1], tensors[-1].detach())


LOSSES = {
    "MSELoss": ({}, "real"), "L1Loss": ({}, "real"), "SmoothL1Loss": ({"beta": 0.5}, "real"),
    "HuberLoss": ({"delta": 0.7}, "real"), "BCELoss": ({}, "probability"), "BCEWithLogitsLoss": ({}, "share"),
    "KLDivLoss": ({}, "share"), "KLDivLoss-log": ({"log_target": True}, "real"),
    "NLLLoss": ({"ignore_index": 1}, "class"),
    "CrossEntropyLoss": ({"label_smoothing": 0.2}, "class"),
    "CrossEntropyLoss-soft": ({"label_smoothing": 0.1}, "share"),
}  # fmt: skip


@layer(*LOSSES)
def _(draw, rng, name):
    options, kind = LOSSES[name]
    reduction = draw(st.sampled_from(["mean", "sum", "none"]))
    n, c = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    x, t = rng.normal(size=(n, c)), rng.normal(size=(n, c))
    if kind == "probability":
        x, t = rng.uniform(0.05, 0.95, (n, c)), rng.uniform(size=(n, c))
    elif kind == "share":
        t = rng.dirichlet(np.ones(c), n)
    elif kind == "class":
        t = rng.integers(0, c, n)
        t[0] = 0
    return lambda lib: getattr(lib, name.split("-")[0])(reduction=reduction, **options), [x, t], kept


@layer("CosineEmbeddingLoss", "TripletMarginLoss")
def _(draw, rng, name):
    reduction, n = draw(st.sampled_from(["mean", "sum", "none"])), draw(st.integers(1, 4))
    arrays = [rng.normal(size=(n, 3)) for _ in "ab"]
    if name == "TripletMarginLoss":
        options = {"margin": 2.0, "p": draw(st.sampled_from([1.0, 2.0])), "swap": draw(st.booleans())}
        arrays.append(rng.normal(size=(n, 3)))
    else:
        options = {"margin": 0.1}
        arrays.append(rng.choice([-1, 1], n))
    return lambda lib: getattr(lib, name)(reduction=reduction, **options), arrays, None


def defined(name, call):
    """Ours by its name, theirs by its definition."""
    return lambda n: Called(n, call) if n is torch.nn else getattr(n, name.split("-")[1])()


@layer("ours-GCU", "ours-ReGLU", "ours-GeGLU", "ours-SwiGLU")
def _(draw, rng, name):
    """Growing cosine unit (Noel et al. 2021); gated units (Shazeer 2020)."""
    f = torch.nn.functional
    gates = {"ReGLU": f.relu, "GeGLU": f.gelu, "SwiGLU": f.silu}
    kind = name.split("-")[1]
    if kind == "GCU":
        return defined(name, lambda f, x: x * torch.cos(x)), [shaped(draw, rng)], None
    x = shaped(draw, rng, 2 * draw(st.integers(1, 3)))
    return defined(name, lambda f, x: gated(gates[kind], *x.chunk(2, -1))), [x], None


def gated(gate, a, b):
    return a * gate(b)


@layer("ours-Residual")
def _(draw, rng, name):
    width = draw(st.integers(1, 4))

    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = torch.nn.Linear(width, width)

        def forward(self, x):
            return x + self.module(x)

    def make(n):
        return Sum() if n is torch.nn else n.Residual(n.Linear(width, width))

    return make, [rng.normal(size=(3, width))], None
