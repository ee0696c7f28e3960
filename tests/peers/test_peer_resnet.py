"""A small ResNet, written once for both libraries: PyTorch's weights give its logits, statistics and loss curve."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.peers.peer_modules import host, need  # noqa: E402

import grilly  # noqa: E402

CLASSES = 5
DEVICES = {"cpu": "cpu-float32", "vulkan:0": "vulkan-float32"}


def resnet(library):
    """The model with a library's modules and the names of torchvision's."""
    nn = library.nn

    class BasicBlock(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.downsample = None
            if stride != 1 or inputs != outputs:
                self.downsample = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            y = y + (x if self.downsample is None else self.downsample(x))
            return self.relu(y)

    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        BasicBlock(8, 8, 1), BasicBlock(8, 16, 2), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(16, CLASSES),
    )  # fmt: skip


def pair(device):
    torch.manual_seed(0)
    theirs, ours = resnet(torch), resnet(grilly)
    assert ours.load_state_dict(theirs.state_dict()) == ([], [])
    assert list(ours.state_dict()) == list(theirs.state_dict())
    return ours.to(device), theirs


def images(count):
    """Batches of noise on one of five patterns, and which."""
    rng = np.random.default_rng(2)
    patterns = rng.normal(size=(CLASSES, 3, 16, 16))
    for _ in range(count):
        labels = rng.integers(0, CLASSES, 8)
        yield (patterns[labels] + rng.normal(size=(8, 3, 16, 16))).astype(np.float32), labels


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("training", [False, True])
def test_logits_equal_torch(device, training):
    need(DEVICES[device])
    ours, theirs = pair(device)
    ours.train(training), theirs.train(training)
    ((x, _),) = images(1)
    a, b = ours(grilly.asarray(x, device=device)), theirs(torch.from_numpy(x))
    np.testing.assert_allclose(host(a), host(b), rtol=0, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_loss_curve_and_statistics_equal_torch(device):
    need(DEVICES[device])
    ours, theirs = pair(device)
    mine = grilly.optim.SGD(ours.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    other = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    curves = []
    for x, labels in images(20):
        a = grilly.nn.functional.cross_entropy(
            ours(grilly.asarray(x, device=device)), grilly.asarray(labels, device=device)
        )
        b = torch.nn.functional.cross_entropy(theirs(torch.from_numpy(x)), torch.from_numpy(labels))
        for loss, optimizer in ((a, mine), (b, other)):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        curves.append((a.item(), b.item()))
    got, want = np.array(curves).T
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
    assert want[-5:].mean() < 0.5 * want[0]  # there was something to learn
    found = ours.state_dict()
    for name, tensor in theirs.state_dict().items():
        np.testing.assert_allclose(host(found[name]), host(tensor), rtol=0, atol=1e-2, err_msg=name)
