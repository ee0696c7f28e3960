"""Every environment variable that the packages read is in ``docs/environment.md``, and no other (oracle: sources)."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
READ = re.compile(r"""environ(?:\.get\(|\[)\s*["'](GRILLY_[A-Z_]+)""")


def test_the_table_has_what_is_read() -> None:
    sources = [path for package in ROOT.glob("grilly*/src") for path in package.rglob("*.py")]
    read = {name for path in sources for name in READ.findall(path.read_text(encoding="utf-8"))}
    table = set(
        re.findall(r"^\| `(GRILLY_[A-Z_]+)`", (ROOT / "docs/environment.md").read_text(), re.MULTILINE)
    )
    assert "GRILLY_CPU_CACHE_MB" in read
    assert table == read
