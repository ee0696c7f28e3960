"""The conformance suite of one device: every op, every mode of its level, one report."""

from __future__ import annotations

import difflib
import json
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import grilly_core
from grilly_core import registry
from grilly_core.atomic import atomic_write
from grilly_core.device import open_context
from grilly_core.errors import RegistrationError
from grilly_core.opspec import Op
from grilly_core.plugins import loader
from grilly_core.samples import cases_of
from grilly_testkit.modes import Finding, Mode, findings, modes_for

__all__ = ["Report", "check", "checkable", "read_xfails", "run"]


@dataclass
class Report:
    """What a run found.

    Attributes
    ----------
    failures : list of Finding
        Outside the list of expected failures.
    expected : list of Finding
        On that list.
    passed_unexpectedly : list of str
        Lines of the list that no longer fail, which fails the run: the list is strict.
    executed : int
        Checks (op and mode) that ran.
    unsampled : list of str
        Ops without samples, of which nothing is known.
    messages : list of str
        What the device's own validation said during the run; anything fails it.
    """

    device: str
    level: int
    versions: dict[str, str]
    executed: int = 0
    cases: int = 0
    seconds: float = 0.0
    failures: list[Finding] = field(default_factory=list)
    expected: list[Finding] = field(default_factory=list)
    passed_unexpectedly: list[str] = field(default_factory=list)
    unsampled: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether something ran and nothing is wrong."""
        wrong = self.failures or self.passed_unexpectedly or self.messages
        return self.executed > 0 and not wrong

    def summary(self) -> str:
        """Return the head line and the failures as text."""
        head = (
            f"conformance of {self.device}, level {self.level}: {self.executed} checks of {self.cases} cases in "
            f"{self.seconds:.1f} s; {len(self.failures)} failed, {len(self.expected)} expected failures"
        )
        lines = [head] + [f"  {f.op} [{f.mode}] {f.case}: {f.message}" for f in self.failures]
        lines += [f"  listed as failing but passes: {line}" for line in self.passed_unexpectedly]
        lines += [f"  not checked, it has no samples: {name}" for name in self.unsampled]
        lines += [f"  validation: {message}" for message in self.messages]
        if not self.executed:
            lines.append("  nothing ran, which is a failure")
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        """Write the report as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(json.dumps(asdict(self) | {"ok": self.ok}, indent=2).encode())


def _versions() -> dict[str, str]:
    return {
        "grilly_core": grilly_core.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def checkable() -> list[Op[Any, Any]]:
    """Return the ops that have samples, those of installed extensions included.

    Raises
    ------
    PluginError
        If an extension's ops cannot be loaded.
    """
    loader.load_every_op(strict=True)
    return [op for op in registry.specs().values() if op.samples_rule is not None]


def read_xfails(path: str | Path | None) -> set[tuple[str, str]]:
    """Read expected failures: one ``op mode reason`` for each line, ``#`` starts a comment."""
    pairs = set()
    for line in Path(path).read_text().splitlines() if path else []:
        words = line.partition("#")[0].split(None, 2)
        if not words:
            continue
        if len(words) < 3:
            raise ValueError(f"{path}: expected 'op mode reason'; received {line!r}.")
        pairs.add((words[0], words[1]))
    return pairs


def check(op: Op[Any, Any], mode: Mode, device: str, level: int) -> list[Finding]:
    """Run one mode on one op."""
    return findings(op, mode, device, level)


def run(
    device: str,
    level: int,
    report: Path | str | None = None,
    *,
    xfails: Path | str | None = None,
    ops: Sequence[str] | None = None,
    quiet: bool = False,
) -> int:
    """Check a device and return 0 if it conforms, else 1.

    Parameters
    ----------
    device : str
        Such as ``"cpu"`` or ``"mydev:0"``.
    level : int
        0 six methods, everything may fall back; 1 all primitives; 2 no fallback and fused kernels; 3 replay.
    report : path, optional
        Where to write the JSON report.
    xfails : path, optional
        The strict list of expected failures; see `read_xfails`.
    ops : sequence of str, optional
        Check only these ops.
    quiet : bool
        Print nothing.

    Examples
    --------
    >>> from grilly_testkit.conformance import run
    >>> run("cpu", 1, ops=["add"], quiet=True)
    0
    """
    result = execute(device, level, xfails=xfails, ops=ops, progress=not quiet)
    if report is not None:
        result.save(Path(report))
    if not quiet:
        print(result.summary())
    return 0 if result.ok else 1


def execute(
    device: str,
    level: int,
    *,
    xfails: Path | str | None = None,
    ops: Sequence[str] | None = None,
    progress: bool = False,
) -> Report:
    """Check a device and return the report."""
    known = checkable()  # before the device opens, which is when extensions bring their kernels
    context = open_context(device)
    result = Report(str(context.device), level, _versions())
    allowed, seen = read_xfails(xfails), set()
    start = time.perf_counter()
    names = {op.name for op in known}
    if missing := sorted(set(ops or ()) - names):
        close = sorted({c for name in missing for c in difflib.get_close_matches(name, names)})
        raise RegistrationError(
            f"ops: {', '.join(missing)}: not declared, or without samples; see `grilly ops`."
            + (f" Did you mean {', '.join(close)}?" if close else "")
        )
    chosen = [op for op in known if ops is None or op.name in ops]
    for i, op in enumerate(chosen):
        result.cases += len(cases_of(op).cases)
        for mode in modes_for(level):
            result.executed += 1
            for finding in check(op, mode, device, level):
                key = (finding.op, finding.mode)
                seen.add(key)
                (result.expected if key in allowed else result.failures).append(finding)
        if progress and sys.stderr.isatty():
            print(f"\r{i + 1}/{len(chosen)} {op.name:<40}", end="", file=sys.stderr)
    result.messages = list(getattr(context.runtime, "validation_messages", ()))
    result.passed_unexpectedly = [f"{op} {mode}" for op, mode in sorted(allowed - seen)]
    result.unsampled = [
        op.name
        for op in registry.specs().values()
        if op.samples_rule is None and not op.internal and ops is None
    ]
    result.seconds = time.perf_counter() - start
    return result
