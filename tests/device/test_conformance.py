"""Every installed device against the conformance suite."""

from __future__ import annotations

import os

import pytest

from grilly_core.errors import GrillyError
from grilly_core.plugins import loader
from grilly_testkit import BackendConformance


class TestCpu(BackendConformance):
    backend = "cpu"
    level = 3


def no_vulkan() -> str:
    """Return why there is no Vulkan device to test, or an empty string."""
    try:
        devices = loader.load_backend("vulkan").devices()
    except (GrillyError, ImportError) as error:
        return str(error)
    return "" if devices else "no Vulkan device"


@pytest.mark.skipif(
    bool(no_vulkan()) and "GRILLY_VULKAN_REQUIRED" not in os.environ,
    reason=f"no Vulkan device: {no_vulkan()}",
)
class TestVulkan(BackendConformance):
    """With the validation layers on where they are installed (see conftest); a message fails the test."""

    backend = "vulkan"
    level = 3
