"""``grilly explain``: how an op is resolved, for its first sample."""

from __future__ import annotations

from rich.console import Console

from grilly_core.explain import explain

__all__ = ["run"]


def run(op: str, device: str, dtype: str, console: Console | None = None) -> None:
    """Print the decisions that lead to a kernel, a body or a fallback."""
    out = console or Console()
    for line in explain(op, device, dtypes=(dtype,)).lines():
        out.print(line, markup=False, highlight=False, soft_wrap=True)
