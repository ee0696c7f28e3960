"""Margin, likelihood and sequence losses; the oracle is PyTorch 2.13 on the CPU, values and all gradients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

import grilly_core as grilly  # noqa: E402
from grilly_core import nn  # noqa: E402


def signs(rng, shape):
    return rng.choice([-1.0, 1.0], size=shape)


def labels(rng, n, c):
    """Rows of different labels, ended by -1."""
    rows = np.full((n, c), -1)
    for row in rows:
        k = rng.integers(0, c + 1)
        row[:k] = rng.permutation(c)[:k]
    return rows


#: name -> (module of a library, with its reduction; tensors with gradients; the rest), for N rows and C columns
LOSSES = {
    "MarginRanking": (
        lambda n, r: n.MarginRankingLoss(0.3, reduction=r),
        lambda g, n, c: ([g.normal(size=(n, c)) for _ in "ab"], [signs(g, (n, c))]),
    ),
    "HingeEmbedding": (
        lambda n, r: n.HingeEmbeddingLoss(0.7, reduction=r),
        lambda g, n, c: ([g.normal(size=(n, c))], [signs(g, (n, c))]),
    ),
    "SoftMargin": (
        lambda n, r: n.SoftMarginLoss(reduction=r),
        lambda g, n, c: ([4 * g.normal(size=(n, c))], [signs(g, (n, c))]),
    ),
    "MultiLabelSoftMargin": (
        lambda n, r: n.MultiLabelSoftMarginLoss(reduction=r),
        lambda g, n, c: ([4 * g.normal(size=(n, c))], [g.integers(0, 2, (n, c)).astype(float)]),
    ),
    "MultiMargin": (
        lambda n, r: n.MultiMarginLoss(1, 0.6, reduction=r),
        lambda g, n, c: ([g.normal(size=(n, c))], [g.integers(0, c, n)]),
    ),
    "MultiMargin-squared": (
        lambda n, r: n.MultiMarginLoss(2, reduction=r),
        lambda g, n, c: ([g.normal(size=(n, c))], [g.integers(0, c, n)]),
    ),
    "MultiLabelMargin": (
        lambda n, r: n.MultiLabelMarginLoss(reduction=r),
        lambda g, n, c: ([g.normal(size=(n, c))], [labels(g, n, c)]),
    ),
    "TripletMarginWithDistance": (
        lambda n, r: n.TripletMarginWithDistanceLoss(
            distance_function=lambda x, y: (x - y).abs().sum(-1), margin=2.0, swap=True, reduction=r
        ),
        lambda g, n, c: ([g.normal(size=(n, c)) for _ in "apn"], []),
    ),
    "PoissonNLL": (
        lambda n, r: n.PoissonNLLLoss(full=True, reduction=r),
        lambda g, n, c: ([g.normal(size=(n, c))], [g.integers(0, 6, (n, c)).astype(float)]),
    ),
    "PoissonNLL-rates": (
        lambda n, r: n.PoissonNLLLoss(log_input=False, reduction=r),
        lambda g, n, c: ([g.uniform(0.2, 3, (n, c))], [g.integers(0, 6, (n, c)).astype(float)]),
    ),
    "GaussianNLL": (
        lambda n, r: n.GaussianNLLLoss(full=True, eps=0.3, reduction=r),
        lambda g, n, c: ([g.normal(size=(n, c)), g.normal(size=(n, c)), g.uniform(0, 2, (n, 1))], []),
    ),
}


def put(array, device="cpu"):
    """A tensor of the array's own dtype: without asking, float64 would become float32."""
    return grilly.asarray(array, dtype=str(array.dtype), device=device)


def compare(ours, theirs, vectors, rest, dtype, device, tol):
    """Values, gradients through the tape, and what the module's own `backward` returns."""
    vectors = [np.asarray(v, dtype) for v in vectors]
    rest = [r.astype(dtype) if r.dtype.kind == "f" else r for r in rest]
    a = [put(v, device).requires_grad_() for v in vectors]
    b = [torch.from_numpy(v.copy()).requires_grad_() for v in vectors]
    loss = ours(*a, *(put(r, device) for r in rest))
    want = theirs(*b, *map(torch.from_numpy, rest))
    assert tuple(loss.shape) == tuple(want.shape)
    np.testing.assert_allclose(loss.detach().numpy(), want.detach().numpy(), rtol=tol, atol=tol)
    loss.sum().backward()
    want.sum().backward()
    g = None if want.ndim == 0 else put(np.ones(want.shape, dtype), device)
    explicit = ours.backward(g, *a, *(put(r, device) for r in rest))
    explicit = explicit if isinstance(explicit, tuple) else (explicit,)
    for p, q, e in zip(a, b, explicit, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=10 * tol, atol=10 * tol)
        np.testing.assert_allclose(e.numpy(), q.grad.numpy(), rtol=10 * tol, atol=10 * tol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=12, deadline=None)
@given(
    n=st.integers(1, 6),
    c=st.integers(1, 7),
    seed=st.integers(0, 2**16),
    reduction=st.sampled_from(["mean", "sum", "none"]),
)
def test_loss_equals_torch(name, dtype, n, c, seed, reduction):
    make, inputs = LOSSES[name]
    vectors, rest = inputs(np.random.default_rng(seed), n, c)
    tol = 2e-5 if dtype is np.float32 else 1e-10
    compare(make(nn, reduction), make(torch.nn, reduction), vectors, rest, dtype, "cpu", tol)


