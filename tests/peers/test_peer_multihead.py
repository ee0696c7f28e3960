"""`MultiheadAttention` against PyTorch's: state dict, outputs, weights and all gradients; the masks' polarity."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from tests.peers.peer_modules import compare, host, need, paired  # noqa: E402

import grilly_core as grilly  # noqa: E402
from grilly_core import nn  # noqa: E402
from grilly_core.errors import DTypeError, ShapeError  # noqa: E402


@st.composite
def cases(draw):
    """Options of the layer, options of the call with its masks, the inputs, and a generator."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    heads, width = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    e, kinds = heads * width, draw(st.sampled_from(["self", "cross", "widths"]))
    n, length = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    keys = length if kinds == "self" else draw(st.integers(1, 5))
    options = {
        "bias": draw(st.booleans()), "add_bias_kv": draw(st.booleans()), "add_zero_attn": draw(st.booleans()),
        "batch_first": draw(st.booleans()),
    }  # fmt: skip
    kdim, vdim = (draw(st.integers(1, 5)), draw(st.integers(1, 5))) if kinds == "widths" else (e, e)
    if kinds == "widths":
        options |= {"kdim": kdim, "vdim": vdim}
    batched = draw(st.booleans())
    shapes = [(length, e), (keys, kdim), (keys, vdim)][: 1 if kinds == "self" else 3]
    if batched:
        shapes = [(n, p, w) if options["batch_first"] else (p, n, w) for p, w in shapes]
    call = {"need_weights": draw(st.booleans()), "average_attn_weights": draw(st.booleans())}
    rows = n if batched else 1
    mask_shape = draw(st.sampled_from([None, (length, keys), (rows * heads, length, keys)]))
    floats = draw(st.booleans())
    if mask_shape:
        call["attn_mask"] = _mask(rng, mask_shape, floats)
    if draw(st.booleans()):
        call["key_padding_mask"] = _mask(rng, (n, keys) if batched else (keys,), floats)
    arrays = [rng.normal(size=s) for s in shapes]
    return lambda m: m.MultiheadAttention(e, heads, **options), arrays, call, rng


def _mask(rng, shape, floats):
    """A mask that leaves the first key to every query: without any, PyTorch's weights are NaN."""
    if floats:
        return rng.normal(size=shape)
    mask = rng.random(shape) < 0.4
    mask[..., 0] = False
    return mask


def form(call):
    def arguments(library, tensors):
        q, k, v = tensors * 3 if len(tensors) == 1 else tensors
        make = {
            grilly: lambda a: grilly.asarray(a, dtype=a.dtype.name, device=q.device),
            torch: torch.from_numpy,
        }
        given = dict(call)
        for name in ("attn_mask", "key_padding_mask"):
            if name in given:
                given[name] = make[library](given[name])
                if call[name].dtype.kind == "f":
                    given[name] = given[name].to(q.dtype)
        return [q, k, v], given

    return arguments


class Called:
    """A module called with keywords, which `compare` does not know of."""

    def __init__(self, module):
        self.module = module
        self.named_parameters, self.parameters = module.named_parameters, module.parameters

    def __call__(self, args, kwargs):
        return self.module(*args, **kwargs)


def check(case, place):
    make, arrays, call, rng = case
    ours, theirs = paired(make, rng, place)
    compare(Called(ours), Called(theirs), arrays, rng, place, form(call))


@pytest.mark.parametrize("place", ["cpu-float32", "cpu-float64"])
@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_equals_torch(place, case):
    check(case, place)


@settings(max_examples=8, deadline=None)
@given(case=cases())
def test_on_vulkan_equals_torch(case):
    need("vulkan-float32")
    check(case, "vulkan-float32")


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_causal_with_the_mask_that_torch_asks_for(need_weights, padded):
    rng = np.random.default_rng(0)
    ours, theirs = paired(lambda m: m.MultiheadAttention(6, 2, batch_first=True), rng, "cpu-float64")
    call = {"attn_mask": np.triu(np.ones((4, 4), bool), 1), "is_causal": True, "need_weights": need_weights}
    if padded:
        call["key_padding_mask"] = np.array([[False, True, False, True], [False] * 4])
    compare(Called(ours), Called(theirs), [rng.normal(size=(2, 4, 6))], rng, "cpu-float64", form(call))


@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}])
@pytest.mark.parametrize("need_weights", [False, True])
def test_causal_alone_is_the_causal_mask(options, need_weights):
    # the oracle is the same layer with the mask written out
    layer = nn.MultiheadAttention(6, 2, batch_first=True, **options)
    x = grilly.randn(2, 4, 6)
    blocked = np.triu(np.ones((4, 4), bool), 1)
    a, _ = layer(x, x, x, is_causal=True, need_weights=need_weights)
    b, _ = layer(x, x, x, attn_mask=blocked, need_weights=need_weights)
    np.testing.assert_allclose(host(a), host(b), rtol=1e-6, atol=1e-6)


