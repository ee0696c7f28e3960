"""Adapter files with peft's names: ``adapter_config.json`` and ``adapter_model.safetensors``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from grilly_core.apply import as_tensor
from grilly_core.atomic import atomic_write
from grilly_core.config import no_grad
from grilly_core.errors import FileFormatError, StateDictError
from grilly_core.io.safetensors import read_arrays, save_file
from grilly_core.lora.config import LoRAConfig
from grilly_core.lora.layer import LoRALayer
from grilly_core.lora.saved import SavedModule
from grilly_core.lora.targets import Plan
from grilly_core.nn.parameter import Parameter
from grilly_core.tensor import Tensor

__all__ = ["CONFIG", "WEIGHTS", "entries", "fill", "read", "save"]

CONFIG: Final = "adapter_config.json"
WEIGHTS: Final = "adapter_model.safetensors"
_PREFIX: Final = "base_model.model."

_NAMES: Final = {  # peft's: ours
    "r": "rank", "lora_alpha": "alpha", "lora_dropout": "dropout", "target_modules": "target_modules", "bias": "bias",
    "modules_to_save": "modules_to_save", "use_rslora": "use_rslora", "use_dora": "use_dora",
    "rank_pattern": "rank_pattern", "alpha_pattern": "alpha_pattern", "exclude_modules": "exclude_modules",
}  # fmt: skip
#: Settings that say nothing about what the adapter computes once its values are loaded.
_IRRELEVANT: Final = {
    "auto_mapping", "base_model_name_or_path", "corda_config", "ensure_weight_tying", "eva_config", "inference_mode",
    "init_lora_weights", "loftq_config", "lora_ga_config", "megatron_core", "peft_type", "peft_version",
    "qalora_group_size", "revision", "runtime_config", "task_type",
}  # fmt: skip
_INITS: Final = {"kaiming": True, "gaussian": "gaussian", "random": False, "zeros": False}


# -- settings ----------------------------------------------------------------------------------------------


def to_peft(config: LoRAConfig) -> dict[str, Any]:
    """Return the settings under peft's names."""
    content = config.to_dict()
    return {
        "peft_type": "LORA", "task_type": None, "base_model_name_or_path": None, "inference_mode": True,
        "fan_in_fan_out": False, "init_lora_weights": _INITS[config.init_lora_weights],
        **{theirs: content[ours] for theirs, ours in _NAMES.items()},
    }  # fmt: skip


def from_peft(content: Mapping[str, Any], source: Path) -> LoRAConfig:
    """Return settings from peft's; those that would change what is computed and are not known here are refused."""
    if content.get("peft_type") != "LORA":
        raise FileFormatError(
            f"{source}: peft_type is {content.get('peft_type')!r}; only 'LORA' can be loaded."
        )
    foreign = [k for k, v in content.items() if v and k not in _NAMES and k not in _IRRELEVANT]
    if foreign:
        raise FileFormatError(f"{source}: the settings {sorted(foreign)} are not supported here.")
    given = {ours: content[theirs] for theirs, ours in _NAMES.items() if content.get(theirs) is not None}
    if "target_modules" not in given or "rank" not in given:
        raise FileFormatError(f"{source}: 'r' and 'target_modules' are needed.")
    init = {True: "kaiming", False: "random", "gaussian": "gaussian"}.get(
        content.get("init_lora_weights", True)
    )
    try:
        return LoRAConfig(**given, init_lora_weights=init or "kaiming")
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"{source}: {error}") from error


# -- writing -----------------------------------------------------------------------------------------------


def _cells(layer: LoRALayer, adapter: Any) -> dict[str, Parameter]:
    """Return an adapter's parameters by the ends of their names in a file."""
    if layer.lookup:
        found = {"lora_embedding_A": adapter.lora_A, "lora_embedding_B": adapter.lora_B}
    else:
        found = {"lora_A.weight": adapter.lora_A, "lora_B.weight": adapter.lora_B}
    return found if adapter.magnitude is None else {**found, "lora_magnitude_vector": adapter.magnitude}


