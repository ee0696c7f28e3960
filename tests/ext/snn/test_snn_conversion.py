"""A converted network against the network that it was: accuracies, outputs and scales by hand."""

from __future__ import annotations

import numpy as np
import pytest

import grilly
from grilly import nn
from grilly_ext_snn.conversion import Converter
from grilly_ext_snn.demo.digits import load_digits

RNG = np.random.default_rng(0)


def close(spiking, net, x, tolerance):
    a, b = spiking(x).detach().numpy(), net(x).detach().numpy()
    assert np.abs(a - b).max() < tolerance * np.abs(b).max()


def test_the_digits_network_keeps_its_accuracy_within_two_points_at_64_steps():
    """The network of `grilly demo digits`, trained for a few epochs."""
    from grilly.demos.digits import build_model
    from grilly_core.training import Trainer

    grilly.manual_seed(0)
    train, test = ([part.images.reshape(-1, 1, 8, 8), part.labels] for part in load_digits(0))
    net = build_model()
    loader = grilly.data.DataLoader(
        grilly.data.TensorDataset(*train), batch_size=64, shuffle=True, generator=0
    )
    optimizer = grilly.optim.AdamW(net.parameters(), lr=6e-3)
    Trainer(net, optimizer, grilly.functional.cross_entropy, progress=False).fit(loader, epochs=4)
    net.eval()
    x = grilly.asarray(test[0])
    shares = {}
    for mode in ("max", "99.9%"):
        spiking = Converter(mode, T=64).convert(net, loader)
        with grilly.no_grad():
            shares[mode] = float((spiking(x).argmax(1).numpy() == test[1]).mean())
            before = float((net(x).argmax(1).numpy() == test[1]).mean())
    assert before > 0.95
    assert all(share >= before - 0.02 for share in shares.values()), (before, shares)
    report = spiking.report()
    assert "0 (Conv2d)" in report and "7 (Linear)" in report
    assert spiking.scales[-1].after == 1.0


def test_outputs_come_closer_with_more_steps_and_scales_are_the_largest_activations():
    grilly.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Sequential(nn.Dropout(0.5), nn.Linear(12, 9)), nn.ReLU(),
                        nn.Linear(9, 4)).eval()  # fmt: skip
    x = RNG.random((32, 6)).astype(np.float32)
    errors = []
    for steps in (16, 64, 256):
        spiking = Converter(T=steps).convert(net, [(x, None)])
        errors.append(np.abs((spiking(x) - net(x)).detach().numpy()).max())
    assert errors[2] < errors[1] < errors[0] and errors[2] < 0.02
    w, b = net[0].weight.detach().numpy(), net[0].bias.detach().numpy()
    first = np.maximum(x @ w.T + b, 0)
    assert spiking.scales[0].after == pytest.approx(first.max(), rel=1e-5)
    share = Converter(0.5).convert(net, [x]).scales[0].after
    assert share == pytest.approx(first.max() / 2, rel=1e-5)
    percentile = Converter("90%").convert(net, [x]).scales[0].after
    assert percentile == pytest.approx(np.percentile(first, 90), rel=1e-5)
    assert Converter().convert(net).scales[0].after == 1.0
    np.testing.assert_array_equal(net[0].weight.detach().numpy(), w)


def test_batch_normalisation_is_fused_exactly_and_pooling_counts():
    """The fused copy equals the network in evaluation mode; max pooling passes the count of the most active neuron."""
    grilly.manual_seed(2)
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
        nn.Linear(36, 5), nn.BatchNorm1d(5),
    )  # fmt: skip
    x = RNG.random((16, 2, 6, 6)).astype(np.float32)
    for _ in range(3):
        net(x + RNG.random())
    net.eval()
    fused = Converter().fuse_conv_bn(net)
    assert len(list(fused.children())) == 5
    np.testing.assert_allclose(fused(x).detach().numpy(), net(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    close(Converter(T=512).convert(net, [x]), net, x, 0.02)


def test_what_cannot_be_converted_is_said():
    class Own(nn.Module):
        def forward(self, x):
            return x

    x = grilly.ones((2, 4))
    for model, data, message in (
        (Own(), None, "must be a Sequential"),
        (nn.Sequential(nn.Linear(4, 4), nn.GELU()), [x], r"1 \(GELU\) has no spiking form"),
        (nn.Sequential(nn.ReLU(), nn.BatchNorm1d(4)), [x], "right behind a Linear or Conv"),
        (nn.Sequential(nn.Linear(4, 4), nn.ReLU()), [], "no activation behind 1"),
    ):
        with pytest.raises(ValueError, match=message):
            Converter().convert(model, data)
    with pytest.raises(ValueError, match="fuse_flag=True"):
        Converter(fuse_flag=False).convert(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    for mode in ("120%", 0.0, "mean", True):
        with pytest.raises(ValueError, match="mode is 'max'"):
            Converter(mode)
    with pytest.raises(ValueError, match="steps"):
        Converter(T=0)
