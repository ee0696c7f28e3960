"""Plasticity against the closed forms of the papers, a spike-by-spike loop in NumPy, and PCA by NumPy's SVD."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grilly
from grilly_core.errors import ShapeError
from grilly_ext_snn.functional import plasticity
from grilly_ext_snn.nn.plasticity import HebbianLayer, OjaRule, SangerRule, STDPLayer
from grilly_ext_snn.ops import plasticity as ops

DECAY = math.exp(-1 / 20)


def pair(pre_at, post_at, steps=10, **options):
    pre, post = np.zeros((1, steps, 1)), np.zeros((1, steps, 1))
    pre[0, pre_at], post[0, post_at] = 1, 1
    options = {"lr_potentiation": 0.01, "lr_depression": 0.012, "trace_decay": DECAY} | options
    return plasticity.stdp_learning(pre, post, np.zeros((1, 1)), **options).weights.item()


def test_snn_09_the_order_of_a_pair_decides_the_sign():
    assert pair(0, 3) == pytest.approx(0.00860708, rel=1e-5)
    assert pair(3, 0) == pytest.approx(-0.01032850, rel=1e-5)
    assert pair(5, 5) == pytest.approx(0.01 - 0.012, rel=1e-5)
    assert pair(5, 5, coincident=False) == 0.0
    assert pair(0, 3, coincident=False) == pytest.approx(0.00860708, rel=1e-5)


def test_snn_11_every_pair_or_the_nearest():
    assert pair([0, 5], 7) == pytest.approx(0.01609526, rel=1e-5)
    assert pair([0, 5], 7, pairing="nearest") == pytest.approx(0.00904837, rel=1e-5)


def test_the_window_is_two_exponentials():
    times, changes = plasticity.stdp_window(0.02, 0.01, 15.0, 30.0, reach=40)
    wanted = np.where(times > 0, 0.02 * np.exp(-times / 15.0), -0.01 * np.exp(times / 30.0))
    wanted[times == 0] = 0.01
    np.testing.assert_allclose(changes, wanted, rtol=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 999), nearest=st.booleans(), coincident=st.booleans(), bounded=st.booleans(),
    batch=st.integers(1, 3),
)  # fmt: skip
def test_a_loop_over_spikes_agrees(seed, nearest, coincident, bounded, batch):
    rng = np.random.default_rng(seed)
    pre, post = (rng.random((batch, 7, n)) < 0.4 for n in (3, 2))
    w = rng.random((2, 3))
    low, high = (0.2, 0.8) if bounded else (None, None)
    state = plasticity.stdp_learning(
        pre.astype("f8"), post.astype("f8"), grilly.asarray(w, dtype="float64"), lr_potentiation=0.1,
        lr_depression=0.07, trace_decay=(0.9, 0.8), pairing="nearest" if nearest else "all",
        coincident=coincident, w_min=low, w_max=high,
    )  # fmt: skip
    np.testing.assert_allclose(
        state.weights.numpy(), _by_spikes(pre, post, w, nearest, coincident, low, high), rtol=1e-6, atol=1e-7
    )


def _by_spikes(pre, post, w, nearest, coincident, low, high):
    """For each spike, sum over the earlier spikes of the other side."""
    w, (batch, steps, _) = w.copy(), pre.shape

    def pairs(spikes, t, decay):
        times = [s for s in range(t + coincident) if spikes[s]]
        return sum(decay ** (t - s) for s in (times[-1:] if nearest else times))

    for t in range(steps):
        change = np.zeros_like(w)
        for b in range(batch):
            for o, i in np.ndindex(*w.shape):
                if post[b, t, o]:
                    change[o, i] += 0.1 * pairs(pre[b, :, i], t, 0.9)
                if pre[b, t, i]:
                    change[o, i] -= 0.07 * pairs(post[b, :, o], t, 0.8)
        w += change / batch
        w = np.clip(w, low, high) if low is not None else w
    return w


def test_triplets_follow_pfister_and_gerstner():
    """Their protocol of triplets post-pre-post and pre-post-pre, summed spike by spike as in the paper."""
    tau = {"plus": 16.8, "x": 101.0, "minus": 33.7, "y": 125.0}
    a2p, a2m, a3p, a3m = 0.1, 0.2, 0.3, 0.4
    decays = tuple(math.exp(-1 / tau[k]) for k in ("plus", "x", "minus", "y"))
    pre_at, post_at = [3, 20, 26], [8, 22, 40]
    wanted = 0.0
    for t in range(50):
        r1, o1 = (
            sum(math.exp(-(t - s) / tau[k]) for s in at if s <= t)
            for at, k in ((pre_at, "plus"), (post_at, "minus"))
        )
        r2, o2 = (
            sum(math.exp(-(t - s) / tau[k]) for s in at if s < t) for at, k in ((pre_at, "x"), (post_at, "y"))
        )
        wanted += (t in post_at) * r1 * (a2p + a3p * o2) - (t in pre_at) * o1 * (a2m + a3m * r2)
    pre, post = np.zeros((50, 1, 1)), np.zeros((50, 1, 1))
    pre[pre_at], post[post_at] = 1, 1
    zeros = [grilly.zeros((1, 1), dtype="float64")] * 5
    made = ops.triplet_stdp(
        grilly.asarray(pre, dtype="float64"), grilly.asarray(post, dtype="float64"), *zeros, decays=decays,
        a2_plus=a2p, a2_minus=a2m, a3_plus=a3p, a3_minus=a3m,
    )  # fmt: skip
    assert made[0].item() == pytest.approx(wanted, rel=1e-9)


def test_a_late_reward_reaches_eligible_synapses():
    """Izhikevich 2007: the pair at step 2 is remembered until the reward at step 12, one trial of two is rewarded."""
    pre, post = np.zeros((15, 2, 1), "f4"), np.zeros((15, 2, 1), "f4")
    pre[0], post[2] = 1, 1
    reward = np.zeros((15, 2), "f4")
    reward[12, 0] = 1.0
    zeros = grilly.zeros((1, 1)), grilly.zeros((2, 1)), grilly.zeros((2, 1)), grilly.zeros((2, 1, 1))
    w, *_ = ops.reward_stdp(pre, post, reward, *zeros, decay_pre=0.9, decay_eligibility=0.95, a_plus=0.1)
    assert w.item() == pytest.approx(0.5 * 0.1 * 0.9**2 * 0.95**10, rel=1e-5)
    unrewarded, *_ = ops.reward_stdp(pre, post, reward * 0, *zeros)
    assert unrewarded.item() == 0.0


def test_traces_go_on_between_calls():
    rng = np.random.default_rng(0)
    pre, post = (rng.random((2, 8, n)) < 0.4 for n in (3, 2))
    whole, halves = (STDPLayer(3, 2, rng=grilly.Generator(1)) for _ in range(2))
    whole.update_weights(pre.astype("f4"), post.astype("f4"))
    for part in (slice(0, 3), slice(3, 8)):
        halves.update_weights(pre[:, part].astype("f4"), post[:, part].astype("f4"))
    np.testing.assert_array_equal(whole.weight.numpy(), halves.weight.numpy())
    with pytest.raises(ValueError, match="reset"):
        whole.update_weights(np.ones((3, 2, 3), "f4"), np.ones((3, 2, 2), "f4"))
    whole.reset()
    whole.update_weights(np.ones((3, 2, 3), "f4"), np.ones((3, 2, 2), "f4"))
    assert whole.weight.numpy().min() >= 0 and whole.weight.numpy().max() <= 1
    assert list(whole.state_dict()) == ["weight"]
    assert not list(whole.parameters())


def test_hebb_is_the_mean_product():
    rng = np.random.default_rng(0)
    pre, post, w = rng.random((2, 5, 3)), rng.random((2, 5, 4)), rng.random((4, 3))
    wanted = 0.9 * w + 0.3 * np.einsum("bto,bti->oi", post, pre) / 10
    np.testing.assert_allclose(plasticity.hebbian_learning(pre, post, w, 0.3, 0.1).numpy(), wanted, rtol=1e-5)
    layer = HebbianLayer(3, 4)
    np.testing.assert_allclose(
        plasticity.hebbian_learning(pre, post, layer.weight).numpy(), layer.update_weights(pre, post).numpy()
    )


def test_oja_and_sanger_find_principal_components():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    data = rng.standard_normal((4000, 8)) * np.array([3, 2, 1.2, 0.5, 0.4, 0.3, 0.2, 0.1]) @ basis
    directions = np.linalg.svd(data - data.mean(0), full_matrices=False)[2]
    oja, sanger = (
        OjaRule(8, 2, 0.01, rng=grilly.Generator(1)),
        SangerRule(8, 3, 0.01, rng=grilly.Generator(2)),
    )
    for _ in range(30):
        for batch in np.split(rng.permutation(data).astype("f4"), 40):
            oja.learn(batch), sanger.learn(batch)
    for row in oja.weight.numpy():
        assert abs(row @ directions[0]) > 0.99 and np.linalg.norm(row) == pytest.approx(1, abs=0.02)
    for j, row in enumerate(sanger.weight.numpy()):
        assert abs(row @ directions[j]) / np.linalg.norm(row) > 0.99, j


def test_homeostasis_moves_rates_to_the_target():
    w = grilly.ones((2, 3))
    made = ops.homeostasis(w, grilly.tensor([0.5, 0.0]), target=0.1, learning_rate=0.5)
    np.testing.assert_allclose(made.numpy()[:, 0], [1 + 0.5 * (0.1 - 0.5), 1 + 0.5 * 0.1], rtol=1e-6)


def test_filters_and_short_term_plasticity_are_their_recurrences():
    """Tsodyks and Markram: the release is u after the spike times r before it; gradients through time by a loop."""
    from grilly_ext_snn.ops import filters

    rng = np.random.default_rng(0)
    x = (rng.random((9, 4)) < 0.5).astype("f8")
    u, r, wanted = np.full(4, 0.2), np.ones(4), []
    for row in x:
        u = u + 0.05 * (0.2 - u) + 0.2 * (1 - u) * row
        wanted.append(row * u * r)
        r = r + 0.005 * (1 - r) - wanted[-1]
    made, *_ = filters.short_term_plasticity(
        grilly.asarray(x, dtype="float64"), grilly.full((4,), 0.2, dtype="float64"), grilly.ones((4,), dtype="float64")
    )  # fmt: skip
    np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-12)
    decay = grilly.tensor(0.7, dtype="float64", requires_grad=True)
    y, _ = filters.synapse_filter(
        grilly.asarray(x, dtype="float64"), grilly.zeros((4,), dtype="float64"), decay
    )
    y.sum().backward()
    slope = sum((t - s) * 0.7 ** (t - s - 1) * x[s].sum() for t in range(9) for s in range(t))
    assert decay.grad.item() == pytest.approx(slope, rel=1e-9)


def test_bad_input():
    with pytest.raises(ShapeError, match="time as the first axis"):
        plasticity.hebbian_learning(np.ones((2, 3)), np.ones((2, 3)), np.ones((3, 3)))
    with pytest.raises(ValueError, match="pairing"):
        pair(0, 1, pairing="last")
    with pytest.raises(ValueError, match="trace_decay"):
        pair(0, 1, trace_decay=1.0)
    with pytest.raises(ValueError, match="w_min"):
        STDPLayer(2, 2, w_min=1.0, w_max=0.0)
    with pytest.raises(ValueError, match="tau_plus"):
        STDPLayer(2, 2).update_weights(np.ones((1, 2, 2)), np.ones((1, 2, 2)), tau_plus=-1.0)
    with pytest.raises(ShapeError, match="in_features"):
        OjaRule(0, 1)
