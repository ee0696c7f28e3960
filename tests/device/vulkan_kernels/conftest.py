"""Run single ops on the Vulkan device, without falling back, and read the results."""

from __future__ import annotations

import numpy as np
import pytest

import grilly_core
from grilly_core import config, dtypes, registry
from grilly_core.device import open_context
from grilly_core.errors import GrillyError
from grilly_core.tensor import Tensor


def why_none() -> str | None:
    try:
        from grilly_backend_vulkan import backend

        backend.devices()
    except (GrillyError, ImportError) as error:
        return str(error)
    return None


class Runner:
    """``vk("add", x, y)`` runs an op on arrays; ``vk.put`` makes tensors, to be laid out differently."""

    def __init__(self, device):
        self.device = device
        self.context = open_context(device)

    def put(self, array):
        array = np.asarray(array)
        return Tensor(self.context.upload(array, dtypes.from_numpy(array.dtype)))

    def given(self, x):
        if isinstance(x, list):
            return [self.given(t) for t in x]
        return self.put(x) if isinstance(x, np.ndarray | np.generic) else x

    def __call__(self, name, *inputs, **attrs):
        with config.fallback("error"), grilly_core.Device(self.device), config.overriding(grad=True):
            result = registry.get(name)(*map(self.given, inputs), **attrs)
        if isinstance(result, tuple):
            return tuple(np.array(t.detach().numpy()) for t in result)
        return np.array(result.detach().numpy())


@pytest.fixture(scope="session")
def vk():
    reason = why_none()
    if reason:
        pytest.skip(f"no Vulkan device: {reason}")
    return Runner("vulkan:0")


@pytest.fixture(scope="session")
def wide():
    """The CPU, to which f64 inputs are given: the oracle of fused ops."""
    return Runner("cpu")


@pytest.fixture
def rng():
    return np.random.default_rng(0)
