"""Print the neurons as kernels: ``python -m grilly_ext_snn.kernels.emit`` writes `scans` and ``shaders`` anew.

The files are shipped, so that Numba can cache what it compiles and users need no compiler of shaders. A test says
that they are those of the descriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from grilly_ext_snn.kernels import emit_glsl, emit_numba
from grilly_ext_snn.neurons.model import Neuron, neuron_of
from grilly_ext_snn.ops.scans import NAMES

__all__ = ["files", "main"]

HERE: Final = Path(__file__).parent

_PRINTERS: Final[Sequence[tuple[Callable[[Neuron], str], str]]] = (
    (emit_numba.module, "scans/{}_scan.py"),
    (emit_glsl.shader, "shaders/neuron_{}.comp"),
)


def files() -> Iterator[tuple[Path, str]]:
    """Yield every file with its text."""
    for name in NAMES:
        for printer, place in _PRINTERS:
            yield HERE / place.format(name), printer(neuron_of(name))


def main() -> None:
    """Write the files."""
    for path, text in files():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
