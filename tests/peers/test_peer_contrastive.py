"""Contrastive losses and losses with their output layer, values and all gradients.

The oracle of the contrastive ones is the formula of the paper written with loops over PyTorch's tensors, which PyTorch
differentiates; of the others it is PyTorch's module of that name.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from tests.peers.peer_modules import PLACES, compare, flat, host, leaves, need, paired  # noqa: E402

import grilly_core as grilly  # noqa: E402
from grilly_core import nn  # noqa: E402

cos = torch.nn.functional.cosine_similarity


def reduced(losses, reduction):
    losses = torch.stack(losses)
    return {"mean": losses.mean(), "sum": losses.sum(), "none": losses}[reduction]


def info_nce(anchor, positive, negative, t, reduction):
    """van den Oord et al. 2018, equation 4."""
    losses = []
    for i, a in enumerate(anchor):
        if negative is None:
            far = [positive[j] for j in range(len(positive)) if j != i]
        else:
            far = list(negative[i] if negative.ndim == 3 else negative)
        near = (cos(a, positive[i], dim=0) / t).exp()
        losses.append(-(near / (near + sum((cos(a, n, dim=0) / t).exp() for n in far))).log())
    return reduced(losses, reduction)


def nt_xent(a, b, t, reduction):
    """Chen et al. 2020, equation 1."""
    z, n = torch.cat([a, b]), len(a)
    losses = []
    for i in range(2 * n):
        e = [(cos(z[i], z[k], dim=0) / t).exp() for k in range(2 * n)]
        losses.append(-(e[(i + n) % (2 * n)] / sum(v for k, v in enumerate(e) if k != i)).log())
    return reduced(losses, reduction)


def supervised(x, y, t, reduction):
    """Khosla et al. 2020, equation 2, over those that have positives."""
    losses, kept = [], []
    for i in range(len(x)):
        total = sum((cos(x[i], x[a], dim=0) / t).exp() for a in range(len(x)) if a != i)
        p = [j for j in range(len(x)) if j != i and y[j] == y[i]]
        terms = [-((cos(x[i], x[j], dim=0) / t).exp() / total).log() / len(p) for j in p]
        losses.append(sum(terms) if p else x[i].sum() * 0)
        kept += [losses[-1]] if p else []
    if reduction == "mean":
        return sum(kept) / len(kept) if kept else x.sum() * 0
    return reduced(losses, reduction)


def margin_triples(a, p, n, margin, reduction):
    """Features' own rule: max(0, m + d(a, p) - d(a, n)) with d = 1 - cos."""
    d = [1 - cos(a, o, dim=-1) for o in (p, n)]
    return reduced(list((margin + d[0] - d[1]).clamp(min=0)), reduction)


def hadsell(a, b, y, margin, reduction):
    """Hadsell et al. 2006, equation 4, whose Y is 0 for similar pairs."""
    d = (a - b).norm(dim=-1)
    return reduced(list(0.5 * y * d**2 + 0.5 * (1 - y) * (margin - d).clamp(min=0) ** 2), reduction)


REDUCTION = st.sampled_from(["mean", "sum", "none"])
TEMPERATURE = st.sampled_from([0.1, 0.5, 1.0])


def check(ours, want, arrays, place):
    """Values and gradients against the formula, which is computed in float64."""
    _, _, near, near_grad = PLACES[place]
    a, _ = leaves(arrays, place)
    b = [torch.from_numpy(x).requires_grad_(x.dtype.kind == "f") for x in arrays]
    got, expected = ours(*a), want(*b)
    assert tuple(got.shape) == tuple(expected.shape)
    near, near_grad = (1e-12, 1e-11) if place == "cpu-float64" else (10 * near, 10 * near_grad)
    np.testing.assert_allclose(host(got), expected.detach().numpy(), rtol=near, atol=near)
    got.sum().backward()
    expected.sum().backward()
    for p, q in zip(a, b, strict=True):
        if q.grad is not None:
            np.testing.assert_allclose(host(p.grad), q.grad.numpy(), rtol=near_grad, atol=near_grad)


PLACE = pytest.mark.parametrize("place", PLACES)


