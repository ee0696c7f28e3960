"""The command line: ``grilly doctor | ops | explain | conformance | bench | demo | search | new``.

Each command's work is in a module of its own, imported when the command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grilly_core.errors import GrillyError

__all__ = ["app", "main"]

app = typer.Typer(
    help="grilly: what is installed, what runs where, and how to add to it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
new = typer.Typer(
    help="Write the start of a new op or backend, with a test that passes.", no_args_is_help=True
)
app.add_typer(new, name="new")

search = typer.Typer(
    help="Search text files by what they say (needs the package grilly-ext-memory).", no_args_is_help=True
)
app.add_typer(search, name="search")

Device = Annotated[str, typer.Option("--device", "-d", help="Device name, such as cpu or vulkan:0.")]
Folder = Annotated[Path, typer.Option("--folder", help="Where to write; the package's folder is made in it.")]


@app.command()
def doctor(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show tracebacks of broken plugins.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a plugin is unusable.")] = False,
) -> None:
    """Show plugins and their states, devices, settings, and what falls back to the CPU."""
    from grilly.cli import doctor as command

    raise typer.Exit(command.run(verbose=verbose, strict=strict))


@app.command()
def ops(
    pattern: Annotated[str, typer.Argument(help="Show only ops whose name contains this.")] = "",
    internal: Annotated[
        bool, typer.Option("--internal", help="Include fused gradients and the like.")
    ] = False,
) -> None:
    """Show which op runs how on which installed backend."""
    from grilly.cli import ops as command

    command.run(pattern, internal=internal)


@app.command()
def explain(
    op: Annotated[str, typer.Argument(help="Name of an op, such as nn.layer_norm.")],
    device: Device = "cpu",
    dtype: Annotated[str, typer.Option(help="Dtype of the floating inputs.")] = "float32",
) -> None:
    """Show how an op is resolved on a device, step by step, for its first sample."""
    from grilly.cli import explain as command

    command.run(op, device, dtype)


@app.command()
def conformance(
    device: Device = "cpu",
    level: Annotated[int, typer.Option(min=0, max=3, help="Level to check; see the testkit's README.")] = 1,
    report: Annotated[Path | None, typer.Option(help="Write the results to this JSON file.")] = None,
    op: Annotated[list[str] | None, typer.Option(help="Check this op only; may be given often.")] = None,
) -> None:
    """Run the conformance suite on a device (needs the package grilly-testkit)."""
    from grilly.cli import conformance as command

    raise typer.Exit(command.run(device, level, report, op))


@app.command()
def bench(
    device: Device = "cpu",
    tune: Annotated[
        bool,
        typer.Option("--tune", help="First measure the device's kernels and keep the result for later runs."),
    ] = False,
    scale: Annotated[int, typer.Option(min=1, help="Divide the sizes by this, for slow devices.")] = 1,
) -> None:
    """Show how fast a device is at common work, beside the CPU; with --tune let it choose kernels by measurement."""
    from grilly.cli import bench as command

    command.run(device, tune=tune, scale=scale)


@app.command(
    context_settings={
        "allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False,
    }
)  # fmt: skip
def demo(context: typer.Context) -> None:
    """Run a demo, such as `grilly demo digits --device cpu`; without a name, show which there are."""
    from grilly.cli import demo as command

    raise typer.Exit(command.run(context.args))


Index = Annotated[Path, typer.Option("--index", "-i", help="Folder of the index.")]
EncoderName = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="'hashing' (spelling, no model), or module:attribute of a callable from texts to vectors.",
    ),
]


@search.command("build")
def search_build(
    folder: Annotated[Path, typer.Argument(help="Folder of text files, searched with all below it.")],
    index: Index = Path(".grilly-search"),
    pattern: Annotated[str, typer.Option(help="Which files, such as *.md.")] = "*",
    encoder: EncoderName = None,
    size: Annotated[int, typer.Option(min=1, help="Characters of a passage at most.")] = 800,
) -> None:
    """Make an index hold the text files of a folder; hidden files, and those of the index itself, are left out."""
    from grilly.cli import search as command

    raise typer.Exit(command.build(folder, index, pattern, encoder, size))


@search.command("query")
def search_query(
    text: Annotated[str, typer.Argument(help="What to look for.")],
    index: Index = Path(".grilly-search"),
    k: Annotated[int, typer.Option("-k", min=1, help="How many passages.")] = 5,
    source: Annotated[str | None, typer.Option(help="Only passages of this file.")] = None,
    encoder: EncoderName = None,
) -> None:
    """Show the passages nearest to a text, with the part that answers."""
    from grilly.cli import search as command

    raise typer.Exit(command.query(text, index, k, source, encoder))


@new.command("op")
def new_op(
    name: Annotated[str, typer.Argument(help="A Python name, such as cube.")], folder: Folder = Path()
) -> None:
    """Write a package with one op, its gradient, its samples and a test."""
    from grilly.cli import scaffold

    scaffold.write("op", name, folder)


@new.command("backend")
def new_backend(
    name: Annotated[str, typer.Argument(help="A Python name, such as mydev.")], folder: Folder = Path()
) -> None:
    """Write a package with a backend of six methods and one kernel, and a test."""
    from grilly.cli import scaffold

    scaffold.write("backend", name, folder)


def main() -> None:
    """Run the command line; errors that grilly raises on purpose end it with one line and exit code 1."""
    try:
        app()
    except GrillyError as error:
        typer.echo(f"grilly: {error}", err=True)
        raise SystemExit(1) from error
