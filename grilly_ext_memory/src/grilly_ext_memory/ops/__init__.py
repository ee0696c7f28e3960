"""The ops of this package; importing it registers them all."""

from grilly_ext_memory.ops import codes, distances, product, recall, selection

__all__ = ["codes", "distances", "product", "recall", "selection"]
