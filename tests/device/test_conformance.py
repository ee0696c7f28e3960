"""Every installed device against the conformance suite."""

from __future__ import annotations

from grilly_testkit import BackendConformance


class TestCpu(BackendConformance):
    backend = "cpu"
    level = 3
