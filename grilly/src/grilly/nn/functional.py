"""The other name of `grilly.functional`, for ``import grilly.nn.functional as F``."""

import sys

from grilly import functional

sys.modules[__name__] = functional
