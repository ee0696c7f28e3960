"""Types of the functions that stand beside an op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Attrs", "Needs", "Samples", "Tensors"]

Tensors = Sequence[Any]
"""Gradients, outputs or inputs of an op: tensors, or None where there is none."""
Attrs = Mapping[str, Any]
Needs = Sequence[bool]
Samples = Any
"""The sample builder of the conformance kit; core does not import it."""
