"""Checkpoints: any nesting of dicts, lists, numbers, strings and tensors in one safetensors file.

The tensors are the file's tensors; the rest is a JSON manifest in its header, with a format tag and a version. One
file, so that it can be replaced in one rename; nothing in it can run code.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, Final

import numpy as np

from grilly_core.device import Device
from grilly_core.dtypes import from_numpy
from grilly_core.errors import FileFormatError
from grilly_core.io.safetensors import read_arrays, write_arrays
from grilly_core.ops.creation import asarray
from grilly_core.tensor import Tensor

__all__ = ["load_checkpoint", "load_tree", "save_checkpoint", "save_tree"]

_KEY: Final = "grilly"
_FORMAT: Final = "grilly-checkpoint"
_VERSION: Final = 1


def save_tree(tree: Any, path: str | os.PathLike[str]) -> Path:
    """Save a nesting of dicts, lists, tuples, numbers, strings, None, tensors and arrays.

    Examples
    --------
    >>> import grilly_core as grilly, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "state"
    >>> _ = grilly.io.save_tree({"epoch": 3, "x": grilly.ones(2)}, path)
    >>> grilly.io.load_tree(path)["epoch"]
    3
    """
    arrays: dict[str, Any] = {}
    manifest = {"format": _FORMAT, "version": _VERSION, "tree": _encoded(tree, "", arrays)}
    return write_arrays(path, arrays, {_KEY: json.dumps(manifest, allow_nan=False)})


def _encoded(value: Any, where: str, arrays: dict[str, Any]) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, Tensor | np.ndarray | np.generic):
        name = where or "value"
        while name in arrays:  # a key that holds dots may spell another one's path
            name += "_"
        arrays[name] = value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)
        return {"$tensor": name}
    if isinstance(value, dict):
        if all(isinstance(k, str) and not k.startswith("$") for k in value):
            return {k: _encoded(v, f"{where}.{k}" if where else k, arrays) for k, v in value.items()}
        items = [(_encoded(k, "", {}), _encoded(v, f"{where}.{k}", arrays)) for k, v in value.items()]
        return {"$items": items}
    if isinstance(value, list | tuple):
        items = [_encoded(v, f"{where}.{i}", arrays) for i, v in enumerate(value)]
        return {"$tuple": items} if isinstance(value, tuple) else items
    raise TypeError(
        f"a checkpoint holds dicts, lists, numbers, strings, None and tensors; {where or 'it'} is "
        f"{type(value).__name__}."
    )


def load_tree(path: str | os.PathLike[str], device: Device | str | None = None) -> Any:
    """Load what `save_tree` saved.

    Raises
    ------
    FileFormatError
        If the file is not a checkpoint, truncated, or of a newer version.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "state"
    >>> _ = grilly.io.save_tree([1, ("a", None)], path)
    >>> grilly.io.load_tree(path)
    [1, ('a', None)]
    """
    arrays, metadata = read_arrays(path)
    manifest = _manifest(Path(path), metadata)
    tensors = {
        name: asarray(array, dtype=from_numpy(array.dtype), device=device) for name, array in arrays.items()
    }
    try:
        return _decoded(manifest["tree"], tensors)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: the manifest is damaged: {error!r}.") from error


def _manifest(source: Path, metadata: dict[str, str]) -> dict[str, Any]:
    if _KEY not in metadata:
        raise FileFormatError(
            f"{source}: a safetensors file, but no checkpoint; load its tensors with load_file."
        )
    try:
        manifest = json.loads(metadata[_KEY])
        tag, version = manifest["format"], manifest["version"]
    except (json.JSONDecodeError, KeyError, TypeError, RecursionError) as error:
        raise FileFormatError(f"{source}: the checkpoint's manifest is not readable ({error!r}).") from error
    if tag != _FORMAT or version != _VERSION:
        raise FileFormatError(
            f"{source}: holds {tag!r} version {version!r}; this release reads {_FORMAT!r} version {_VERSION}."
        )
    return dict(manifest)


def _decoded(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_decoded(v, tensors) for v in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (tag, content), *_ = value.items()
        if tag == "$tensor":
            return tensors[content]
        if tag == "$float":
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[content]
        if tag == "$tuple":
            return tuple(_decoded(v, tensors) for v in content)
        if tag == "$items":
            return {_decoded(k, tensors): _decoded(v, tensors) for k, v in content}
    return {k: _decoded(v, tensors) for k, v in value.items()}


def save_checkpoint(
    path: str | os.PathLike[str],
    model: Any = None,
    optimizer: Any = None,
    scheduler: Any = None,
    *,
    epoch: int = 0,
    loss: float | None = None,
    metadata: Any = None,
    **extra: Any,
) -> Path:
    """Save everything a training run needs to go on.

    Parameters
    ----------
    path : path
        The file, exactly as given.
    model, optimizer, scheduler : object or dict, optional
        Anything with a ``state_dict()``, or a state dict.
    epoch : int
    loss : float, optional
        NaN stays NaN.
    metadata : dict, optional
        Anything `save_tree` can save.
    **extra
        Further state, by name.

    Returns
    -------
    Path
        The file written.

    Examples
    --------
    >>> import grilly_core as grilly, tempfile, pathlib
    >>> path, model = pathlib.Path(tempfile.mkdtemp()) / "run", grilly.nn.Linear(2, 3)
    >>> _ = grilly.io.save_checkpoint(path, model, epoch=4)
    >>> grilly.io.load_checkpoint(path, model)["epoch"]
    4
    """
    from grilly_core.random import get_state

    tree = {
        "model": _state_of(model),
        "optimizer": _state_of(optimizer),
        "scheduler": _state_of(scheduler),
        "epoch": epoch,
        "loss": None if loss is None else float(loss),
        "rng": list(get_state()),
        "metadata": metadata,
    }
    taken = set(tree) & set(extra)
    if taken:
        raise TypeError(f"save_checkpoint: {sorted(taken)} cannot be extra names.")
    return save_tree({**tree, **extra}, path)


def _state_of(part: Any) -> Any:
    return part.state_dict() if hasattr(part, "state_dict") else part


def load_checkpoint(
    path: str | os.PathLike[str],
    model: Any = None,
    optimizer: Any = None,
    scheduler: Any = None,
    *,
    strict: bool = True,
    restore_rng: bool = False,
    device: Device | str | None = None,
) -> dict[str, Any]:
    """Load a checkpoint, into the given objects and as a dict.

    Parameters
    ----------
    path : path
    model, optimizer, scheduler : object, optional
        Receive their states through ``load_state_dict``.
    strict : bool
        For the model; see `Module.load_state_dict`.
    restore_rng : bool
        Also set the default random generator.
    device : Device or str, optional
        Where the dict's tensors are put.

    Returns
    -------
    dict
        With the names `save_checkpoint` was given.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> import tempfile, pathlib
    >>> path, model = pathlib.Path(tempfile.mkdtemp()) / "run", grilly.nn.Linear(2, 3)
    >>> _ = grilly.io.save_checkpoint(path, model, epoch=4, best=0.5)
    >>> grilly.io.load_checkpoint(path, model)["best"]
    0.5
    """
    tree = load_tree(path, device)
    if not isinstance(tree, dict) or not {"model", "optimizer", "scheduler", "epoch", "rng"} <= set(tree):
        raise FileFormatError(f"{path}: holds a tree that is no training checkpoint; read it with load_tree.")
    for name, part in (("model", model), ("optimizer", optimizer), ("scheduler", scheduler)):
        if part is None:
            continue
        if tree[name] is None:
            raise FileFormatError(f"{path}: the checkpoint has no {name}.")
        if name == "model":
            part.load_state_dict(tree[name], strict=strict)
        else:
            part.load_state_dict(tree[name])
    if restore_rng:
        from grilly_core.random import set_state

        set_state(tuple(tree["rng"]))
    return tree
