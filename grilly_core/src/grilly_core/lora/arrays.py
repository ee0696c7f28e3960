"""Adapters in plain NumPy files: ``config.json``, ``adapters.npz`` and ``metadata.json``, without pickle."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from grilly_core.apply import as_tensor
from grilly_core.atomic import atomic_write
from grilly_core.config import no_grad
from grilly_core.errors import FileFormatError, StateDictError
from grilly_core.lora.config import LoRAConfig
from grilly_core.lora.layer import LoRALayer
from grilly_core.lora.model import LoRAModel
from grilly_core.lora.targets import plan
from grilly_core.nn.module import Module
from grilly_core.tensor import Tensor

__all__ = ["load_checkpoint", "save_checkpoint"]

CONFIG: Final = "config.json"
ARRAYS: Final = "adapters.npz"
METADATA: Final = "metadata.json"
_FORMAT: Final = "grilly-lora-adapters"
_VERSION: Final = 1


def save_checkpoint(
    model: LoRAModel,
    folder: str | os.PathLike[str],
    adapter_name: str = "default",
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Write an adapter as NumPy arrays; the base model's weights are not among them.

    Parameters
    ----------
    model : LoRAModel
    folder : path-like
        Made if it is not there. ``config.json`` has the settings, ``adapters.npz`` the arrays ``{layer}_lora_A``,
        ``{layer}_lora_B``, with DoRA ``{layer}_magnitude``, and ``{layer}_bias`` of biases that are trained,
        ``metadata.json`` the sizes of each layer.
    adapter_name : str
    metadata : mapping, optional
        Anything for JSON, such as the base model's name.

    Returns
    -------
    Path
        The folder. Each file is written whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> import grilly_core as grilly
    >>> from grilly_core import lora, nn
    >>> config = lora.LoRAConfig(2, target_modules=["0"])
    >>> model = lora.LoRAModel(nn.Sequential(nn.Linear(4, 4)), config)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(p.name for p in lora.save_checkpoint(model, folder).iterdir())
    ['adapters.npz', 'config.json', 'metadata.json']
    """
    if adapter_name not in model.configs:
        raise ValueError(f"no adapter is called {adapter_name!r}; there are {list(model.configs)}.")
    config = model.configs[adapter_name]
    if config.modules_to_save or config.bias == "all":
        raise ValueError(
            "save_checkpoint: modules_to_save and bias='all' have no place in this layout; use save_pretrained()."
        )
    layers = {n: m for n, m in model.lora_layers().items() if adapter_name in m.adapters}
    arrays: dict[str, Any] = {}
    sizes: dict[str, Any] = {}
    for name, layer in layers.items():
        adapter = layer.adapters[adapter_name]
        cells = _cells(name, layer, adapter, config)
        arrays |= {key: cell.detach().cpu().numpy() for key, cell in cells.items()}
        sizes[name] = {
            "in_features": adapter.lora_A.shape[1], "out_features": adapter.lora_B.shape[0],
            "rank": adapter.lora_A.shape[0], "alpha": adapter.alpha,
        }  # fmt: skip
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **arrays)
    head = {"format": _FORMAT, "version": _VERSION, "layers": sizes, "metadata": dict(metadata or {})}
    with atomic_write(target / ARRAYS) as file:
        file.write(packed.getvalue())
    for name, content in ((CONFIG, config.to_dict()), (METADATA, head)):
        with atomic_write(target / name) as file:
            file.write(json.dumps(content, indent=2, sort_keys=True).encode())
    return target


def _cells(name: str, layer: LoRALayer, adapter: Any, config: LoRAConfig) -> dict[str, Tensor]:
    """Return what is kept of a layer, by its key."""
    found = {f"{name}_lora_A": adapter.lora_A, f"{name}_lora_B": adapter.lora_B}
    if adapter.magnitude is not None:
        found[f"{name}_magnitude"] = adapter.magnitude
    if config.bias != "none" and layer.bias is not None:
        found[f"{name}_bias"] = layer.bias
    return found


def load_checkpoint(
    model: Module, folder: str | os.PathLike[str], adapter_name: str = "default"
) -> tuple[LoRAModel, dict[str, Any]]:
    """Put the adapter that `save_checkpoint` wrote on a model with the same base weights.

    Parameters
    ----------
    model : Module
        Not adapted yet; it stays as it is after an error.
    folder : path-like
    adapter_name : str
        What the adapter is called from now on.

    Returns
    -------
    model : LoRAModel
    metadata : dict
        What was given to `save_checkpoint`.

    Raises
    ------
    FileFormatError
        If a file is missing, damaged or foreign.
    StateDictError
        If the arrays do not fit the model, naming each key.
    """
    source = Path(folder)
    head = _json(source / METADATA)
    if head.get("format") != _FORMAT or head.get("version") != _VERSION:
        raise FileFormatError(
            f"{source / METADATA}: expected format {_FORMAT!r}, version {_VERSION}; found {head.get('format')!r}, "
            f"{head.get('version')!r}."
        )
    try:
        config = LoRAConfig.from_dict(_json(source / CONFIG))
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"{source / CONFIG}: {error}") from error
    arrays = _arrays(source / ARRAYS)
    _check(arrays, model, config)
    made = LoRAModel(model, config, adapter_name)
    with no_grad():
        for name, layer in made.lora_layers().items():
            for key, cell in _cells(name, layer, layer.adapters[adapter_name], config).items():
                cell.copy_(as_tensor(arrays[key], cell, dtype=cell.dtype))
    return made, dict(head.get("metadata", {}))


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read: {error}.") from error
    except ValueError as error:
        raise FileFormatError(f"{path}: not a JSON file: {error}.") from error
    if not isinstance(content, dict):
        raise FileFormatError(f"{path}: expected a JSON object; found {type(content).__name__}.")
    return content


def _arrays(path: Path) -> dict[str, Any]:
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # NumPy and zipfile raise many kinds for damaged files
        raise FileFormatError(f"{path}: no file of plain arrays: {error}.") from error


def _check(arrays: Mapping[str, Any], model: Module, config: LoRAConfig) -> None:
    """Raise unless the arrays are exactly those that the model would have with these settings."""
    wanted: dict[str, Tensor] = {}
    for name, (_, layer, adapter) in plan(model, config).layers.items():
        wanted |= _cells(name, layer, adapter, config)
    problems = [f"{key}: missing" for key in wanted if key not in arrays]
    problems += [f"{key}: unexpected" for key in arrays if key not in wanted]
    problems += [
        f"{key}: the model needs shape {tuple(cell.shape)}, the file has {tuple(arrays[key].shape)}"
        for key, cell in wanted.items()
        if key in arrays and tuple(arrays[key].shape) != tuple(cell.shape)
    ]
    if problems:
        raise StateDictError(
            "the adapter file does not fit the model, and nothing was loaded:\n  " + "\n  ".join(problems)
        )
