"""``grilly conformance``: the test kit's suite for one device."""

from __future__ import annotations

import importlib
from pathlib import Path

from grilly_core.errors import MissingPluginError
from grilly_core.plugins.known import install_hint

__all__ = ["run"]


def run(device: str, level: int, report: Path | None, ops: list[str] | None = None) -> int:
    """Run the suite and return pytest's exit code."""
    try:
        kit = importlib.import_module("grilly_testkit.conformance")
    except ModuleNotFoundError as error:
        if error.name != "grilly_testkit":
            raise
        raise MissingPluginError(
            f"the conformance suite comes with grilly-testkit: {install_hint('grilly-testkit')}."
        ) from error
    return int(kit.run(device=device, level=level, report=report, ops=ops or None))
