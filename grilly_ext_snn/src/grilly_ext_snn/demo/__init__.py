"""Train a spiking network on handwritten digits, and a layer by spike timing without labels.

The first network counts: pixels become Bernoulli spikes, the output neuron that fires most is the answer. The second
one sees the same spikes, no labels, and learns by STDP; its receptive fields are drawn as a picture.

``grilly demo snn`` or ``python -m grilly_ext_snn.demo --epochs 15 --seed 0 --device cpu --out out/snn``
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demo with command-line arguments."""
    from grilly_ext_snn.demo.running import run

    run(arguments)
