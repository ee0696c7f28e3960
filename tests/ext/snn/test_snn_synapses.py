"""Containers, functional steps and synapses against NumPy loops; single steps against sequences; bad input."""

from __future__ import annotations

import numpy as np
import pytest

import grilly
from grilly import functional, nn
from grilly_core.errors import ShapeError
from grilly_core.gradcheck import gradcheck
from grilly_ext_snn.functional.nets import reset_net, set_step_mode

RNG = np.random.default_rng(0)
X = RNG.random((7, 2, 3))
SYNAPSES = {
    "filter": lambda: nn.SynapseFilter(3.0),
    "two filters": lambda: nn.DualTimescaleSynapse(2.0, 9.0, 0.6, 0.4),
    "short term": lambda: nn.STPSynapse(0.3, 5.0, 11.0),
    "delay": lambda: nn.Synapse(3, 4, delay=2),
    "no delay": lambda: nn.Synapse(3, 4, delay=0),
}


def in_numpy(name, x, module):
    """The formulas, step by step."""
    ys, fast, slow, u, r = [], 0.0, 0.0, 0.3, 1.0
    for t, now in enumerate(x):
        if name == "filter":
            fast = np.exp(-1 / 3.0) * fast + now
            ys.append(fast)
        elif name == "two filters":
            fast, slow = np.exp(-1 / 2.0) * fast + now, np.exp(-1 / 9.0) * slow + now
            ys.append(0.6 * fast + 0.4 * slow)
        elif name == "short term":
            u = u + (0.3 - u) / 5.0 + 0.3 * (1 - u) * now
            ys.append(now * u * r)
            r = r + (1 - r) / 11.0 - ys[-1]
        else:
            back = t - module.delay
            w, b = (p.detach().numpy() for p in module.linear.parameters())
            ys.append((x[back] if back >= 0 else np.zeros_like(now)) @ w.T + b)
    return np.stack(ys)


@pytest.mark.parametrize("name", SYNAPSES)
def test_synapses_are_their_formulas_in_sequences_steps_and_pieces(name):
    module = SYNAPSES[name]().to(dtype=grilly.float64)
    wanted = in_numpy(name, X, module)
    x = grilly.asarray(X, dtype="float64")
    set_step_mode(module, "m")
    np.testing.assert_allclose(module(x).detach().numpy(), wanted, rtol=1e-6)
    reset_net(module)
    pieces = grilly.concat([module(x[:1]), module(x[1:4]), module(x[4:])], axis=0)
    np.testing.assert_allclose(pieces.detach().numpy(), wanted, rtol=1e-6)
    reset_net(module)
    set_step_mode(module, "s")
    np.testing.assert_allclose(grilly.stack([module(s) for s in x]).detach().numpy(), wanted, rtol=1e-6)


def test_a_learnable_time_constant_gets_its_gradient_through_time():
    """Finite differences in float64, over two calls."""
    module = nn.SynapseFilter(3.0, learnable=True, step_mode="m").to(dtype=grilly.float64)
    weight = grilly.asarray(RNG.standard_normal(X.shape), dtype="float64")

    def loss(log_tau):
        module.reset()
        module.log_tau = nn.Parameter(log_tau.detach())
        with grilly.no_grad():
            return float(
                (
                    grilly.concat(
                        [module(grilly.asarray(p, dtype="float64")) for p in (X[:3], X[3:])], axis=0
                    )
                    * weight
                ).sum()
            )

    at, step = np.log(3.0), 1e-6
    numeric = (
        loss(grilly.asarray(at + step, dtype="float64")) - loss(grilly.asarray(at - step, dtype="float64"))
    ) / (2 * step)
    loss(grilly.asarray(at, dtype="float64"))
    module.reset()
    out = grilly.concat([module(grilly.asarray(p, dtype="float64")) for p in (X[:3], X[3:])], axis=0)
    (out * weight).sum().backward()
    assert abs(numeric) > 0.1
    np.testing.assert_allclose(module.log_tau.grad.numpy(), numeric, rtol=1e-5)
    both = nn.DualTimescaleSynapse(learnable=True, step_mode="m")
    both(grilly.asarray(X.astype("f4"))).sum().backward()
    assert all(p.grad is not None and float(p.grad) != 0 for p in both.parameters())
    assert len(list(both.parameters())) == 4 and not list(nn.DualTimescaleSynapse().parameters())
    stp = nn.STPSynapse(0.3, step_mode="m")

    def fresh(x):
        stp.reset()
        return stp(x)

    assert gradcheck(fresh, (grilly.asarray(X, dtype="float64").requires_grad_(),))


