"""Tools round modules: gradients, parameters as one vector, packed sequences, parametrisations, fusing, Fisher."""

from __future__ import annotations

from grilly_core.nn.utils import fusion, parametrizations, parametrize, rnn
from grilly_core.nn.utils.clip import *  # noqa: F403
from grilly_core.nn.utils.clip import __all__ as _clip
from grilly_core.nn.utils.continual import *  # noqa: F403
from grilly_core.nn.utils.continual import __all__ as _continual
from grilly_core.nn.utils.fusion import *  # noqa: F403
from grilly_core.nn.utils.fusion import __all__ as _fusion
from grilly_core.nn.utils.parameters import *  # noqa: F403
from grilly_core.nn.utils.parameters import __all__ as _parameters
from grilly_core.nn.utils.skipping import skip_init

__all__ = [
    "fusion", "parametrizations", "parametrize", "rnn", "skip_init", *_clip, *_continual, *_fusion, *_parameters,
]  # fmt: skip
