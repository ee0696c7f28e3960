"""Tools round modules: clipping gradients, one vector of all parameters, packed sequences, parametrisations."""

from __future__ import annotations

from grilly_core.nn.utils import parametrizations, parametrize, rnn
from grilly_core.nn.utils.clip import *  # noqa: F403
from grilly_core.nn.utils.clip import __all__ as _clip
from grilly_core.nn.utils.continual import *  # noqa: F403
from grilly_core.nn.utils.continual import __all__ as _continual
from grilly_core.nn.utils.parameters import *  # noqa: F403
from grilly_core.nn.utils.parameters import __all__ as _parameters

__all__ = ["parametrizations", "parametrize", "rnn", *_clip, *_continual, *_parameters]
