"""PyTorch's operator samples run through grilly: what is covered, what agrees, what is absent and why.

`op_db`, the table of operators in PyTorch's own test suite, gives the inputs and PyTorch 2.13 on the CPU is the
oracle (forward values only). The tables in ``op_table*.py`` say which public function of grilly answers which name.

``python -m tests.peers.op_samples`` writes docs/operator-coverage.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

import grilly

PAGE = Path(__file__).parents[2] / "docs" / "operator-coverage.md"
TOLERANCE = 2e-5
NO_AXES = "PyTorch lets a 0-d tensor have an axis 0; here, as in the Array API, that is an IndexError"
#: Inputs are in the first of these types that the operator takes.
TYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)


@dataclass(frozen=True)
class Entry:
    """How grilly answers an operator of PyTorch.

    Attributes
    ----------
    call : callable
        Takes PyTorch's arguments, tensors replaced by grilly's.
    tol : float
        Relative and absolute tolerance.
    compare : {"values", "shapes"}
        ``"shapes"`` where values are random or undefined; `reason` says which.
    reviewed : tuple of (predicate, reason)
        Samples that are not run: the predicate takes ``(input, args, kwargs)`` of the sample.
    known_as : callable or None
        Brings a result of either side into a form with one answer (singular vectors have free signs).
    """

    call: Callable[..., Any]
    tol: float = TOLERANCE
    compare: str = "values"
    reason: str = ""
    reviewed: tuple[tuple[Callable[[Any, tuple[Any, ...], dict[str, Any]], Any], str], ...] = ()
    known_as: Callable[[Any], Any] | None = None


@dataclass
class Outcome:
    """What became of the samples of one name."""

    name: str
    passed: int = 0
    reviewed: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @property
    def samples(self) -> int:
        """How many samples there were."""
        return self.passed + len(self.failures) + sum(self.reviewed.values())


def operators() -> dict[str, list[Any]]:
    """PyTorch's entries by name; a name may have several variants."""
    found: dict[str, list[Any]] = {}
    for entry in op_db:
        found.setdefault(entry.name, []).append(entry)
    return found


def to_grilly(value: Any) -> Any:
    """Tensors become grilly's, dtypes too; sequences are converted item by item."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().resolve_conj().resolve_neg()
        if plain.dtype is torch.bfloat16:
            return grilly.asarray(plain.float().numpy(), dtype=grilly.bfloat16, device="cpu")
        return grilly.asarray(plain.numpy().copy(), dtype=dtype_of(plain.dtype), device="cpu")
    if isinstance(value, torch.dtype):
        return dtype_of(value)
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, dict):
        return {k: to_grilly(v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(to_grilly(v) for v in value)
    if isinstance(value, torch.Size):
        return tuple(value)
    return value


def dtype_of(dtype: torch.dtype) -> Any:
    """grilly's dtype of PyTorch's."""
    name = str(dtype).removeprefix("torch.")
    return getattr(grilly, name)


def flat(result: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays of a result, in order."""
    if result is None:
        return []
    if isinstance(result, torch.Tensor):
        result = result.detach().resolve_conj().resolve_neg()
        return [(result.float() if result.dtype is torch.bfloat16 else result).numpy()]
    if isinstance(result, grilly.Tensor):
        result = result.detach()
        return [np.asarray((result.float() if result.dtype is grilly.bfloat16 else result).numpy())]
    if isinstance(result, (list, tuple)):
        return [a for r in result for a in flat(r)]
    return [np.asarray(result)]


def difference(mine: Any, theirs: Any, entry: Entry) -> str:
    """What is wrong, or an empty string."""
    if entry.known_as is not None:
        mine, theirs = entry.known_as(flat(mine)), entry.known_as(flat(theirs))
    a, b = flat(mine), flat(theirs)
    if len(a) != len(b):
        return f"{len(a)} results, PyTorch has {len(b)}"
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if x.shape != y.shape:
            return f"result {i}: shape {x.shape}, PyTorch's {y.shape}"
        if _kind(x) != _kind(y):
            return f"result {i}: {x.dtype}, PyTorch's {y.dtype}"
        if entry.compare == "shapes":
            continue
        if x.dtype.kind in "fc":
            if not np.allclose(x, y, entry.tol, entry.tol, equal_nan=True):
                with np.errstate(all="ignore"):
                    return f"result {i}: off by {np.nanmax(np.abs(x - y)):.3g}"
        elif not np.array_equal(x, y):
            return f"result {i}: {x.ravel()[:8]}, PyTorch's {y.ravel()[:8]}"
    return ""


def _kind(x: Any) -> str:
    """Integers are compared by kind: grilly's default is 32 bits wide, PyTorch's 64."""
    return {"i": "integer", "u": "integer", "V": "f"}.get(x.dtype.kind, x.dtype.kind)


def samples_of(info: Any) -> Iterator[Any]:
    """The samples of one variant, made in the same order from the same seed each time."""
    dtype = next((t for t in TYPES if t in info.dtypes), torch.float32)
    torch.manual_seed(0)
    yield from info.sample_inputs("cpu", dtype, requires_grad=False)


