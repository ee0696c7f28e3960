"""``python -m benchmarks``: run every benchmark of this folder, one after the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SUPPORT = {"__main__.py", "__init__.py", "timing.py"}


def main() -> int:
    """Run them and return the number that failed."""
    failed = 0
    for script in sorted(Path(__file__).parent.glob("*.py")):
        if script.name not in SUPPORT:
            print(f"== {script.name}", flush=True)
            failed += subprocess.run([sys.executable, script]).returncode != 0
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
