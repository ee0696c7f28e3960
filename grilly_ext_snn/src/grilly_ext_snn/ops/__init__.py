"""The ops of this package; importing it registers them all."""

from grilly_ext_snn.ops import cells, filters, plasticity, scans

__all__ = ["cells", "filters", "plasticity", "scans"]
