"""The pytest plugin of grilly's test kit; loaded by every pytest run, so it imports nothing heavy."""

from __future__ import annotations
