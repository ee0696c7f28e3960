"""Finding the layers that a configuration names, and putting others in their places."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grilly_core.lora.adapter import Adapter
from grilly_core.lora.config import LoRAConfig
from grilly_core.lora.conv import LoRAConv
from grilly_core.lora.fused import LoRAMultiheadAttention
from grilly_core.lora.layer import LoRALayer
from grilly_core.lora.linear import LoRAEmbedding, LoRALinear
from grilly_core.lora.saved import SavedModule
from grilly_core.nn.attention import MultiheadAttention
from grilly_core.nn.conv import _Conv
from grilly_core.nn.linear import Embedding, Linear
from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter

__all__ = ["Plan", "biases", "outer_modules", "plan", "substitute"]

_KINDS: tuple[tuple[type, Any], ...] = (
    (Linear, LoRALinear), (Embedding, LoRAEmbedding), (_Conv, LoRAConv), (MultiheadAttention, LoRAMultiheadAttention)
)  # fmt: skip


@dataclass
class Plan:
    """What an adapter adds to a model: by name, what stands there, what will, and what it gets."""

    layers: dict[str, tuple[Module, LoRALayer, Adapter]] = field(default_factory=dict)
    copies: dict[str, tuple[Module, SavedModule, Module]] = field(default_factory=dict)


def outer_modules(
    model: Module, prefix: str = "", seen: set[int] | None = None
) -> Iterator[tuple[str, Module]]:
    """Yield the modules below with their names; inside adapted layers only what is adapted with them."""
    seen = set() if seen is None else seen
    for name, child in model._of_kind("module"):
        if id(child) in seen:
            continue
        seen.add(id(child))
        path = f"{prefix}.{name}" if prefix else name
        yield path, child
        if isinstance(child, LoRALayer):
            yield from ((f"{path}.{inner}", part) for inner, part in child.inner_layers())
        elif not isinstance(child, SavedModule):
            yield from outer_modules(child, path, seen)


def named(names: str | Sequence[str] | None, key: str) -> bool:
    """Return whether a regular expression matches the whole key, or a name is the key or its end."""
    if not names:
        return False
    if isinstance(names, str):
        return re.fullmatch(names, key) is not None
    return any(key == name or key.endswith(f".{name}") for name in names)


def plan(model: Module, config: LoRAConfig) -> Plan:
    """Find what `config` names and build the adapters; the model is not changed."""
    made, taken = Plan(), set[int]()  # layers inside others that have their adapters
    modules = dict(outer_modules(model))
    for name, module in modules.items():
        inside = any(name.startswith(f"{outer}.") for outer in made.copies)
        if not inside and named(config.modules_to_save, name):
            saved = module if isinstance(module, SavedModule) else SavedModule(_unadapted(name, module))
            made.copies[name] = (module, saved, saved.copied())
    for name, module in modules.items():
        inside = any(f"{name}.".startswith(f"{outer}.") for outer in made.copies)
        if not inside and id(module) not in taken and _targeted(config, name, module):
            layer = module if isinstance(module, LoRALayer) else _adapted(name, module)
            settings = config.for_module(name)
            made.layers[name] = (module, layer, layer.make_adapter(settings))
            for inner, part in layer.inner_layers():
                wrapped = part if isinstance(part, LoRALayer) else layer.wrap_inner(part)
                made.layers[f"{name}.{inner}"] = (part, wrapped, wrapped.make_adapter(settings))
                taken.add(id(part))
    _check_found(config, modules, made)
    return made


def _targeted(config: LoRAConfig, name: str, module: Module) -> bool:
    if named(config.exclude_modules, name):
        return False
    if config.target_modules == "all-linear":
        return isinstance(module, Linear | LoRALinear)
    return named(config.target_modules, name)


def _unadapted(name: str, module: Module) -> Module:
    if isinstance(module, LoRALayer) or any(isinstance(m, LoRALayer) for m in module.modules()):
        raise ValueError(f"modules_to_save: {name!r} has adapters already; unload them first.")
    return module


def _adapted(name: str, module: Module) -> LoRALayer:
    for kind, wrapper in _KINDS:
        if isinstance(module, kind):
            made: LoRALayer = wrapper.around(module)
            return made
    raise ValueError(
        f"target_modules: {name!r} is a {type(module).__name__}, which takes no adapter; only Linear, Embedding, "
        "the convolutions and MultiheadAttention do."
    )


def _check_found(config: LoRAConfig, modules: Mapping[str, Module], made: Plan) -> None:
    for what, names, found in (
        ("target_modules", config.target_modules, made.layers),
        ("modules_to_save", config.modules_to_save or (), made.copies),
    ):
        if names and not found:
            fitting = [n for n, m in modules.items() if isinstance(m, (*(k for k, _ in _KINDS), LoRALayer))]
            offered = fitting if what == "target_modules" else list(modules)
            raise ValueError(f"{what}: nothing is called {names!r}; the model has {offered}.")
        absent = (
            [] if isinstance(names, str) else [n for n in names if not any(named([n], m) for m in modules)]
        )
        if absent:
            warnings.warn(f"{what}: the model has nothing called {absent}.", UserWarning, stacklevel=5)


def substitute(model: Module, changes: Mapping[int, Module]) -> None:
    """Put modules in the places of others, given by the `id` of what stands there, wherever those are used."""
    for _, module in [("", model), *outer_modules(model)]:
        if isinstance(module, LoRALayer):
            for _, part in module.inner_layers():
                if id(part) in changes:
                    module.substitute_inner(changes[id(part)])
        if isinstance(module, LoRALayer | SavedModule):
            continue
        for name, child in list(module._of_kind("module")):
            if id(child) in changes:
                _put(module, name.split("."), changes[id(child)])


def _put(holder: Any, path: list[str], new: Module) -> Any:
    """Return `holder` with `new` at `path`; only tuples are built anew."""
    if not path:
        return new
    key, rest = path[0], path[1:]
    if isinstance(holder, tuple):
        members = list(holder)
        members[int(key)] = _put(members[int(key)], rest, new)
        return type(holder)(*members) if hasattr(holder, "_fields") else type(holder)(members)
    if isinstance(holder, list):
        holder[int(key)] = _put(holder[int(key)], rest, new)
    elif isinstance(holder, dict):
        key = next(k for k in holder if str(k) == key)
        holder[key] = _put(holder[key], rest, new)
    else:
        setattr(holder, key, _put(getattr(holder, key), rest, new))
    return holder


def biases(model: Module, kind: str, planned: Plan | None = None) -> dict[str, Parameter]:
    """Return the biases that are trained with an adapter, by their names in its file.

    `planned` is what will be put into the model; it counts as being there.
    """
    found: dict[str, Parameter] = {}
    if kind == "none":
        return found
    made = planned or Plan()
    copied = tuple(f"{name}." for name in made.copies)
    future = {
        id(old): name for name, (old, _, _) in made.layers.items()
    }  # layers inside others get new names
    for present, module in [("", model), *outer_modules(model)]:
        name = future.get(id(module), present)
        holder = made.layers[name][1] if name in made.layers else module
        if isinstance(holder, LoRALayer):
            if holder.bias is not None:
                found[f"{name}.base_layer.bias"] = holder.bias
        elif kind == "all" and not isinstance(holder, SavedModule) and not f"{name}.".startswith(copied):
            for key, parameter in module._of_kind("parameter"):
                if key == "bias":
                    found[f"{name}.bias" if name else "bias"] = parameter
    return found
