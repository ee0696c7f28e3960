"""Conformance suite for authors of grilly backends and operators.

`conformance.run` checks a device; `BackendConformance` does the same as pytest tests to subclass. The
names are imported
when they are used.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["BackendConformance", "reference_device", "run"]

_HOMES = {
    "BackendConformance": "grilly_testkit.suite",
    "reference_device": "grilly_testkit.reference",
    "run": "grilly_testkit.conformance",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
