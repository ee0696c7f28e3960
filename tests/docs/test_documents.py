"""Every Python snippet of the documentation runs, document by document, and so does every example."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("grilly*/README.md")])
EXAMPLES = sorted(path for path in ROOT.glob("examples/**/*.py") if not path.name.startswith("_"))
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def with_snippets(paths: list[Path]) -> list[Path]:
    return [path for path in paths if FENCE.search(path.read_text())]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", with_snippets(DOCUMENTS), ids=name)
def test_snippets_run(path, tmp_path, monkeypatch):
    """The snippets of one document share their names, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    text = path.read_text()
    names: dict[str, object] = {"__name__": "__document__"}
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start(1))
        code = compile("\n" * line + match[1], str(path), "exec")
        exec(code, names)


@pytest.mark.parametrize("path", EXAMPLES, ids=name)
def test_examples_run(path, tmp_path):
    settings = {**os.environ, "MPLBACKEND": "Agg", "GRILLY_EXAMPLE_QUICK": "1"}
    done = subprocess.run([sys.executable, path], cwd=tmp_path, env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_there_is_something_to_run():
    assert DOCUMENTS


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_local_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target
