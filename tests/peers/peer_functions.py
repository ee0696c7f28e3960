"""Functions to draw, registered beside the layers: what no module calls, or calls only in part.

Each is registered as ``f.NAME`` and called with the same arguments in both libraries.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from tests.peers.peer_layers import function, image, layer
from tests.peers.peer_plain import kept, shaped

UNARY = {
    "relu": [{}], "relu6": [{}], "silu": [{}], "tanh": [{}], "sigmoid": [{}], "selu": [{}], "hardswish": [{}],
    "hardsigmoid": [{}], "mish": [{}], "softsign": [{}], "tanhshrink": [{}], "logsigmoid": [{}],
    "gelu": [{}, {"approximate": "tanh"}], "leaky_relu": [{}, {"negative_slope": 0.3}], "elu": [{}, {"alpha": 0.4}],
    "celu": [{}, {"alpha": 0.5}], "hardtanh": [{}, {"min_val": -0.6, "max_val": 0.8}],
    "softplus": [{}, {"beta": 2.0, "threshold": 3.0}], "softshrink": [{}, {"lambd": 0.9}],
    "hardshrink": [{}, {"lambd": 0.9}], "threshold": [{"threshold": 0.4, "value": -1.0}],
    "softmax": [{"dim": -1}, {"dim": 0}], "log_softmax": [{"dim": -1}, {"dim": 0}], "softmin": [{"dim": -1}],
    "rrelu": [{}, {"lower": 0.2, "upper": 0.4}], "dropout": [{"training": False}, {"p": 0.0}],
    "alpha_dropout": [{"training": False}],
    "normalize": [{"dim": -1}, {"dim": 0, "p": 3.0}],
}  # fmt: skip
#: These write to what they are given, which is a result here, since no leaf may be written to.
IN_PLACE = {
    "relu_": {}, "celu_": {"alpha": 0.5}, "elu_": {"alpha": 0.4}, "hardtanh_": {"min_val": -0.5}, "selu_": {},
    "leaky_relu_": {"negative_slope": 0.3}, "threshold_": {"threshold": 0.4, "value": -1.0}, "rrelu_": {},
}  # fmt: skip


@layer(*(f"f.{name}" for name in UNARY))
def _(draw, rng, name):
    options = draw(st.sampled_from(UNARY[name[2:]]))
    return function(lambda f, x: getattr(f, name[2:])(x, **options)), [shaped(draw, rng)], None


@layer(*(f"f.{name}" for name in IN_PLACE))
def _(draw, rng, name):
    def call(f, x):
        y = x * 1.5
        getattr(f, name[2:])(y, **IN_PLACE[name[2:]])
        return y

    return function(call), [shaped(draw, rng)], None


@layer(
    "f.linear", "f.bilinear", "f.prelu", "f.glu", "f.layer_norm", "f.rms_norm", "f.group_norm", "f.conv_tbc"
)
def _(draw, rng, name):
    n, i, o = (draw(st.integers(1, 4)) for _ in "nio")
    bias = draw(st.booleans())
    made = {
        "f.linear": ([(n, i), (o, i), (o,)][: 2 + bias], {}),
        "f.bilinear": ([(n, i), (n, 2), (o, i, 2), (o,)][: 3 + bias], {}),
        "f.prelu": ([(n, i, 3), (i if bias else 1,)], {}),
        "f.glu": ([(n, 2 * i)], {}),
        "f.layer_norm": ([(n, 2, i + 1), (i + 1,), (i + 1,)][: 1 + 2 * bias], {"normalized_shape": (i + 1,)}),
        "f.rms_norm": ([(n, 2, i + 1), (i + 1,)][: 1 + bias], {"normalized_shape": (i + 1,), "eps": 1e-3}),
        "f.group_norm": ([(n, 2 * i, 3), (2 * i,), (2 * i,)][: 1 + 2 * bias], {"num_groups": i}),
        "f.conv_tbc": ([(n + 2, 2, i), (3, i, o), (o,)], {"pad": int(bias)}),
    }
    shapes, options = made[name]
    keys = {"f.layer_norm": ("weight", "bias"), "f.rms_norm": ("weight",), "f.group_norm": ("weight", "bias")}

    def call(f, x, *rest):
        given = dict(zip(keys[name], rest, strict=False)) if name in keys else {}
        return getattr(f, name[2:])(x, *(() if name in keys else rest), **options, **given)

    return function(call), [rng.normal(size=s) for s in shapes], None


@layer(*(f"f.{kind}{d}d" for kind in ("conv", "conv_transpose") for d in (1, 2, 3)))
def _(draw, rng, name):
    axes, groups = int(name[-2]), draw(st.integers(1, 2))
    weight = rng.normal(size=(2 * groups, 2, *[draw(st.integers(1, 3)) for _ in range(axes)]))
    bias = [rng.normal(size=2 * groups)] if draw(st.booleans()) else []
    options = {"stride": draw(st.integers(1, 2)), "padding": draw(st.integers(0, 1)), "groups": groups}
    x = image(draw, rng, axes, 3, 2 * groups, 1)
    return function(lambda f, *t: getattr(f, name[2:])(*t, **options)), [x, weight, *bias], None


@layer(*(f"f.dropout{d}d" for d in (1, 2, 3)))
def _(draw, rng, name):
    x = image(draw, rng, int(name[-2]), 2, 3)
    x = x if x.ndim == int(name[-2]) + 2 else x[None]
    p = draw(st.sampled_from([0.0, 1.0]))
    return function(lambda f, x: getattr(f, name[2:])(x, p)), [x], None


@layer(*(f"f.{kind}max_pool{d}d_with_indices" for kind in ("", "adaptive_") for d in (1, 2, 3)))
def _(draw, rng, name):
    axes, size = int(name[name.index("d_with") - 1]), draw(st.integers(1, 3))
    return function(lambda f, x: getattr(f, name[2:])(x, size)), [image(draw, rng, axes, 3)], None


@layer(*(f"f.fractional_max_pool{d}d{end}" for d in (2, 3) for end in ("", "_with_indices")))
def _(draw, rng, name):
    axes = int(name[len("f.fractional_max_pool")])
    x = image(draw, rng, axes, 5, 2)
    x = x if x.ndim == axes + 2 else x[None]
    chosen = rng.uniform(0.01, 0.99, size=(*x.shape[:2], axes))

    def call(f, x, samples):
        return getattr(f, name[2:])(x, 2, output_size=3, _random_samples=samples.detach())

    return function(call), [x, chosen], None


@layer(
    "f.feature_alpha_dropout",
    "f.pdist",
    "f.cosine_similarity",
    "f.pairwise_distance",
    "f.pad",
    "f.embedding",
    "f.one_hot",
)
def _(draw, rng, name):
    n = draw(st.integers(2, 5))
    if name == "f.feature_alpha_dropout":
        return (
            function(lambda f, x: f.feature_alpha_dropout(x, training=False)),
            [rng.normal(size=(n, 3, 2))],
            None,
        )
    if name == "f.pdist":
        p = draw(st.sampled_from([1.0, 2.0, 3.0]))
        return function(lambda f, x: f.pdist(x, p)), [rng.normal(size=(n, 3))], None
    if name in ("f.embedding", "f.one_hot"):
        ids = rng.integers(0, 4, (n, 2))
        if name == "f.one_hot":
            return function(lambda f, ids: f.one_hot(ids, 6)), [ids], None
        return function(lambda f, ids, w: f.embedding(ids, w)), [ids, rng.normal(size=(4, 3))], None
    if name == "f.pad":
        mode = draw(st.sampled_from(["constant", "reflect", "replicate", "circular"]))
        pad = tuple(draw(st.integers(0, 2)) for _ in range(4))
        return function(lambda f, x: f.pad(x, pad, mode)), [rng.normal(size=(1, 2, 3, n + 1))], None
    return function(lambda f, a, b: getattr(f, name[2:])(a, b)), [rng.normal(size=(n, 3)) for _ in "ab"], None


@layer("f.batch_norm", "f.instance_norm", "f.local_response_norm")
def _(draw, rng, name):
    x = rng.normal(size=(3, 2, draw(st.integers(2, 4))))
    if name == "f.local_response_norm":
        return function(lambda f, x: f.local_response_norm(x, 2, 0.1)), [x], None
    if name == "f.instance_norm":
        return (
            function(lambda f, x, w, b: f.instance_norm(x, None, None, w, b)),
            [x, *rng.normal(size=(2, 2))],
            None,
        )
    training = draw(st.booleans())

    def call(f, x, w, b, mean, var):
        return f.batch_norm(x, mean.detach() * 1, var.detach() * 1, w, b, training)

    return function(call), [x, *rng.normal(size=(3, 2)), rng.uniform(0.5, 2, 2)], None


@layer("f.embedding_bag", "f.fold", "f.unfold", "f.channel_shuffle", "f.native_channel_shuffle", "f.pixel_shuffle",
       "f.pixel_unshuffle", "f.upsample", "f.upsample_nearest", "f.upsample_bilinear")  # fmt: skip
def _(draw, rng, name):
    n, r = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    shapes = {
        "f.fold": ((n, 8, 9), ((4, 4), 2)), "f.unfold": ((n, 2, 4, 3), (2,)), "f.channel_shuffle": ((n, 4, 2, 3), (r,)),
        "f.native_channel_shuffle": ((n, 4, 2, 3), (r,)), "f.pixel_shuffle": ((n, r * r, 2, 3), (r,)),
        "f.pixel_unshuffle": ((n, 2, 2 * r, 3 * r), (r,)), "f.upsample": ((n, 2, 2, 3), (None, 2)),
        "f.upsample_nearest": ((n, 2, 2, 3), (None, 2)), "f.upsample_bilinear": ((n, 2, 2, 3), (None, 2)),
    }  # fmt: skip
    if name == "f.embedding_bag":
        ids, table = rng.integers(0, 5, (n, 3)), rng.normal(size=(5, 2))
        return function(lambda f, ids, w: f.embedding_bag(ids, w, mode="sum")), [ids, table], None
    shape, rest = shapes[name]
    if name == "f.native_channel_shuffle":  # PyTorch has no gradient of it
        return (
            function(lambda f, x: f.native_channel_shuffle(x.detach(), *rest)),
            [rng.normal(size=shape)],
            None,
        )
    return function(lambda f, x: getattr(f, name[2:])(x, *rest)), [rng.normal(size=shape)], None


@layer("f.scaled_dot_product_attention")
def _(draw, rng, name):
    n, m, e = (draw(st.integers(1, 4)) for _ in "nme")
    causal = draw(st.booleans())
    arrays = [rng.normal(size=(2, 2, k, e)) for k in (n, m, m)]
    return (
        function(lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=causal)),
        arrays,
        None,
    )


@layer("f.gumbel_softmax")
def _(draw, rng, name):
    """What chance adds is the same for all, so only the sum of a row, and the gradient of that, can be compared."""
    return function(lambda f, x: f.gumbel_softmax(x, dim=-1).sum(-1)), [shaped(draw, rng)], None


@layer("f.linear_cross_entropy")
def _(draw, rng, name):
    n, c = draw(st.integers(1, 4)), draw(st.integers(2, 4))
    smoothing = draw(st.sampled_from([0.0, 0.3]))

    def call(f, x, w, t):
        return f.linear_cross_entropy(x, w, t, label_smoothing=smoothing)

    arrays = [rng.normal(size=(n, 3)), rng.normal(size=(c, 3)), rng.integers(0, c, n)]
    return function(call), arrays, kept


@layer(*(f"f.{kind}{d}d" for kind in ("lp_pool", "max_unpool") for d in (1, 2, 3)))
def _(draw, rng, name):
    axes, size = int(name[-2]), draw(st.integers(1, 3))
    x = image(draw, rng, axes, 2 * size, extra=0)
    if "lp" in name:
        return function(lambda f, x: getattr(f, name[2:])(x, 2.0, size)), [np.abs(x) + 0.1], None

    def call(f, x):
        y, at = getattr(f, f"max_pool{axes}d")(x, size, return_indices=True)
        return getattr(f, name[2:])(y, at, size)

    return function(call), [x], None
