"""Faults that neighbours had, as tests: losses, normalisation, convolution, pooling, embeddings."""

from __future__ import annotations

import math

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import functional, nn, optim
from grilly_core.errors import DTypeError, ShapeError


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_with_every_target_ignored(reduction):
    """NN-05: the mean of nothing is NaN, the sum 0; the gradient is zero either way."""
    logits = grilly.tensor([[1.0, 2.0, 3.0], [1.0, 0.0, -1.0]], requires_grad=True)
    loss = functional.cross_entropy(logits, np.array([-100, -100]), reduction=reduction)
    if reduction == "mean":
        assert math.isnan(loss.item())
    else:
        assert loss.tolist() == (0.0 if reduction == "sum" else [0.0, 0.0])
    loss.sum().backward()
    assert logits.grad.tolist() == [[0.0] * 3] * 2


def test_cross_entropy_divides_by_the_kept_targets():
    """NN-05: with some targets ignored the mean divides by those that are kept."""
    logits = [[1.0, 2.0, 3.0], [1.0, 0.0, -1.0]]
    loss = functional.cross_entropy(grilly.tensor(logits), np.array([0, -100]))
    assert loss.item() == pytest.approx(2.4076059)


def test_cross_entropy_second_derivative_of_an_ignored_batch_is_finite():
    """NN-05: differentiating through the body does not bring the NaN back."""
    logits = grilly.tensor([[1.0, 2.0]], requires_grad=True)
    loss = functional.cross_entropy(logits, np.array([-100]))
    (g,) = grilly.grad(loss, logits, create_graph=True)
    assert g.tolist() == [[0.0, 0.0]]


def test_cross_entropy_is_exact_for_large_logits_and_checks_its_targets():
    logits = grilly.tensor([[1000.0, 0.0]])
    assert functional.cross_entropy(logits, np.array([1])).item() == 1000.0
    with pytest.raises(IndexError, match="2"):
        functional.cross_entropy(logits, np.array([2]))
    with pytest.raises(IndexError):
        functional.nll_loss(logits, np.array([-3]))
    with pytest.raises(DTypeError, match="integer"):
        functional.nll_loss(logits, np.array([0.5]))


def test_batch_norm_uses_the_biased_variance_and_tracks_the_unbiased():
    """NN-07: which variance where, and a batch of one."""
    norm = nn.BatchNorm1d(1)
    y = norm(grilly.tensor([[1.0], [3.0]]))
    np.testing.assert_allclose(y.detach().numpy(), [[-1.0], [1.0]], atol=1e-4)
    assert norm.running_mean.item() == pytest.approx(0.2)
    assert norm.running_var.item() == pytest.approx(1.1)
    assert norm.num_batches_tracked.item() == 1
    one = nn.BatchNorm1d(2)
    with pytest.raises(ValueError, match="more than one value"):
        one(grilly.ones((1, 2)))
    assert one.num_batches_tracked.item() == 0  # refused before anything was counted
    np.testing.assert_allclose(one.eval()(grilly.ones((1, 2))).detach().numpy(), [[0.999995] * 2], rtol=1e-6)


def test_batch_norm_without_momentum_averages_all_batches():
    """NN-07: momentum=None is the cumulative mean."""
    norm = nn.BatchNorm1d(1, momentum=None)
    norm(grilly.tensor([[1.0], [3.0]])), norm(grilly.tensor([[5.0], [9.0]]))
    assert (norm.running_mean.item(), norm.running_var.item()) == (4.5, 5.0)


def test_batch_norm_of_large_close_values_keeps_its_variance():
    x = np.array([[10000.0], [10001.0], [10002.0]], np.float32)
    y = nn.BatchNorm1d(1, eps=0.0)(grilly.asarray(x)).detach().numpy()
    np.testing.assert_allclose(y[:, 0], [-1.2247449, 0.0, 1.2247449], rtol=1e-4, atol=1e-4)


