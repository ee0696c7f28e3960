"""The command line of grilly; see `grilly.cli.commands`."""

from grilly.cli.commands import app, main

__all__ = ["app", "main"]