@PLACE
@settings(max_examples=10, deadline=None)
@given(data=st.data(), n=st.integers(1, 5), d=st.integers(2, 4), t=TEMPERATURE, reduction=REDUCTION)
def test_info_nce_equals_the_formula(place, data, n, d, t, reduction):
    need(place)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    kind = data.draw(st.sampled_from(["batch", "shared", "own", "symmetric"]))
    arrays = [rng.normal(size=(n, d)) for _ in "ap"]
    if kind in ("shared", "own"):
        arrays.append(rng.normal(size=(3, d) if kind == "shared" else (n, 3, d)))
    ours = nn.InfoNCELoss(t, reduction, symmetric=kind == "symmetric")

    def want(a, p, negative=None):
        loss = info_nce(a, p, negative, t, reduction)
        return 0.5 * (loss + info_nce(p, a, None, t, reduction)) if kind == "symmetric" else loss

    check(ours, want, arrays, place)


@PLACE
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**16), n=st.integers(1, 5), t=TEMPERATURE, reduction=REDUCTION)
def test_nt_xent_equals_the_formula(place, seed, n, t, reduction):
    need(place)
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(n, 3)) for _ in "ab"]
    check(nn.NTXentLoss(t, reduction), lambda a, b: nt_xent(a, b, t, reduction), arrays, place)


@PLACE
@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    n=st.integers(1, 6),
    views=st.integers(1, 2),
    t=TEMPERATURE,
    reduction=REDUCTION,
)
def test_supervised_contrastive_equals_the_formula(place, seed, n, views, t, reduction):
    need(place)
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    x = rng.normal(size=(n, 3) if views == 1 else (n, views, 3))
    ours = nn.SupervisedContrastiveLoss(t, reduction)
    check(
        lambda v: ours(v, grilly.asarray(y, dtype="int32", device=v.device)),
        lambda v: supervised(v.reshape(-1, 3), np.repeat(y, views), t, reduction),
        [x],
        place,
    )


@PLACE
@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    n=st.integers(1, 5),
    margin=st.sampled_from([0.2, 1.0, 2.0]),
    reduction=REDUCTION,
)
def test_margin_losses_equal_the_formula(place, seed, n, margin, reduction):
    need(place)
    rng = np.random.default_rng(seed)
    triple = [rng.normal(size=(n, 3)) for _ in "apn"]
    check(
        nn.ContrastiveLoss(margin, reduction=reduction),
        lambda a, p, q: margin_triples(a, p, q, margin, reduction),
        triple,
        place,
    )
    check(
        nn.ContrastiveLoss(margin, "euclidean", reduction),
        lambda a, p: reduced(list(((a - p) ** 2).sum(-1)), reduction),
        triple[:2],
        place,
    )
    y = rng.integers(0, 2, n)
    check(
        lambda a, b: nn.PairContrastiveLoss(margin, reduction=reduction)(
            a, b, grilly.asarray(y, dtype="int32", device=a.device)
        ),
        lambda a, b: hadsell(a, b, torch.from_numpy(y), margin, reduction),
        triple[:2],
        place,
    )


def test_cosines_and_far_logits_keep_gradients_finite():
    """By hand: equal vectors have distance 0 with gradient 0, and a temperature of 0.001 overflows nothing."""
    x = grilly.ones((3, 2)).requires_grad_()
    grilly.functional.pair_contrastive_loss(x, grilly.ones((3, 2)), [1, 1, 0]).backward()
    assert np.isfinite(x.grad.numpy()).all()
    loss = grilly.functional.info_nce_loss(x, -x.detach(), x.detach(), temperature=1e-3)
    np.testing.assert_allclose(loss.item(), 2000.0 + np.log(3), rtol=1e-6)


def test_wrong_arguments_are_refused():
    f, x = grilly.functional, grilly.ones((3, 2))
    with pytest.raises(ValueError, match="temperature must be positive"):
        nn.NTXentLoss(0.0)
    with pytest.raises(ValueError, match="leave one out"):
        f.info_nce_loss(x, x, x, symmetric=True)
    with pytest.raises(ValueError, match="negative must be"):
        f.info_nce_loss(x, x, grilly.ones((4, 5, 2)))
    with pytest.raises(TypeError, match="labels must be integers"):
        f.supervised_contrastive_loss(x, grilly.ones(3))
    with pytest.raises(ValueError, match="distance_metric"):
        f.contrastive_loss(x, x, distance_metric="manhattan")
    with pytest.raises(ValueError, match="one target for each pair"):
        f.pair_contrastive_loss(x, x, [1, 0])