def test_the_masks_polarity():
    """Known from PyTorch: True blocks in the module (row 0 attends itself only), and keeps in the function."""
    layer = nn.MultiheadAttention(1, 1, bias=False)
    with grilly.no_grad():
        layer.in_proj_weight[:] = grilly.tensor([[0.0], [0.0], [1.0]])
        layer.out_proj.weight[:] = grilly.tensor([[1.0]])
    x = grilly.tensor([[1.0], [2.0], [4.0]])
    blocked = np.triu(np.ones((3, 3), bool), 1)
    for need_weights in (False, True):
        y, _ = layer(x, x, x, attn_mask=blocked, need_weights=need_weights)
        np.testing.assert_allclose(host(y)[:, 0], [1.0, 1.5, 7 / 3], rtol=1e-6)
        y, _ = layer(x, x, x, mask=blocked, need_weights=need_weights)
        np.testing.assert_allclose(host(y)[:, 0], [3.0, 4.0, 0.0], rtol=1e-6)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("floats", [False, True])
def test_a_query_that_sees_nothing_gives_the_bias_and_finite_gradients(need_weights, floats):
    # features' mask rule; PyTorch gives NaN with weights and zeros without them
    layer = nn.MultiheadAttention(4, 2)
    x = grilly.randn(3, 4).requires_grad_()
    mask = np.zeros((3, 3), bool)
    mask[1] = True
    given = np.where(mask, -np.inf, 0.0).astype(np.float32) if floats else mask
    y, weights = layer(x, x, x, attn_mask=given, need_weights=need_weights)
    y.sum().backward()
    np.testing.assert_array_equal(host(y)[1], host(layer.out_proj.bias))
    assert weights is None or not host(weights)[1].any()
    assert all(np.isfinite(host(t.grad)).all() for t in (x, *layer.parameters()))


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize(
    "shapes", [((3, 0, 4), (3, 0, 4)), ((0, 2, 4), (3, 2, 4)), ((3, 2, 4), (0, 2, 4)), ((0, 4), (0, 4))]
)
def test_empty_inputs(shapes, need_weights):
    # the oracle is the definition: a query with no keys has the bias of the output for its output
    layer = nn.MultiheadAttention(4, 2)
    q, k = (grilly.zeros(s).requires_grad_() for s in shapes)
    y, weights = layer(q, k, k, need_weights=need_weights, is_causal=True)
    assert y.shape == q.shape
    if need_weights:
        assert weights.shape == (*q.shape[1:-1], q.shape[0], k.shape[0])
    if not k.shape[0]:
        np.testing.assert_array_equal(host(y), np.broadcast_to(host(layer.out_proj.bias), q.shape))
    y.sum().backward()
    assert q.grad.shape == q.shape and k.grad.shape == k.shape


@pytest.mark.parametrize("need_weights", [False, True])
def test_gradients_of_gradients_equal_torch(need_weights):
    rng = np.random.default_rng(1)
    ours, theirs = paired(lambda m: m.MultiheadAttention(4, 2), rng, "cpu-float64")
    x = rng.normal(size=(3, 2, 4))
    a, b = grilly.asarray(x, dtype="float64").requires_grad_(), torch.from_numpy(x).requires_grad_()
    (g,) = grilly.autograd.grad(
        (ours(a, a, a, need_weights=need_weights)[0] ** 2).sum(), a, create_graph=True
    )
    (h,) = torch.autograd.grad((theirs(b, b, b)[0] ** 2).sum(), b, create_graph=True)
    (g**2).sum().backward()
    (h**2).sum().backward()
    np.testing.assert_allclose(host(a.grad), host(b.grad), rtol=1e-9, atol=1e-9)


def test_dropout_acts_in_training_only():
    # the oracle is the definition: with p = 1 nothing but the bias is left
    layer = nn.MultiheadAttention(4, 2, dropout=1.0)
    x = grilly.randn(3, 4)
    for need_weights in (False, True):
        y, _ = layer.train()(x, x, x, need_weights=need_weights)
        np.testing.assert_array_equal(host(y), np.broadcast_to(host(layer.out_proj.bias), (3, 4)))
        assert host(layer.eval()(x, x, x, need_weights=need_weights)[0]).any()


def test_first_values_are_as_wide_as_torchs():
    ours, theirs = (m.MultiheadAttention(256, 4, add_bias_kv=True) for m in (nn, torch.nn))
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert host(p).shape == tuple(q.shape)
        np.testing.assert_allclose(host(p).std(), host(q).std(), rtol=0.3, atol=1e-7, err_msg=name)


def test_errors_name_what_was_wrong():
    x = grilly.zeros((3, 2, 4))
    layer = nn.MultiheadAttention(4, 2)
    with pytest.raises(ShapeError, match="divisible"):
        nn.MultiheadAttention(5, 2)
    with pytest.raises(ValueError, match="dropout"):
        nn.MultiheadAttention(4, 2, dropout=-0.1)
    with pytest.raises(ShapeError, match="widths"):
        layer(x, x, grilly.zeros((3, 2, 5)))
    with pytest.raises(ShapeError, match="3 axes"):
        layer(x, x, grilly.zeros((3, 4)))
    with pytest.raises(ShapeError, match="attn_mask"):
        layer(x, x, x, attn_mask=np.zeros((2, 3), bool))
    with pytest.raises(ShapeError, match="key_padding_mask"):
        layer(x, x, x, key_padding_mask=np.zeros((3, 2), bool))
    with pytest.raises(DTypeError, match="boolean"):
        layer(x, x, x, attn_mask=np.zeros((3, 3), np.int32))
    with pytest.raises(ShapeError, match="broadcast"):
        layer(x, x, x, mask=np.zeros((2, 3), bool))
