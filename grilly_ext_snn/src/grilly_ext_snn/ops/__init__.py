"""The ops of this package; importing it registers them all."""

from grilly_ext_snn.ops import cells, filters, plasticity, scans, spikes

__all__ = ["cells", "filters", "plasticity", "scans", "spikes"]