def test_steps_as_functions_are_those_of_the_nodes():
    x, v = RNG.random((3, 4)), RNG.random((3, 4)) * 0.9
    for decay in (False, True):
        spike, after = functional.lif_step(x, v, tau=3.0, v_reset=0.1, decay_input=decay)
        h = v + (x - (v - 0.1)) / 3.0 if decay else v - (v - 0.1) / 3.0 + x
        np.testing.assert_array_equal(spike.numpy(), h >= 1)
        np.testing.assert_allclose(after.numpy(), np.where(h >= 1, 0.1, h), rtol=1e-6)
    spike, after = functional.if_step(x, 0.5, v_reset=None)
    np.testing.assert_allclose(after.numpy(), x + 0.5 - (x + 0.5 >= 1), rtol=1e-6)
    given = grilly.asarray(v).requires_grad_()
    functional.lif_step(x, given, surrogate_fn=nn.FastSigmoid())[0].sum().backward()
    assert given.grad.numpy().all()
    with pytest.raises(ValueError, match="tau"):
        functional.lif_step(x, v, tau=0.2)


def test_containers():
    grilly.manual_seed(0)
    linear, node = nn.Linear(3, 5), nn.LIFNode(step_mode="m")
    x = grilly.asarray(X.astype("f4"))
    wanted = node(linear(x)).detach().numpy()
    container = nn.MultiStepContainer(linear, node)
    assert node.step_mode == "s"
    whole = nn.Sequential(container, nn.LIFNode())
    set_step_mode(whole, "m")
    assert node.step_mode == "s" and whole[1].step_mode == "m"
    reset_net(whole)
    np.testing.assert_array_equal(container(x).detach().numpy(), wanted)
    batch = nn.SeqToANNContainer(nn.Linear(3, 5), nn.BatchNorm1d(5))
    images = batch(x)
    np.testing.assert_allclose(images.mean((0, 1)).detach().numpy(), 0, atol=1e-5)
    assert images.shape == (7, 2, 5)
    with pytest.raises(ValueError, match="keeps state"):
        nn.SeqToANNContainer(nn.Linear(3, 5), nn.LIFNode())
    with pytest.raises(ValueError, match="keeps state"):
        functional.seq_to_ann_forward(x, nn.IFNode())
    with pytest.raises(ShapeError, match="time as the first axis"):
        functional.multi_step_forward(grilly.ones(3), nn.IFNode())
    loop = nn.ElementWiseRecurrentContainer(
        nn.IFNode(v_threshold=0.9), lambda a, b: a + 0.5 * b, step_mode="m"
    )
    v, y, expected = 0.0, 0.0, []
    for now in X:
        h = v + now + 0.5 * y
        y = (h >= 0.9).astype(float)
        v = np.where(y > 0, 0.0, h)
        expected.append(y)
    np.testing.assert_array_equal(loop(grilly.asarray(X)).numpy(), expected)


def test_maps_round_spiking_layers():
    x = X.astype("f4")
    readout = nn.SNNReadout(3, 2)
    w, b = (p.detach().numpy() for p in readout.parameters())
    np.testing.assert_allclose(readout(np.swapaxes(x, 0, 1)).detach().numpy(), x.mean(0) @ w.T + b, rtol=1e-5)
    soft = np.exp(x / 0.5)
    np.testing.assert_allclose(
        nn.SNNSoftmax(temperature=0.5)(x).detach().numpy(), soft / soft.sum(-1, keepdims=True), rtol=1e-5
    )
    rms = np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(nn.SNNRMSNorm(3)(x).detach().numpy(), x / rms, rtol=1e-5)
    assert [p.shape for p in nn.SNNMatMul(3, 2).parameters()] == [(2, 3)]
    for wrong, message in (
        (lambda: readout(x[0]), "B, T"), (lambda: nn.SNNSoftmax(temperature=0.0), "temperature"),
        (lambda: nn.Synapse(3, 2, delay=-1), "delay"), (lambda: nn.STPSynapse(U=2.0), "U must be"),
        (lambda: nn.STPSynapse(tau_d=0.5), "tau_d"), (lambda: nn.SynapseFilter(tau=-1.0), "tau"),
        (lambda: nn.SynapseFilter(step_mode="x"), "step_mode"),
    ):  # fmt: skip
        with pytest.raises((ShapeError, ValueError), match=message):
            wrong()


def test_snn_compute_is_a_loop_of_euler_steps_and_silent_input_stays_silent():
    x = RNG.standard_normal(30) * 2
    compute = nn.SNNCompute(40, use_vulkan=False)
    found = compute.process(x, spike_train=True)
    v, train = np.zeros(40), []
    drive = np.concatenate([np.abs(x), np.zeros(10)]) * 5.0
    for _ in range(50):
        v = v + 0.01 * (drive - v) / 5.0
        train.append(v >= 0.5)
        v = np.where(v >= 0.5, 0.0, v)
    np.testing.assert_array_equal(found["spike_train"], train)
    assert found["spike_activity"] == np.sum(train) > 0
    assert found["firing_rate"] == pytest.approx(np.mean(train))
    assert compute.process(np.zeros(1000))["spike_activity"] == 0
    assert compute(grilly.ones((2, 40))).shape == (2, 40)
