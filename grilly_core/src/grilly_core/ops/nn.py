"""The neural-network ops, by family; this module only gathers them."""

from __future__ import annotations

from grilly_core.ops.nn_activations import *  # noqa: F403
from grilly_core.ops.nn_activations import __all__ as _activations
from grilly_core.ops.nn_attention import *  # noqa: F403
from grilly_core.ops.nn_attention import __all__ as _attention
from grilly_core.ops.nn_cells import *  # noqa: F403
from grilly_core.ops.nn_cells import __all__ as _cells
from grilly_core.ops.nn_conv import *  # noqa: F403
from grilly_core.ops.nn_conv import __all__ as _conv
from grilly_core.ops.nn_dense import *  # noqa: F403
from grilly_core.ops.nn_dense import __all__ as _dense
from grilly_core.ops.nn_embedding import *  # noqa: F403
from grilly_core.ops.nn_embedding import __all__ as _embedding
from grilly_core.ops.nn_norm import *  # noqa: F403
from grilly_core.ops.nn_norm import __all__ as _norm
from grilly_core.ops.nn_pool import *  # noqa: F403
from grilly_core.ops.nn_pool import __all__ as _pool
from grilly_core.ops.nn_recurrent import *  # noqa: F403
from grilly_core.ops.nn_recurrent import __all__ as _recurrent
from grilly_core.ops.nn_resample import *  # noqa: F403
from grilly_core.ops.nn_resample import __all__ as _resample

__all__ = [
    *_activations, *_attention, *_cells, *_conv, *_dense, *_embedding, *_norm, *_pool, *_recurrent, *_resample,
]  # fmt: skip
