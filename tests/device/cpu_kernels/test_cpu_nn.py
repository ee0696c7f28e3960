"""Activations, softmax, normalisation, cross-entropy, embedding and optimisers against formulas in f64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

ACTIVATIONS = {
    ("relu",): lambda x: np.maximum(x, 0),
    ("sigmoid",): special.expit,
    ("gelu", "none"): lambda x: x * special.ndtr(x),
    ("gelu", "tanh"): lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ("silu",): lambda x: x * special.expit(x),
    ("softplus", 2.0, 20.0): lambda x: np.where(2 * x > 20, x, np.log1p(np.exp(np.minimum(2 * x, 50))) / 2),
    ("leaky_relu", 0.1): lambda x: np.where(x > 0, x, 0.1 * x),
    ("elu", 1.5): lambda x: np.where(x > 0, x, 1.5 * np.expm1(np.minimum(x, 0))),
}  # fmt: skip
NAMES = {
    "gelu": ("approximate",),
    "softplus": ("beta", "threshold"),
    "leaky_relu": ("negative_slope",),
    "elu": ("alpha",),
}


def attributes(key: Any) -> dict[str, Any]:
    return dict(zip(NAMES.get(key[0], ()), key[1:], strict=True))


@pytest.mark.parametrize("key", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("size", [5, 70_001])
def test_activations(run: Any, rng: Any, key: Any, size: int) -> None:
    x = (rng.normal(size=size) * 5).astype("f4")
    got = run(f"nn.{key[0]}", [x], [(x.shape, "f4")], **attributes(key))
    np.testing.assert_allclose(got, ACTIVATIONS[key](x.astype("f8")), rtol=4e-6, atol=2e-6)


@pytest.mark.parametrize("key", [k for k in ACTIVATIONS if k[0] not in ("leaky_relu", "elu")], ids=str)
def test_activation_gradients(run: Any, rng: Any, key: Any) -> None:
    x, g = (rng.normal(size=3001) * 3).astype("f4"), rng.normal(size=3001).astype("f4")
    wide, function, h = x.astype("f8"), ACTIVATIONS[key], 1e-5
    slope = (function(wide + h) - function(wide - h)) / (2 * h)
    base = function(wide).astype("f4") if key[0] in ("relu", "sigmoid") else x
    got = run(f"nn.{key[0]}_vjp", [g, base], [(x.shape, "f4")], **attributes(key))
    np.testing.assert_allclose(got, g * slope, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["relu", "sigmoid", "silu"])
def test_activations_keep_nan_and_infinity(run: Any, name: str) -> None:
    x = np.array([np.nan, np.inf, -200, 200], "f4")
    got = run(f"nn.{name}", [x], [((4,), "f4")])
    expected = {
        "relu": [np.nan, np.inf, 0, 200],
        "sigmoid": [np.nan, 1, 0, 1],
        "silu": [np.nan, np.inf, 0, 200],
    }
    np.testing.assert_allclose(got, expected[name], atol=1e-30)


SHAPES = [((7, 33), 1), ((7, 33), 0), ((3, 40, 17), 1), ((5,), 0), ((0, 4), 1), ((4, 0), 0), ((40, 3000), 1)]


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_softmax_family(run: Any, rng: Any, shape: Any, axis: int) -> None:
    x, g = (rng.normal(size=shape).astype("f4") * 4 for _ in range(2))
    wide = x.astype("f8")
    soft, log_soft = special.softmax(wide, axis), special.log_softmax(wide, axis)
    out = [(shape, "f4")]
    np.testing.assert_allclose(run("nn.softmax", [x], out, axis=axis), soft, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(run("nn.log_softmax", [x], out, axis=axis), log_soft, rtol=1e-5, atol=1e-5)
    y = soft.astype("f4")
    expected = soft * (g - (g * soft).sum(axis, keepdims=True))
    np.testing.assert_allclose(run("nn.softmax_vjp", [g, y], out, axis=axis), expected, rtol=1e-4, atol=1e-5)
    expected = g - soft * g.astype("f8").sum(axis, keepdims=True)
    got = run("nn.log_softmax_vjp", [g, log_soft.astype("f4")], out, axis=axis)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_softmax_far_out(run: Any) -> None:  # NUM-05
    x = np.array([[1000, 1000, -np.inf], [-np.inf] * 3, [1, np.nan, 2]], "f4")
    got = run("nn.softmax", [x], [(x.shape, "f4")], axis=1)
    np.testing.assert_array_equal(got, [[0.5, 0.5, 0], [np.nan] * 3, [np.nan] * 3])
    half = np.array([[60000, 60000]], "f2").astype("f4")  # NUM-04, as core runs it
    np.testing.assert_array_equal(run("nn.softmax", [half], [((1, 2), "f4")], axis=1), [[0.5, 0.5]])


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("shape", "last"), [((6, 5), 1), ((2, 3, 4, 5), 2), ((300, 130), 1)])
def test_layer_and_rms_norm(run: Any, rng: Any, affine: bool, dtype: str, shape: Any, last: int) -> None:
    normal = shape[-last:]
    x, g = (rng.normal(2, 3, shape).astype(dtype) for _ in range(2))
    w, b = (rng.normal(size=normal).astype(dtype) for _ in range(2)) if affine else (None, None)
    axes, lead = tuple(range(len(shape) - last, len(shape))), tuple(range(len(shape) - last))
    kept = (*shape[:-last], *(1,) * last)
    wide, weight = x.astype("f8"), 1.0 if w is None else w.astype("f8")
    mean = wide.mean(axes, keepdims=True)
    how = {"rtol": 1e-4, "atol": 1e-4} if dtype == "f4" else {"rtol": 1e-9, "atol": 1e-9}
    for name in ("layer", "rms"):
        shift = mean if name == "layer" else 0.0
        rstd = 1 / np.sqrt(((wide - shift) ** 2).mean(axes, keepdims=True) + 1e-3)
        unit = (wide - shift) * rstd
        ins = [x, w, b] if name == "layer" else [x, w]
        hidden = [(kept, dtype)] * (2 if name == "layer" else 1)
        outs = run(f"nn.{name}_norm", ins, [(shape, dtype), *hidden], normalized_shape=normal, eps=1e-3)
        np.testing.assert_allclose(outs[0], unit * weight + (0 if b is None or name == "rms" else b), **how)
        np.testing.assert_allclose(outs[-1], rstd, **how)
        only = run(f"nn.{name}_norm", ins, [(shape, dtype)], normalized_shape=normal, eps=1e-3)
        np.testing.assert_array_equal(only, outs[0])
        gy = g * weight
        inner = unit * (gy * unit).mean(axes, keepdims=True) + (
            gy.mean(axes, keepdims=True) if name == "layer" else 0
        )
        grads = run(
            f"nn.{name}_norm_vjp", [g, x, w, *outs[1:]], [(shape, dtype)] + [(normal, dtype)] * len(hidden),
            normalized_shape=normal,
        )  # fmt: skip
        expected = [rstd * (gy - inner), (g * unit).sum(lead), g.astype("f8").sum(lead)]
        for got, want in zip(grads, expected, strict=False):
            np.testing.assert_allclose(got, want, rtol=how["rtol"] * 10, atol=how["atol"] * 10)


@pytest.mark.parametrize("shape", [(8, 3), (4, 3, 5), (2, 3, 6, 7), (300, 2)])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm(run: Any, rng: Any, shape: Any, affine: bool) -> None:
    x, g = (rng.normal(2, 3, shape).astype("f4") for _ in range(2))
    w, b = (rng.normal(size=shape[1]).astype("f4") for _ in range(2)) if affine else (None, None)
    axes, lined = (0, *range(2, len(shape))), (shape[1],) + (1,) * (len(shape) - 2)
    wide, weight = x.astype("f8"), 1.0 if w is None else w.reshape(lined).astype("f8")
    mean, var = wide.mean(axes), wide.var(axes)
    rstd = 1 / np.sqrt(var + 1e-5)
    unit = (wide - mean.reshape(lined)) * rstd.reshape(lined)
    y, *stats = run("nn.batch_norm_train", [x, w, b], [(shape, "f4")] + [((shape[1],), "f4")] * 3, eps=1e-5)
    expected = unit * weight + (0 if b is None else b.reshape(lined))
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    for got, want in zip(stats, (mean, var, rstd), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    evaluated = run("nn.batch_norm_eval", [x, w, b, stats[0], stats[1]], [(shape, "f4")], eps=1e-5)
    np.testing.assert_allclose(evaluated, expected, rtol=1e-4, atol=1e-5)
    total, along = g.astype("f8").mean(axes, keepdims=True), (g * unit).mean(axes, keepdims=True)
    gx, gw, gb = run(
        "nn.batch_norm_vjp", [g, x, w, stats[0], stats[2]], [(shape, "f4")] + [((shape[1],), "f4")] * 2
    )
    np.testing.assert_allclose(
        gx, rstd.reshape(lined) * weight * (g - total - unit * along), rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(gw, (g * unit).sum(axes), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(gb, g.astype("f8").sum(axes), rtol=1e-4, atol=1e-4)


def test_norms_of_known_values(run: Any) -> None:  # NUM-04, NN-07
    x = (300 + np.arange(8)).astype("f4")[None]
    got = run("nn.layer_norm", [x, None, None], [(x.shape, "f4")], normalized_shape=(8,), eps=1e-5)
    np.testing.assert_allclose(
        got[0], [-1.527, -1.091, -0.655, -0.218, 0.218, 0.655, 1.091, 1.527], atol=1e-3
    )
    one = np.array([[1], [3]], "f4")
    y, mean, var = run(
        "nn.batch_norm_train", [one, None, None], [((2, 1), "f4"), ((1,), "f4"), ((1,), "f4")], eps=1e-5
    )
    np.testing.assert_allclose(y[:, 0], [-1, 1], atol=1e-5)
    assert (mean.item(), var.item()) == (2, 1)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy(run: Any, rng: Any, reduction: str, weighted: bool, smoothing: float) -> None:
    n, c = 9, 5
    x, target = (rng.normal(size=(n, c)) * 3).astype("f4"), rng.integers(0, c, n).astype("i4")
    target[2] = -100
    w = rng.uniform(0.5, 2, c).astype("f4") if weighted else None
    how = {"reduction": reduction, "ignore_index": -100, "label_smoothing": smoothing}
    kept, safe, weight = target >= 0, np.maximum(target, 0), np.ones(c) if w is None else w.astype("f8")

    def losses(z: Any) -> Any:
        log_p = special.log_softmax(z, 1)
        hard, soft = -weight[safe] * log_p[np.arange(n), safe], -(weight * log_p).sum(1) / c
        each = np.where(kept, (1 - smoothing) * hard + smoothing * soft, 0)
        total = {"none": 1, "sum": 1, "mean": weight[safe][kept].sum()}[reduction]
        return each if reduction == "none" else each.sum() / total

    shape = (n,) if reduction == "none" else ()
    loss, lse = run("nn.cross_entropy", [x, target, w], [(shape, "f4"), ((n,), "f4")], **how)
    np.testing.assert_allclose(loss, losses(x.astype("f8")), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(lse, special.logsumexp(x.astype("f8"), 1), rtol=1e-5)
    g = rng.normal(size=shape).astype("f4")
    got = run("nn.cross_entropy_vjp", [g, x, target, w, lse], [(x.shape, "f4")], **how)
    expected, h = np.empty((n, c)), 1e-5
    for i, j in np.ndindex(n, c):
        step = np.zeros((n, c))
        step[i, j] = h
        expected[i, j] = (g * (losses(x + step) - losses(x - step))).sum() / (2 * h)
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)
    assert not got[2].any()


def test_cross_entropy_far_out_and_all_ignored(run: Any) -> None:  # NUM-05
    how = {"reduction": "mean", "ignore_index": -100, "label_smoothing": 0.0}
    x, target = np.array([[1000, 0, -1000]], "f4"), np.array([1], "i4")
    loss, lse = run("nn.cross_entropy", [x, target, None], [((), "f4"), ((1,), "f4")], **how)
    got = run("nn.cross_entropy_vjp", [np.ones((), "f4"), x, target, None, lse], [((1, 3), "f4")], **how)
    assert loss == 1000
    np.testing.assert_array_equal(got, [[1, -1, 0]])
    x, target = np.array([[1, 2, 3], [1, 0, -1]], "f4"), np.array([-100, -100], "i4")
    loss, lse = run("nn.cross_entropy", [x, target, None], [((), "f4"), ((2,), "f4")], **how)
    got = run("nn.cross_entropy_vjp", [np.ones((), "f4"), x, target, None, lse], [((2, 3), "f4")], **how)
    assert np.isnan(loss) and not got.any()
    with pytest.raises(IndexError, match="size 3"):
        run("nn.cross_entropy", [x, np.array([0, 3], "i4"), None], [((), "f4")], **how)


@pytest.mark.parametrize("padding", [0, -4, None])
def test_embedding_gradient(run: Any, padding: Any) -> None:  # AUT-10
    ids = np.array([[0, 1, 1], [3, 1, 0]], "i4")
    g = np.ones((2, 3, 2), "f4")
    got = run("nn.embedding_vjp", [g, ids], [((4, 2), "f4")], num_embeddings=4, padding_idx=padding)
    np.testing.assert_array_equal(got, [[2 if padding is None else 0] * 2, [3, 3], [0, 0], [1, 1]])
    weight = np.arange(8, dtype="f4").reshape(4, 2)
    got = run("nn.embedding", [ids, weight], [((2, 3, 2), "f4")], padding_idx=padding)
    np.testing.assert_array_equal(got, weight[ids])


@pytest.mark.parametrize("amsgrad", [True, False])
@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("donated", [True, False])
def test_adam(run: Any, rng: Any, amsgrad: bool, decoupled: bool, donated: bool) -> None:
    shapes, lists = [(300, 200), (5,), (), (0,)], 4 if amsgrad else 3
    p, g, *state = ([np.array(rng.uniform(0.1, 1, s), "f4") for s in shapes] for _ in range(lists + 1))
    lr, step, b1, b2 = np.array(0.1, "f4"), np.array(3, "f4"), 0.9, 0.99
    expected: list[list[Any]] = [[] for _ in range(lists)]
    for i in range(len(shapes)):
        wide, grad, m, v = (a.astype("f8") for a in (p[i], g[i], state[0][i], state[1][i]))
        grad = -grad if decoupled else -grad + 0.1 * wide
        wide = wide * (1 - 0.1 * 0.1) if decoupled else wide
        m, v = b1 * m + (1 - b1) * grad, b2 * v + (1 - b2) * grad**2
        top = np.maximum(state[2][i], v) if amsgrad else v
        wide = wide - 0.1 / (1 - b1**3) * m / (np.sqrt(top / (1 - b2**3)) + 1e-8)
        for group, value in zip(expected, (wide, m, v, top), strict=False):
            group.append(value)
    ins = [*p, *g, *(a for group in state for a in group)]
    outs = [*p, *ins[8:]] if donated else [(a.shape, "f4") for a in (*p, *ins[8:])]
    got = run(
        "optim.adam_step", [*ins, lr, step, np.zeros((), "f4")], outs, n=4, beta1=b1, beta2=b2, eps=1e-8,
        weight_decay=0.1, decoupled=decoupled, maximize=True,
    )  # fmt: skip
    for a, b in zip(got, [x for group in expected for x in group], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["plain", "momentum", "nesterov", "first"])
def test_sgd(run: Any, rng: Any, kind: str) -> None:
    p, g, m = (rng.normal(size=(300, 200)).astype("f4") for _ in range(3))
    with_momentum = kind != "plain"
    grad = g + 0.1 * p.astype("f8")
    velocity = grad if kind == "first" else 0.9 * m + 0.8 * grad
    along = grad + 0.9 * velocity if kind == "nesterov" else velocity if with_momentum else grad
    if kind == "first":
        m = np.full_like(m, np.nan)
    got = run(
        "optim.sgd_step", [p, g, *([m] if with_momentum else []), np.array(0.5, "f4"), np.zeros((), "f4")],
        [(p.shape, "f4")] * (2 if with_momentum else 1), n=1, momentum=0.9, dampening=0.2, nesterov=kind == "nesterov",
        weight_decay=0.1, maximize=False, first=kind == "first",
    )  # fmt: skip
    np.testing.assert_allclose(got[0] if with_momentum else got, p - 0.5 * along, rtol=1e-4, atol=1e-5)
    if with_momentum:
        np.testing.assert_allclose(got[1], velocity, rtol=1e-4, atol=1e-5)
