"""Saving and loading: safetensors files, and checkpoints in that format. Loading never runs code."""

from __future__ import annotations

from grilly_core.atomic import atomic_write
from grilly_core.io.checkpoint import load_checkpoint, load_tree, save_checkpoint, save_tree
from grilly_core.io.safetensors import load_file, save_file

__all__ = [
    "atomic_write",
    "load_checkpoint",
    "load_file",
    "load_tree",
    "save_checkpoint",
    "save_file",
    "save_tree",
]