@PLACE
@settings(max_examples=8, deadline=None)
@given(
    data=st.data(),
    n=st.integers(1, 4),
    inside=st.integers(1, 4),
    classes=st.integers(2, 5),
    reduction=REDUCTION,
)
def test_linear_cross_entropy_equals_torch(place, data, n, inside, classes, reduction):
    need(place)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    options = {
        "bias": data.draw(st.booleans()), "out_features": data.draw(st.sampled_from([(), (2,), (2, 3)])),
        "label_smoothing": data.draw(st.sampled_from([0.0, 0.2])), "reduction": reduction,
    }  # fmt: skip
    soft, weighted = data.draw(st.booleans()), data.draw(st.booleans())
    weight = rng.uniform(0.5, 2, classes)
    if not soft:
        options["ignore_index"] = data.draw(st.sampled_from([None, 1]))

    def make(n):
        w = torch.from_numpy(weight) if n is torch.nn else grilly.asarray(weight, dtype="float64")
        return n.LinearCrossEntropyLoss(inside, classes, weight=w if weighted else None, **options)

    ours, theirs = paired(make, rng, place)
    assert repr(ours) == repr(theirs)
    x, extra = rng.normal(size=(n, inside)), options["out_features"]
    if soft:
        target = rng.dirichlet(np.ones(classes), size=(n, *extra))
        target = np.moveaxis(target, -1, 1)
    else:
        target = rng.integers(0, classes, (n, *extra))
        target.flat[0] = 0  # not all ignored
    compare(ours, theirs, [x, target], rng, place)


@PLACE
@settings(max_examples=8, deadline=None)
@given(data=st.data(), n=st.integers(1, 6), bias=st.booleans(), div=st.sampled_from([1.5, 2.0]))
def test_adaptive_log_softmax_equals_torch(place, data, n, bias, div):
    need(place)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    cutoffs = sorted(data.draw(st.sets(st.integers(1, 11), min_size=1, max_size=3)))
    ours, theirs = paired(lambda m: m.AdaptiveLogSoftmaxWithLoss(8, 12, cutoffs, div, bias), rng, place)
    assert repr(ours) == repr(theirs)
    lead = () if n == 6 else (n,)
    x, y = rng.normal(size=(*lead, 8)), np.asarray(rng.integers(0, 12, lead))
    compare(ours, theirs, [x, y], rng, place)
    rows = rng.normal(size=(4, 8))
    a, b = leaves([rows], place)
    np.testing.assert_allclose(host(ours.log_prob(a[0])), host(theirs.log_prob(b[0])), rtol=1e-4, atol=1e-5)
    assert ours.predict(a[0]).tolist() == theirs.predict(b[0]).tolist()
    assert len(flat(ours(a[0], grilly.asarray([0, 5, 11, 3], device=PLACES[place][0])))) == 2


def test_adaptive_log_softmax_refuses_what_torch_refuses():
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4])
    with pytest.raises(IndexError, match="from 0 to 11"):
        layer(grilly.ones((2, 8)), grilly.asarray([3, 12]))
    with pytest.raises(ValueError, match="increasing"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 4])
    with pytest.raises(ValueError, match="expected an input"):
        layer(grilly.ones((2, 8)), grilly.asarray([3]))


def test_old_name_of_nll_equals_torch():
    x, y = np.random.default_rng(0).normal(size=(2, 3, 2, 2)).astype(np.float32), np.ones((2, 2, 2), np.int64)
    with pytest.warns(FutureWarning, match="NLLLoss2d"):
        want = torch.nn.NLLLoss2d()(torch.from_numpy(x), torch.from_numpy(y))
    assert nn.NLLLoss2d()(x, y).item() == pytest.approx(want.item(), rel=1e-6)
