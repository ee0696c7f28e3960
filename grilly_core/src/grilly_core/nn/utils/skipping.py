"""Making modules whose first values are not drawn, because others will be loaded."""

from __future__ import annotations

from typing import Any, TypeVar

from grilly_core.nn import init
from grilly_core.nn.module import Module

__all__ = ["skip_init"]

M = TypeVar("M", bound=Module)


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """Make a module without drawing the first values of its parameters, which takes most of the time.

    What would be drawn is zero instead (memory without a value does not exist here), and no generator moves.

    Parameters
    ----------
    module_cls : type
        A class of modules.
    *args, **kwargs
        What it is made with.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.utils.skip_init(grilly.nn.Linear, 2, 1)
    >>> layer.weight.tolist()
    [[0.0, 0.0]]
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise TypeError(f"skip_init: expected a class of modules; received {module_cls!r}.")
    with init._nothing_drawn():
        return module_cls(*args, **kwargs)
