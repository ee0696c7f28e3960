"""The suite as pytest tests: subclass it, name the backend, and every op is a test in every mode."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from grilly_testkit.conformance import check, checkable, read_xfails
from grilly_testkit.modes import modes_for

__all__ = ["BackendConformance"]


class BackendConformance:
    """Subclass as ``class TestMine(BackendConformance): backend = "mydev"; level = 1``.

    Attributes
    ----------
    backend : str
        Device name.
    level : int
        0 to 3; see `grilly_testkit.conformance.run`.
    xfails : str or None
        Path of the strict list of expected failures.
    """

    backend: ClassVar[str] = ""
    level: ClassVar[int] = 0
    xfails: ClassVar[str | None] = None

    @staticmethod
    def pytest_generate_tests(metafunc: Any) -> None:
        """Make one test for each op and mode."""
        if "op" in metafunc.fixturenames and metafunc.cls.backend:
            pairs = [(op, mode) for op in checkable() for mode in modes_for(metafunc.cls.level)]
            metafunc.parametrize(("op", "mode"), pairs, ids=[f"{op.name}-{mode.name}" for op, mode in pairs])

    def test_conforms(self, op: Any, mode: Any) -> None:
        """Run one mode on one op."""
        found = check(op, mode, self.backend, self.level)
        if (op.name, mode.name) in read_xfails(self.xfails):
            if not found:
                pytest.fail("listed as an expected failure, but it passes; remove the line")
            pytest.xfail(found[0].message)
        assert not found, "\n".join(f"{f.case}: {f.message}" for f in found)
