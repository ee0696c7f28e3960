"""``grilly demo``: list the demos that packages bring, or run one."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from grilly_core.errors import GrillyError, PluginError
from grilly_core.plugins import loader

__all__ = ["run"]


def run(arguments: Sequence[str]) -> int:
    """Run the demo named first with the other arguments, or list all demos; return the exit code."""
    if not arguments:
        Console().print(_table())
        return 0
    name, *others = arguments
    if name.startswith("-"):
        raise GrillyError(
            f"name a demo before its options: grilly demo NAME {name}; there are {', '.join(loader.demo_names())}."
        )
    try:
        main = loader.load_demo(name)
    except LookupError as error:
        raise GrillyError(str(error)) from None
    return main(others) or 0


def _table() -> Table:
    table = Table(
        box=None, pad_edge=False, caption="Run one with grilly demo NAME; --help shows its options."
    )
    table.caption_justify = "left"
    for column in ("demo", "what it does"):
        table.add_column(column, overflow="fold")
    for name in loader.demo_names():
        table.add_row(name, _summary(name))
    return table


def _summary(name: str) -> str:
    """Return the first line of the docstring of a demo's module, or why it cannot be loaded."""
    try:
        main = loader.load_demo(name)
    except PluginError as error:
        return f"[red]{escape(str(error))}[/]"
    text = getattr(sys.modules.get(main.__module__), "__doc__", None) or main.__doc__ or ""
    return escape(text.strip().partition("\n")[0])
