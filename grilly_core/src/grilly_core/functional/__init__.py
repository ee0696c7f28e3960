"""Stateless twins of the modules, with PyTorch's names and signatures.

Wherever a tensor is taken, a NumPy array or a number will do. `dim` and `axis` mean the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grilly_core.functional.activations import *  # noqa: F403
from grilly_core.functional.activations import __all__ as _activations
from grilly_core.functional.attention import *  # noqa: F403
from grilly_core.functional.attention import __all__ as _attention
from grilly_core.functional.dropping import *  # noqa: F403
from grilly_core.functional.dropping import __all__ as _dropping
from grilly_core.functional.embeddings import *  # noqa: F403
from grilly_core.functional.embeddings import __all__ as _embeddings
from grilly_core.functional.folding import *  # noqa: F403
from grilly_core.functional.folding import __all__ as _folding
from grilly_core.functional.layers import *  # noqa: F403
from grilly_core.functional.layers import __all__ as _layers
from grilly_core.functional.learning import *  # noqa: F403
from grilly_core.functional.learning import __all__ as _learning
from grilly_core.functional.lookup import *  # noqa: F403
from grilly_core.functional.lookup import __all__ as _lookup
from grilly_core.functional.losses import *  # noqa: F403
from grilly_core.functional.losses import __all__ as _losses
from grilly_core.functional.losses_contrastive import *  # noqa: F403
from grilly_core.functional.losses_contrastive import __all__ as _losses_contrastive
from grilly_core.functional.losses_ctc import *  # noqa: F403
from grilly_core.functional.losses_ctc import __all__ as _losses_ctc
from grilly_core.functional.losses_likelihood import *  # noqa: F403
from grilly_core.functional.losses_likelihood import __all__ as _losses_likelihood
from grilly_core.functional.losses_linear import *  # noqa: F403
from grilly_core.functional.losses_linear import __all__ as _losses_linear
from grilly_core.functional.losses_margin import *  # noqa: F403
from grilly_core.functional.losses_margin import __all__ as _losses_margin
from grilly_core.functional.normalising import *  # noqa: F403
from grilly_core.functional.normalising import __all__ as _normalising
from grilly_core.functional.pooling import *  # noqa: F403
from grilly_core.functional.pooling import __all__ as _pooling
from grilly_core.functional.pooling_more import *  # noqa: F403
from grilly_core.functional.pooling_more import __all__ as _pooling_more
from grilly_core.functional.resample import *  # noqa: F403
from grilly_core.functional.resample import __all__ as _resample
from grilly_core.functional.spellings import *  # noqa: F403
from grilly_core.functional.spellings import __all__ as _spellings
from grilly_core.functional.transposed import *  # noqa: F403
from grilly_core.functional.transposed import __all__ as _transposed
from grilly_core.functional.whitening import *  # noqa: F403
from grilly_core.functional.whitening import __all__ as _whitening
from grilly_core.plugins.loader import load_public

__all__ = [
    *_activations, *_attention, *_dropping, *_embeddings, *_folding, *_layers, *_learning, *_lookup, *_losses,
    *_losses_contrastive, *_losses_ctc, *_losses_likelihood, *_losses_linear, *_losses_margin, *_normalising,
    *_pooling, *_pooling_more, *_resample, *_spellings, *_transposed, *_whitening,
]  # fmt: skip

if not TYPE_CHECKING:  # checkers would take every name for one that exists

    def __getattr__(name: str) -> Any:
        """Find what an extension publishes here, without the facade, or say what to install."""
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return load_public("functional", name, __all__)
