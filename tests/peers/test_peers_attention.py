"""`scaled_dot_product_attention` against PyTorch's: in float64 through the body, in float32 and halves by kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as torch_functional
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right

import grilly

sdpa = grilly.functional.scaled_dot_product_attention
peer = torch_functional.scaled_dot_product_attention
#: Of the largest value near it, for what went through sums of some hundred terms.
TOLERANCE = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def drawn(rng, *shape):
    return rng.standard_normal(shape)


def ours(array, dtype="float64"):
    return grilly.asarray(array, dtype=dtype).requires_grad_()


def theirs(array, dtype="float64"):
    """The same numbers, rounded alike, in float64: so the peer is exact."""
    return torch.tensor(array).to(getattr(torch, dtype)).double().requires_grad_()


def agree(actual, expected, dtype="float64"):
    a, b = np.asarray(actual.detach().numpy(), np.float64), expected.detach().numpy()
    assert a.shape == b.shape
    scale = max(1.0, np.abs(b).max(initial=0.0))
    np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE[dtype] * scale)


def same(arrays, mask=None, dtype="float64", *, peer_mask=None, lengths=None, **options):
    """Compare outputs and all gradients of a weighted sum."""
    xs, ts = [ours(a, dtype) for a in arrays], [theirs(a, dtype) for a in arrays]
    m, tm = (None, None) if mask is None else (grilly.asarray(mask), torch.tensor(mask))
    learned = mask is not None and mask.dtype.kind == "f"
    if learned:
        m, tm = ours(mask, "float64" if dtype == "float64" else "float32"), theirs(mask)
    alone = options.pop("causal_alignment", None)
    own = {"causal_alignment": alone, "is_causal": True} if alone else {}
    y = sdpa(*xs, m, key_lengths=lengths, **options, **own)
    expected = peer(*ts, tm if peer_mask is None else peer_mask, **options)
    agree(y, expected, dtype)
    weight = np.random.default_rng(5).standard_normal(expected.shape)
    y.backward(grilly.asarray(weight, dtype=dtype))
    expected.backward(torch.tensor(weight).to(getattr(torch, dtype)).double())
    for x, t in zip(xs + [m] * learned, ts + [tm] * learned, strict=True):
        agree(x.grad, t.grad, dtype)


DTYPES = ["float64", "float32", "float16", "bfloat16"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (70, 130), (1, 300), (200, 64)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_lengths_that_differ(dtype, shape, is_causal):
    rng = np.random.default_rng(0)
    m, n = shape
    same(
        [drawn(rng, 2, 3, m, 16), drawn(rng, 2, 3, n, 16), drawn(rng, 2, 3, n, 16)],
        dtype=dtype,
        is_causal=is_causal,
    )


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 3), groups=st.integers(1, 3), share=st.integers(1, 3), m=st.integers(1, 40),
    n=st.integers(1, 80), e=st.integers(1, 40), f=st.integers(1, 40), masked=st.sampled_from(["", "bool", "float"]),
    flat=st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()), is_causal=st.booleans(),
    dtype=st.sampled_from(["float64", "float32"]), scale=st.sampled_from([None, 0.3]), seed=st.integers(0, 99),
)  # fmt: skip
def test_random_shapes(batch, groups, share, m, n, e, f, masked, flat, is_causal, dtype, scale, seed):
    rng = np.random.default_rng(seed)
    heads = groups * share
    arrays = [
        drawn(rng, batch, heads, m, e),
        drawn(rng, batch, groups, n, e),
        drawn(rng, batch, groups, n, f),
    ]
    shape = tuple(1 if one else size for one, size in zip(flat, (batch, heads, m, n), strict=True))
    mask = None
    if masked:
        is_causal = False  # PyTorch refuses both together on some of its paths
        mask = rng.random(shape) > 0.3 if masked == "bool" else rng.standard_normal(shape)
    same(arrays, mask, dtype, is_causal=is_causal, enable_gqa=True, scale=scale)


@pytest.mark.parametrize("shape", [(3, 7), (7, 3), (5, 5)])
def test_lower_right(shape):
    rng = np.random.default_rng(1)
    m, n = shape
    arrays = [drawn(rng, 2, 2, m, 8), drawn(rng, 2, 2, n, 8), drawn(rng, 2, 2, n, 8)]
    keep = torch.ones(m, n, dtype=torch.bool).tril(n - m)  # what `causal_lower_right` stands for
    if m <= n:
        ts = [theirs(a) for a in arrays]
        assert torch.allclose(peer(*ts, attn_mask=causal_lower_right(m, n)), peer(*ts, attn_mask=keep))
    same(arrays, peer_mask=keep, causal_alignment="lower_right")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("alignment", [None, "upper_left", "lower_right"])
def test_lengths_of_keys(dtype, alignment):
    rng = np.random.default_rng(2)
    arrays = [drawn(rng, 3, 4, 6, 8), drawn(rng, 3, 2, 70, 8), drawn(rng, 3, 2, 70, 8)]
    lengths = np.array([70, 1, 33])
    at, query = np.arange(70), np.arange(6)[None, :, None]
    end = lengths[:, None, None]
    keep = np.broadcast_to(at < end, (3, 6, 70))
    if alignment:
        keep = keep & (at <= query + (end - 6 if alignment == "lower_right" else 0))
    options = {"causal_alignment": alignment} if alignment else {}
    same(
        arrays,
        dtype=dtype,
        peer_mask=torch.tensor(keep)[:, None],
        lengths=lengths,
        enable_gqa=True,
        **options,
    )


def test_what_lies_beyond_the_lengths_is_not_read():
    rng = np.random.default_rng(3)
    q, k, v = drawn(rng, 2, 1, 3, 4), drawn(rng, 2, 1, 6, 4), drawn(rng, 2, 1, 6, 4)
    for x in (k, v):
        x[0, :, 2:] = math.nan
        x[1, :, 5:] = math.inf
    for dtype in ("float32", "float64"):
        xs = [ours(a, dtype) for a in (q, k, v)]
        y = sdpa(*xs, key_lengths=[2, 5])
        y.sum().backward()
        assert all(np.isfinite(t.detach().numpy()).all() for t in (y, *(x.grad for x in xs)))
        assert not xs[1].grad.numpy()[0, :, 2:].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_query_that_sees_nothing_gives_zeros(dtype, kind):
    """Values known from PyTorch 2.13: the blind row is 0, and all gradients are finite."""
    q, k, v = np.ones((1, 1, 2, 4)), np.ones((1, 1, 3, 4)), np.arange(12.0).reshape(1, 1, 3, 4)
    keep = np.array([[True, True, False], [False] * 3])
    mask = keep if kind == "bool" else np.where(keep, 0.0, -math.inf)
    same([q, k, v], mask, dtype)
    x = ours(v, dtype)
    y = sdpa(ours(q, dtype), ours(k, dtype), x, mask if kind == "bool" else grilly.asarray(mask, dtype=dtype))
    agree(y, torch.tensor([[[[2.0, 3.0, 4.0, 5.0], [0.0] * 4]]]), dtype)
    y.backward(grilly.ones(y.shape, dtype=dtype))
    agree(x.grad, torch.tensor([[[[0.5] * 4, [0.5] * 4, [0.0] * 4]]]), dtype)


def test_fewer_and_more_axes():
    rng = np.random.default_rng(4)
    for lead in ((), (3,), (2, 2, 3)):
        same([drawn(rng, *lead, 4, 8), drawn(rng, *lead, 5, 8), drawn(rng, *lead, 5, 6)])
    same([drawn(rng, 2, 3, 4, 8), drawn(rng, 1, 3, 5, 8), drawn(rng, 2, 1, 5, 8)])
    same(
        [drawn(rng, 2, 2, 3, 4, 8), drawn(rng, 2, 2, 3, 5, 8), drawn(rng, 2, 2, 3, 5, 8)],
        drawn(rng, 2, 1, 1, 4, 5),
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_dropout_of_known_weights(dtype):
    """The mask is read off with v = 1 in one place, and PyTorch's maths does the rest."""
    rng = np.random.default_rng(6)
    b, h, m, n, p = 2, 2, 5, 7, 0.4
    q, k = drawn(rng, b, h, m, 8), drawn(rng, b, h, n, 8)
    make = lambda: grilly.Generator(11)  # noqa: E731
    weights = sdpa(
        *(ours(a, dtype) for a in (q, k, np.broadcast_to(np.eye(n), (b, h, n, n)))), dropout_p=p, rng=make()
    )
    kept = weights.detach().numpy() != 0
    assert 0.4 < kept.mean() < 0.8
    v, weight = drawn(rng, b, h, n, 8), drawn(rng, b, h, m, 8)
    ts = [theirs(a, dtype) for a in (q, k, v)]
    soft = torch.softmax(ts[0] @ ts[1].mT / math.sqrt(8), -1) * torch.tensor(kept) / (1 - p)
    expected = soft @ ts[2]
    expected.backward(torch.tensor(weight))
    xs = [ours(a, dtype) for a in (q, k, v)]
    y = sdpa(*xs, dropout_p=p, rng=make())
    agree(y, expected, dtype)
    y.backward(grilly.asarray(weight, dtype=dtype))
    for x, t in zip(xs, ts, strict=True):
        agree(x.grad, t.grad, dtype)


