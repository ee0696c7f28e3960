"""Capture: a step recorded twice, compared, and replayed as a flat list of launches on fixed memory.

The first call runs eagerly. Calls 2 and 3 run too, and write down every launch; any difference between them (an
op, an attribute, a constant) is an error that names the op. From call 4 on nothing of the step's Python runs.
"""

from grilly_core.capture.program import Program
from grilly_core.capture.recorder import Recorder
from grilly_core.capture.step import Capture, capture

__all__ = ["Capture", "Program", "Recorder", "capture"]
