"""The ops of this package; importing it registers them all."""

from grilly_ext_memory.ops import recall

__all__ = ["recall"]