@pytest.mark.parametrize(
    "make", [lambda n, w: n.MultiMarginLoss(weight=w), lambda n, w: n.MultiLabelSoftMarginLoss(w)]
)
def test_weights_of_classes_equal_torch(make):
    rng, w = np.random.default_rng(3), np.array([0.5, 1.0, 2.0, 0.1], np.float32)
    t = (
        rng.integers(0, 4, 5)
        if isinstance(make(nn, None), nn.MultiMarginLoss)
        else signs(rng, (5, 4)) * 0.5 + 0.5
    )
    ours, theirs = make(nn, grilly.asarray(w)), make(torch.nn, torch.from_numpy(w))
    compare(ours, theirs, [rng.normal(size=(5, 4))], [t], np.float32, "cpu", 2e-5)


@settings(max_examples=25, deadline=None)
@given(
    t=st.integers(1, 9),
    n=st.integers(1, 4),
    c=st.integers(2, 5),
    seed=st.integers(0, 2**16),
    reduction=st.sampled_from(["mean", "sum", "none"]),
    packed=st.booleans(),
)
def test_ctc_equals_torch(t, n, c, seed, reduction, packed):
    """Gradients of the logits; all targets fit, or PyTorch's would be NaN where ours are 0."""
    rng = np.random.default_rng(seed)
    blank = int(rng.integers(c))
    frames = rng.integers(1, t + 1, n)
    sizes = np.array([rng.integers(0, (f + 1) // 2 + 1) for f in frames])
    y = (blank + rng.integers(1, c, (n, max(int(sizes.max()), 1)))) % c
    if packed:
        y = np.concatenate([row[:s] for row, s in zip(y, sizes, strict=True)])
    x = rng.normal(size=(t, n, c))
    a, b = put(x).requires_grad_(), torch.from_numpy(x).requires_grad_()
    loss = nn.CTCLoss(blank, reduction)(
        grilly.functional.log_softmax(a, -1), grilly.asarray(y), frames.tolist(), grilly.asarray(sizes)
    )
    want = torch.nn.CTCLoss(blank, reduction)(
        b.log_softmax(-1), torch.from_numpy(y), torch.from_numpy(frames), torch.from_numpy(sizes)
    )
    np.testing.assert_allclose(loss.detach().numpy(), want.detach().numpy(), rtol=1e-9, atol=1e-9)
    loss.sum().backward()
    want.sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("zero", [False, True])
def test_ctc_of_targets_that_do_not_fit_has_no_nan(zero):
    """Two equal labels need three frames; the value is PyTorch's."""
    x = np.log(np.full((2, 1, 3), 1 / 3))
    a = grilly.asarray(x).requires_grad_()
    loss = grilly.functional.ctc_loss(a, grilly.asarray([[1, 1]]), [2], [2], zero_infinity=zero)
    want = torch.nn.functional.ctc_loss(
        torch.from_numpy(x), torch.tensor([[1, 1]]), (2,), (2,), zero_infinity=zero
    )
    assert loss.item() == want.item() == (0.0 if zero else np.inf)
    loss.backward()
    assert a.grad.tolist() == np.zeros((2, 1, 3)).tolist()


@pytest.mark.parametrize("name", ["MarginRanking", "MultiMargin", "MultiLabelMargin", "GaussianNLL"])
def test_loss_on_vulkan_equals_torch(name):
    try:
        grilly.zeros(1, device="vulkan:0")
    except grilly.GrillyError as error:
        pytest.skip(f"no Vulkan device: {error}")
    make, inputs = LOSSES[name]
    vectors, rest = inputs(np.random.default_rng(5), 4, 6)
    rest = [r.astype(np.int32) if r.dtype.kind == "i" and name == "MultiMargin" else r for r in rest]
    theirs = make(torch.nn, "mean")
    compare(make(nn, "mean"), lambda *z: theirs(*(v.long() if v.dtype is torch.int32 else v for v in z)),
            vectors, rest, np.float32, "vulkan:0", 1e-4)  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
def test_weights_of_elements_equal_torch(name, reduction):
    rng = np.random.default_rng(2)
    x, t, w = (rng.uniform(0.2, 3, (3, 4)) for _ in range(3))
    a, b = put(x).requires_grad_(), torch.from_numpy(x).requires_grad_()
    loss = getattr(grilly.functional, name)(a, put(t), reduction=reduction, weight=put(w))
    want = getattr(torch.nn.functional, name)(
        b, torch.from_numpy(t), reduction=reduction, weight=torch.from_numpy(w)
    )
    np.testing.assert_allclose(loss.detach().numpy(), want.detach().numpy(), rtol=1e-12)
    loss.sum().backward()
    want.sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-12)
    with pytest.raises(ValueError, match="weight"):
        getattr(grilly.functional, name)(x, t, weight=w[0])


def test_wrong_arguments_are_refused():
    x = grilly.zeros((2, 3))
    with pytest.raises(ValueError, match="p must be 1 or 2"):
        nn.MultiMarginLoss(p=3)
    with pytest.raises(TypeError, match="integer class indices"):
        grilly.functional.multi_margin_loss(x, grilly.zeros((2,)))
    with pytest.raises(ValueError, match="at least 0"):
        grilly.functional.gaussian_nll_loss(x, x, x - 1.0)
    with pytest.raises(ValueError, match="input_lengths"):
        grilly.functional.ctc_loss(grilly.zeros((2, 1, 3)), grilly.asarray([[1]]), [3], [1])
    with pytest.raises(IndexError, match="from 0 to 2"):
        grilly.functional.ctc_loss(grilly.zeros((2, 1, 3)), grilly.asarray([[5]]), [2], [1])