def run(name: str, infos: list[Any], entry: Entry) -> Outcome:
    """Run all samples of a name."""
    outcome = Outcome(name)
    for info in infos:
        for sample in samples_of(info):
            _run_one(info, sample, entry, outcome)
    return outcome


def _run_one(info: Any, sample: Any, entry: Entry, outcome: Outcome) -> None:
    given = (sample.input, sample.args, sample.kwargs)
    for predicate, reason in entry.reviewed:
        if predicate(*given):
            outcome.reviewed[reason] = outcome.reviewed.get(reason, 0) + 1
            return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both sides warn of what they would rather not be asked
        wrong = _compared(info, sample, entry)
    if wrong == NO_AXES:
        outcome.reviewed[NO_AXES] = outcome.reviewed.get(NO_AXES, 0) + 1
    elif wrong:
        outcome.failures.append(f"{described(given)}: {wrong}")
    else:
        outcome.passed += 1


def _compared(info: Any, sample: Any, entry: Entry) -> str:
    """Run both sides; what is wrong, or an empty string."""
    # before PyTorch runs: some operators write to their input
    x, args, kwargs = (to_grilly(part) for part in (sample.input, sample.args, sample.kwargs))
    try:
        theirs: Any = info(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:
        return f"PyTorch refuses it: {error!s:.80}"
    try:
        return difference(entry.call(x, *args, **kwargs), theirs, entry)
    except Exception as error:
        if "no axes" in str(error) and isinstance(sample.input, torch.Tensor) and sample.input.ndim == 0:
            return NO_AXES
        return f"{type(error).__name__}: {error!s:.200}"


def described(value: Any) -> str:
    """A sample in short."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(described, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k}={described(v)}' for k, v in value.items())}}}"
    return repr(value)[:60]


def table() -> dict[str, Entry]:
    """Every entry."""
    from tests.peers import op_table, op_table_linalg, op_table_nn, op_table_special

    parts = [op_table.ENTRIES, op_table_linalg.ENTRIES, op_table_nn.ENTRIES, op_table_special.ENTRIES]
    merged: dict[str, Entry] = {}
    for part in parts:
        assert not merged.keys() & part.keys()
        merged |= part
    return merged


def page(outcomes: dict[str, Outcome], entries: dict[str, Entry], absent: dict[str, str]) -> str:
    """The page docs/operator-coverage.md."""
    names = operators()
    good = [n for n, o in outcomes.items() if not o.failures]
    count = sum(o.passed for o in outcomes.values())
    lines = [
        "# Coverage of PyTorch's operator samples",
        "",
        f"PyTorch {torch.__version__.partition('+')[0]} lists {len(names)} operator names for its own tests. "
        f"grilly answers {len(outcomes)} of them, and on {len(good)} all of PyTorch's float32 samples (integers or "
        f"bools where an operator takes only those) agree: {count} samples, forward, on the CPU.",
        "Written by `python -m tests.peers.op_samples`; checked by tests/peers/test_peer_op_samples.py.",
        "",
        "| operator | agree | samples | not compared, and why |",
        "|---|---|---|---|",
    ]
    for name in names:
        if name not in outcomes:
            continue
        o, why = outcomes[name], [f"{n}: {r}" for r, n in outcomes[name].reviewed.items()]
        if entries[name].reason:
            why.append(f"shapes only: {entries[name].reason}")
        lines.append(f"| `{name}` | {o.passed} | {o.samples} | {'; '.join(why)} |")
    lines += ["", "## Absent", "", "| reason | operators |", "|---|---|"]
    reasons: dict[str, list[str]] = {}
    for name in names:
        if name not in outcomes:
            reasons.setdefault(absent.get(name, "not yet there"), []).append(f"`{name}`")
    lines += [f"| {why} | {', '.join(those)} |" for why, those in reasons.items()]
    return "\n".join(lines) + "\n"


def run_all(only: list[str] | None = None) -> dict[str, Outcome]:
    """Run every covered name, or only some."""
    names, entries = operators(), table()
    return {n: run(n, names[n], entries[n]) for n in names if n in entries and (not only or n in only)}


def show(outcomes: dict[str, Outcome]) -> None:
    """Print the result of every name that has failures, and the totals."""
    from rich.console import Console
    from rich.table import Table

    console, found = Console(), Table("operator", "agree", "samples", "first failure")
    for name, o in outcomes.items():
        if o.failures:
            found.add_row(name, str(o.passed), str(o.samples), o.failures[0])
    if found.row_count:
        console.print(found)
    good = sum(not o.failures for o in outcomes.values())
    console.print(f"{len(operators())} names, {len(outcomes)} covered, {good} without a failure")


def main() -> None:
    """Run everything, print the table and write the page."""
    import sys

    outcomes = run_all(sys.argv[1:])
    show(outcomes)
    if not sys.argv[1:]:
        from tests.peers.op_table import ABSENT

        PAGE.write_text(page(outcomes, table(), ABSENT), encoding="utf-8")
        print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main()