def test_grouped_and_dilated_convolution():
    """NN-08: by hand, not against another of our paths."""
    x = grilly.arange(36, dtype="float32").reshape(1, 4, 3, 3)
    w = grilly.arange(32, dtype="float32").reshape(4, 2, 2, 2) / 10
    y = functional.conv2d(x, w, groups=2)
    np.testing.assert_allclose(y[0, :, 0, 0].numpy(), [26.8, 68.4, 390.8, 547.6], rtol=1e-6)
    assert y.sum().item() == pytest.approx(4531.2)
    dilated = functional.conv2d(x[:, :2], w, dilation=2)
    np.testing.assert_allclose(dilated.numpy().reshape(-1), [33.8, 88.2, 142.6, 197.0], rtol=1e-6)


def test_pooling_with_ceil_mode_and_padding():
    """NN-11: no window starts in the trailing padding."""
    a = grilly.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]])
    assert functional.max_pool1d(a, 2, 2, 1, ceil_mode=True).tolist() == [[1.0, 3.0, 5.0]]
    assert functional.avg_pool1d(a, 2, 2, ceil_mode=True).tolist() == [[1.5, 3.5, 5.0]]
    assert functional.max_pool2d(grilly.ones((1, 6, 7)), 1, 2, ceil_mode=True).shape == (1, 3, 4)


def test_average_pooling_and_the_padding_count():
    """NN-12: padding counts in the divisor, or does not."""
    a = grilly.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]])
    assert functional.avg_pool1d(a, 2, 2, 1).tolist() == [[0.5, 2.5, 4.5]]
    assert functional.avg_pool1d(a, 2, 2, 1, count_include_pad=False).tolist() == [[1.0, 2.5, 4.5]]


def test_max_pool_of_minus_infinity_stays_inside_the_input():
    x = grilly.full((1, 3), -math.inf)
    y, index = functional.max_pool1d(x, 2, 1, 1, return_indices=True)
    assert y.tolist() == [[-math.inf] * 4] and all(0 <= i < 3 for i in index.tolist()[0])