def test_second_gradients():
    rng = np.random.default_rng(7)
    arrays = [drawn(rng, 1, 2, 3, 4), drawn(rng, 1, 2, 5, 4), drawn(rng, 1, 2, 5, 4)]
    xs, ts = [ours(a) for a in arrays], [theirs(a) for a in arrays]
    first = grilly.grad((sdpa(*xs) ** 2).sum(), xs, create_graph=True)
    second = grilly.grad(sum((g**2).sum() for g in first), xs)
    with sdpa_kernel(SDPBackend.MATH):  # the only one of PyTorch's that has second derivatives
        expected = torch.autograd.grad((peer(*ts) ** 2).sum(), ts, create_graph=True)
    expected = torch.autograd.grad(sum((g**2).sum() for g in expected), ts)
    for a, b in zip(second, expected, strict=True):
        agree(a, b)


@pytest.mark.parametrize(
    ("change", "error", "part"),
    [
        ({"query": (4,)}, ValueError, "at least two axes"),
        ({"key": (1, 2, 5, 4)}, ValueError, "enable_gqa=True"),
        ({"key": (1, 2, 5, 4), "value": (1, 2, 5, 4), "enable_gqa": True}, ValueError, "heads"),
        ({"attn_mask": (4, 4)}, ValueError, "does not broadcast"),
        ({"dropout_p": 1.5}, ValueError, "dropout_p"),
        ({"causal_alignment": "lower_right"}, ValueError, "is_causal"),
        ({"is_causal": True, "causal_alignment": "left"}, ValueError, "upper_left"),
        ({"key_lengths": [1, 2]}, ValueError, "key_lengths"),
        ({"key_lengths": [1.5]}, TypeError, "integers"),
    ],
)
def test_errors_name_the_argument(change, error, part):
    given_ = {"query": (1, 3, 3, 4), "key": (1, 3, 5, 4), "value": (1, 3, 5, 4)} | change
    arrays = {k: grilly.zeros(v) if isinstance(v, tuple) else v for k, v in given_.items()}
    with pytest.raises(error, match=part):
        sdpa(**arrays)
