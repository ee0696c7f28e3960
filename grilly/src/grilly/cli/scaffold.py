"""``grilly new``: packages to start from, copied from the templates beside this module."""

from __future__ import annotations

import keyword
import string
from pathlib import Path

import typer

from grilly_core.errors import GrillyError

__all__ = ["write"]

_TEMPLATES = Path(__file__).with_name("templates")


def write(kind: str, name: str, folder: Path) -> Path:
    """Write the package ``grilly_<name>`` into `folder` and return its folder.

    Parameters
    ----------
    kind : {"op", "backend"}
    name : str
        A lower-case Python name.
    folder : Path
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
        raise GrillyError(f"NAME: expected a lower-case Python name such as 'cube'; received {name!r}.")
    target = folder / f"grilly_{name}"
    if target.exists():
        raise GrillyError(f"{target} exists already; choose another name or --folder.")
    words = {"name": name, "project": name.replace("_", "-"), "title": name.title().replace("_", "")}
    source = _TEMPLATES / kind
    for template in sorted(path for path in source.rglob("*.tmpl")):
        path = target / str(template.relative_to(source)).replace("NAME", name).removesuffix(".tmpl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(string.Template(template.read_text()).substitute(words))
    typer.echo(f"wrote {target}\nnext: pip install -e {target} && pytest {target}")
    return target
