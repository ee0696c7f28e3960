"""grilly: tensors, modules and optimisers whose compute comes from plugins.

>>> import grilly
>>> float(grilly.sum(grilly.asarray([1.0, 2.0])))
3.0

Names are imported when they are first used, so ``import grilly`` loads neither NumPy nor a backend.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

import grilly_core
from grilly_core import __version__ as __version__

if TYPE_CHECKING:
    from grilly_core import *  # noqa: F403

__all__ = list(grilly_core.__all__)
_SUBMODULES: Final = frozenset(
    [
        "amp",
        "autograd",
        "cli",
        "data",
        "decoding",
        "fft",
        "functional",
        "io",
        "linalg",
        "lora",
        "nn",
        "optim",
        "random",
        "retrieval",
        "special",
        "testing",
        "training",
    ]
)


def __getattr__(name: str) -> Any:
    """Find a public name in core, then in the installed extensions (PEP 562)."""
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in __all__ or name == "__array_namespace_info__":
        value = getattr(grilly_core, name)
    elif name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        loader = importlib.import_module("grilly_core.plugins.loader")
        value = loader.load_public("", name, __dir__())
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    loader = importlib.import_module("grilly_core.plugins.loader")
    return sorted({*__all__, *_SUBMODULES, *loader.public_names(""), "__version__"})
