"""For tests of devices: the Vulkan validation layers are on where they are installed, and no message passes."""

from __future__ import annotations

import os
import sys

import pytest


def _layers() -> bool:
    try:
        from grilly_backend_vulkan import instance

        return instance.layers_installed()
    except Exception:  # no backend, no loader: tests that need them are skipped with the reason
        return False


# Before anything makes an instance, which asks once.
if "GRILLY_VULKAN_VALIDATION" not in os.environ and _layers():
    os.environ["GRILLY_VULKAN_VALIDATION"] = "1"


@pytest.fixture(autouse=True)
def _no_validation_message():
    """Fail a test during which the validation layers said something."""
    yield
    instance = sys.modules.get("grilly_backend_vulkan.instance")
    if instance is not None and instance.validation_messages:
        said = "\n\n".join(instance.validation_messages)
        instance.validation_messages.clear()
        pytest.fail(f"the Vulkan validation layers say:\n{said}")
