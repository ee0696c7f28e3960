"""Indexes of vectors and search, from the extension `grilly-ext-memory`."""

from __future__ import annotations

from grilly._lazy import forward

__getattr__, __dir__ = forward(None, "retrieval")
