"""What holds for all tests: only this workspace's plugins are seen, and nothing falls back silently."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
MEMBERS = sorted(folder.parent.name for folder in ROOT.glob("grilly*/pyproject.toml"))

# Set before collection, because cases are collected from ops and backends. Tests of discovery unset them.
os.environ.setdefault("GRILLY_PLUGINS", ",".join(MEMBERS))
os.environ.setdefault("GRILLY_FALLBACK", "error")