def _file_shape(layer: LoRALayer, key: str, cell: Tensor) -> tuple[int, ...]:
    """Return a parameter's shape in a file: the lengths of filters have the axes of the weight there."""
    shape, axes = tuple(cell.shape), layer.original_weight.ndim
    return (1, *shape, *(1,) * (axes - 2)) if key == "lora_magnitude_vector" and axes > 2 else shape


def entries(
    name: str,
    layers: Mapping[str, LoRALayer],
    saved: Mapping[str, SavedModule],
    biases: Mapping[str, Parameter],
) -> dict[str, Tensor]:
    """Return what an adapter's file holds."""
    found: dict[str, Tensor] = {}
    for path, layer in layers.items():
        if name in layer.adapters:
            for key, cell in _cells(layer, layer.adapters[name]).items():
                found[f"{_PREFIX}{path}.{key}"] = cell.detach().reshape(_file_shape(layer, key, cell))
    for path, module in saved.items():
        if name in module.copies:
            for key, kept in module.copies[name].state_dict().items():
                found[f"{_PREFIX}{path}.{key}"] = kept
    return found | {f"{_PREFIX}{path}": bias.detach() for path, bias in biases.items()}


def save(folder: str | os.PathLike[str], config: LoRAConfig, tensors: Mapping[str, Tensor]) -> Path:
    """Write both files; see `LoRAModel.save_pretrained`."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    save_file(tensors, target / WEIGHTS, metadata={"format": "pt"})
    with atomic_write(target / CONFIG) as file:
        file.write(json.dumps(to_peft(config), indent=2, sort_keys=True).encode())
    return target


# -- reading -----------------------------------------------------------------------------------------------


def read(folder: str | os.PathLike[str]) -> tuple[LoRAConfig, dict[str, Any]]:
    """Return the settings of a folder, and its arrays by their names without the prefix."""
    source = Path(folder)
    settings, weights = source / CONFIG, source / WEIGHTS
    if not weights.exists() and (source / "adapter_model.bin").exists():
        raise FileFormatError(
            f"{source}: adapter_model.bin is a pickle, which is never loaded; save {WEIGHTS}."
        )
    try:
        content = json.loads(settings.read_bytes())
    except ValueError as error:
        raise FileFormatError(f"{settings}: not a JSON file: {error}.") from error
    if not isinstance(content, dict):
        raise FileFormatError(f"{settings}: expected a JSON object; found {type(content).__name__}.")
    config = from_peft(content, settings)
    arrays, _ = read_arrays(weights)
    return config, {_plain_name(name): array for name, array in arrays.items()}


def _plain_name(name: str) -> str:
    """Return a name without the prefix, and with ``.weight`` where peft has it."""
    name = name.removeprefix(_PREFIX)
    return re.sub(r"\.(lora_[AB])$", r".\1.weight", name)


def fill(arrays: Mapping[str, Any], planned: Plan, biases: Mapping[str, Parameter]) -> None:
    """Check the arrays against what is planned, then copy all of them in."""
    cells: dict[str, tuple[Tensor, tuple[int, ...]]] = {}
    for path, (_, layer, adapter) in planned.layers.items():
        for key, cell in _cells(layer, adapter).items():
            cells[f"{path}.{key}"] = cell, _file_shape(layer, key, cell)
    for path, (_, _, module) in planned.copies.items():
        for key, kept in module.state_dict(keep_vars=True).items():
            cells[f"{path}.{key}"] = kept, tuple(kept.shape)
    for path, bias in biases.items():
        cells[path] = bias, tuple(bias.shape)
    problems = [f"{name}: missing" for name in cells if name not in arrays]
    problems += [f"{name}: unexpected" for name in arrays if name not in cells]
    problems += [
        f"{name}: the model needs shape {shape}, the file has {tuple(arrays[name].shape)}"
        for name, (_, shape) in cells.items()
        if name in arrays and tuple(arrays[name].shape) != shape
    ]
    if problems:
        lines = "\n  ".join(problems)
        raise StateDictError(f"the adapter file does not fit the model, and nothing was loaded:\n  {lines}")
    with no_grad():
        ready = [
            (to, as_tensor(arrays[n], to, dtype=to.dtype).reshape(to.shape)) for n, (to, _) in cells.items()
        ]
        for to, value in ready:
            to.copy_(value.to(to.device, to.dtype))