def test_tied_embedding_and_output_head():
    """AUT-07: the gather gradient and the matmul gradient of a shared matrix add up."""
    table = nn.Parameter(grilly.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    (functional.embedding([0], table) @ table.T).sum().backward()
    assert table.grad.tolist() == [[3.0, 2.0], [1.0, 0.0], [1.0, 0.0]]


def test_a_parameter_under_two_names_moves_once():
    """AUT-07: one parameter, one step."""
    model = nn.Module()
    model.a = model.b = nn.Parameter(grilly.ones(2))
    assert len(list(model.parameters())) == 1
    opt = optim.SGD(model.parameters(), lr=0.1)
    (model.a * 2.0).sum().backward()
    opt.step()
    np.testing.assert_allclose(model.a.detach().numpy(), [0.8, 0.8], rtol=1e-6)


@pytest.mark.parametrize("padding_idx", [0, -4])
def test_embedding_gradient_counts_duplicates_and_skips_padding(padding_idx):
    """AUT-10: duplicates add up; the padding row gets nothing and stays zero under Adam."""
    layer = nn.Embedding(4, 2, padding_idx=padding_idx)
    layer(np.array([[0, 1, 1], [3, 1, 0]])).sum().backward()
    assert layer.weight.grad.tolist() == [[0.0, 0.0], [3.0, 3.0], [0.0, 0.0], [1.0, 1.0]]
    optim.Adam(layer.parameters(), lr=0.1).step()
    assert layer.weight[0].tolist() == [0.0, 0.0]


def test_embedding_refuses_ids_out_of_range():
    layer = nn.Embedding(4, 2)
    for ids in ([4], [-1]):
        with pytest.raises(IndexError, match="4"):
            layer(np.array(ids))
    with pytest.raises(TypeError, match="integers"):
        layer(grilly.ones(2))


def test_embedding_shortens_only_the_rows_it_looks_up():
    layer = nn.Embedding.from_pretrained(grilly.tensor([[3.0, 4.0], [3.0, 4.0]]), freeze=False, max_norm=1.0)
    assert layer.max_norm == 1.0
    layer(np.array([0, 0]))
    np.testing.assert_allclose(layer.weight.detach().numpy(), [[0.6, 0.8], [3.0, 4.0]], rtol=1e-5)


def test_dropout_masks():
    grilly.manual_seed(0)
    x = grilly.ones(10000, requires_grad=True)
    y = functional.dropout(x, 0.25)
    y.sum().backward()
    values = set(np.unique(y.detach().numpy()).tolist())
    assert values == {0.0, np.float32(1 / 0.75).item()}
    assert abs((y.detach().numpy() == 0).mean() - 0.25) < 0.02
    assert (x.grad.numpy() == y.detach().numpy()).all()  # the same mask
    assert functional.dropout(x, 0.25).tolist() != y.tolist()  # the next one differs
    infinite = grilly.full((3,), math.inf)
    assert functional.dropout(infinite, 1.0).tolist() == [0.0] * 3
    assert functional.dropout(infinite, 1.0, training=False) is infinite
    a = functional.dropout(x, 0.5, rng=grilly.Generator(3)).tolist()
    assert functional.dropout(x, 0.5, rng=grilly.Generator(3)).tolist() == a


def test_activations_in_the_far_tails():
    far = grilly.tensor([-1000.0, 1000.0], requires_grad=True)
    for name, want in {
        "sigmoid": [0.0, 1.0], "softplus": [0.0, 1000.0], "logsigmoid": [-1000.0, 0.0], "elu": [-1.0, 1000.0],
        "gelu": [0.0, 1000.0], "silu": [0.0, 1000.0], "mish": [0.0, 1000.0], "selu": [-1.7580993, 1050.7010],
    }.items():  # fmt: skip
        far.grad = None
        y = getattr(functional, name)(far)
        np.testing.assert_allclose(y.detach().numpy(), want, rtol=1e-6, err_msg=name)
        y.sum().backward()
        assert np.isfinite(far.grad.numpy()).all(), name


def test_activations_pass_nan_on():
    for name in ("relu", "relu6", "hardtanh", "gelu", "silu", "sigmoid", "leaky_relu", "elu", "hardswish"):
        assert math.isnan(getattr(functional, name)(math.nan).item()), name


def test_inplace_writes_to_the_input():
    x = grilly.tensor([-1.0, 1.0])
    assert nn.ReLU(inplace=True)(x) is x and x.tolist() == [0.0, 1.0]
    with pytest.raises(TypeError, match="tensor to write"):
        functional.relu([1.0], inplace=True)


def test_softmax_of_nothing_but_minus_infinity_is_nan():
    """NN-01: plain softmax keeps the IEEE answer; attention has its own."""
    assert all(math.isnan(v) for v in functional.softmax(grilly.tensor([-math.inf, -math.inf])).tolist())


def test_padding_modes_refuse_what_they_cannot_do():
    with pytest.raises(ShapeError, match="0 to 2"):
        functional.pad(grilly.ones(3), (3, 0), "reflect")
    with pytest.raises(ValueError, match="value"):
        functional.pad(grilly.ones(3), (1, 0), "circular", value=1.0)


def test_losses_go_back_through_a_rerun():
    logits = np.array([[2.0, 0.0]], np.float32)
    fn = nn.CrossEntropyLoss()
    loss = fn(logits, np.array([0]))
    g = fn.backward(np.ones_like(loss.detach().numpy()), logits, np.array([0]))
    p = 1 / (1 + math.exp(-2))
    np.testing.assert_allclose(g.numpy(), [[p - 1, 1 - p]], rtol=1e-5)
    none = nn.MSELoss("none")
    assert none.backward(2.0, np.array([1.0, 2.0]), np.array([0.0, 0.0])).tolist() == [4.0, 8.0]


def test_roswish_and_gcu_follow_their_formulas():
    x = np.linspace(-2, 2, 9, dtype=np.float32)
    y = nn.RoSwish(0.5, 2.0)(grilly.asarray(x)).detach().numpy()
    np.testing.assert_allclose(y, (x + 0.5) / (1 + np.exp(-2.0 * x)) - 0.25, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(functional.gcu(x).numpy(), x * np.cos(x), rtol=1e-5)
    assert len(list(nn.RoSwish(learnable=False).parameters())) == 0
    assert set(nn.RoSwish(learnable=False).state_dict()) == {"alpha", "beta"}


def test_one_hot():
    assert functional.one_hot(np.array([[1], [0]]), 3).tolist() == [[[0, 1, 0]], [[1, 0, 0]]]
    with pytest.raises(IndexError, match="3"):
        functional.one_hot(np.array([3]), 3)
