"""`LoRAModel`: a model whose layers have adapters, several at once if wanted."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from grilly_core.lora import files
from grilly_core.lora.config import LoRAConfig
from grilly_core.lora.layer import DEFAULT, LoRALayer
from grilly_core.lora.saved import SavedModule
from grilly_core.lora.targets import Plan, biases, outer_modules, plan, substitute
from grilly_core.nn import state
from grilly_core.nn.module import Module

__all__ = ["LoRAModel", "get_peft_model"]


class LoRAModel(Module):
    """A frozen model with adapters at the layers that a configuration names.

    The layers are replaced inside `model` itself. Attributes that are not found here are the model's.

    Parameters
    ----------
    model : Module
    config : LoRAConfig
    adapter_name : str
        Name of the first adapter.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> from grilly_core import lora, nn
    >>> model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    >>> adapted = lora.LoRAModel(model, lora.LoRAConfig(rank=2, target_modules=["0"]))
    >>> adapted.print_trainable_parameters()
    trainable params: 256 || all params: 5,066 || trainable%: 5.0533
    """

    model: Module

    def __init__(self, model: Module, config: LoRAConfig, adapter_name: str = DEFAULT) -> None:
        super().__init__()
        self._prepare(model)
        self.add_adapter(adapter_name, config)

    def _prepare(self, model: Module) -> None:
        self.model = model
        self.training = model.training
        self._configs: dict[str, LoRAConfig] = {}
        self._mix: dict[str, float] = {}
        self._enabled = True

    def __getattr__(self, name: str) -> Any:
        """Find what is missing here in the model."""
        if name.startswith("_") or "model" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.__dict__["model"], name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model."""
        return self.model(*args, **kwargs)

    # -- adapters ------------------------------------------------------------------------------------------

    @property
    def configs(self) -> dict[str, LoRAConfig]:
        """The settings of each adapter."""
        return dict(self._configs)

    @property
    def active_adapters(self) -> dict[str, float]:
        """The weight of each adapter in the mixture that is active."""
        return dict(self._mix)

    def lora_layers(self) -> dict[str, LoRALayer]:
        """Return the layers with adapters by name."""
        return {n: m for n, m in outer_modules(self.model) if isinstance(m, LoRALayer)}

    def saved_modules(self) -> dict[str, SavedModule]:
        """Return the modules that adapters train whole, by name."""
        return {n: m for n, m in outer_modules(self.model) if isinstance(m, SavedModule)}

    def get_layer(self, name: str) -> LoRALayer:
        """Return one layer with adapters."""
        layers = self.lora_layers()
        if name not in layers:
            raise KeyError(f"get_layer: no adapted layer is called {name!r}; there are {list(layers)}.")
        return layers[name]

    def add_adapter(self, adapter_name: str, config: LoRAConfig) -> Self:
        """Add an adapter and make it the active one; the model is unchanged after an error. Returns the model."""
        self._check_new(adapter_name, config)
        self._take(adapter_name, config, plan(self.model, config))
        return self.set_adapter(adapter_name)

    def _check_new(self, name: str, config: LoRAConfig) -> None:
        self._refuse_merged("add_adapter")
        if not isinstance(config, LoRAConfig):
            raise TypeError(f"config: expected a LoRAConfig; received {type(config).__name__}.")
        if not isinstance(name, str) or not name or "." in name:
            raise ValueError(f"adapter_name: expected a non-empty string without dots; received {name!r}.")
        if name in self._configs:
            raise ValueError(
                f"adapter_name: there is an adapter {name!r} already; delete it or take another name."
            )
        if config.bias != "none" and self._configs:
            raise ValueError("bias: only a model's first adapter can train biases, which all adapters share.")

    def _take(self, name: str, config: LoRAConfig, planned: Plan) -> None:
        if not self._configs:
            self.model.requires_grad_(False)
        every: list[tuple[Module, Any, Module]] = [*planned.layers.values(), *planned.copies.values()]
        substitute(self.model, {id(old): new for old, new, _ in every if old is not new})
        for _, holder, part in every:
            holder.attach(name, part)
        self._configs[name] = config

    def set_adapter(self, adapter_name: str | Sequence[str]) -> Self:
        """Make one adapter, or several that add up, the active ones; only they are trained. Returns the model."""
        names = [adapter_name] if isinstance(adapter_name, str) else list(adapter_name)
        return self.mix(dict.fromkeys(names, 1.0))

    def mix(self, weights: Mapping[str, float]) -> Self:
        """Activate a mixture: updates are added up with the given weights, whatever their ranks. Returns the model.

        Examples
        --------
        >>> import grilly_core as grilly
        >>> from grilly_core.lora import LoRAConfig, LoRAModel
        >>> model = LoRAModel(grilly.nn.Sequential(grilly.nn.Linear(4, 4)), LoRAConfig(4, target_modules=["0"]))
        >>> model.add_adapter("other", LoRAConfig(2, target_modules=["0"])).mix({"default": 0.3, "other": 0.7})
        ... # doctest: +ELLIPSIS
        LoRAModel(...
        """
        self._refuse_merged("mix")
        unknown = [name for name in weights if name not in self._configs]
        if unknown:
            raise ValueError(f"no adapter is called {unknown}; there are {list(self._configs)}.")
        for path, saved in self.saved_modules().items():
            claims = [name for name in weights if name in saved.copies]
            if len(claims) > 1:
                raise ValueError(
                    f"{claims} each have a copy of {path!r} of their own, and copies do not mix."
                )
        self._mix = {name: float(w) for name, w in weights.items()}
        for layer in self.lora_layers().values():
            layer.set_active({name: w for name, w in self._mix.items() if name in layer.adapters})
        for saved in self.saved_modules().values():
            saved.set_active(self._mix)
        for name, config in self._configs.items():
            for bias in biases(self.model, config.bias).values():
                bias.requires_grad_(name in self._mix)
        return self

    def delete_adapter(self, adapter_name: str) -> None:
        """Forget an adapter; the layers stay adapted."""
        self._refuse_merged("delete_adapter")
        if adapter_name not in self._configs:
            raise ValueError(f"no adapter is called {adapter_name!r}; there are {list(self._configs)}.")
        for holder in self._holders():
            holder.delete_adapter(adapter_name)
        del self._configs[adapter_name]
        self._mix.pop(adapter_name, None)

    def _holders(self) -> list[LoRALayer | SavedModule]:
        return [*self.lora_layers().values(), *self.saved_modules().values()]

    def enable_adapters(self) -> None:
        """Let the active adapters act."""
        self._enable(True)

    def disable_adapters(self) -> None:
        """Compute as the model did before; merged adapters are unmerged."""
        self._enable(False)

    def _enable(self, enabled: bool) -> None:
        self._enabled = enabled
        for layer in self.lora_layers().values():
            layer.enable_lora() if enabled else layer.disable_lora()
        for saved in self.saved_modules().values():
            saved.enable(enabled)

    @contextmanager
    def disable_adapter(self) -> Iterator[None]:
        """Disable adapters in a ``with`` block; what was merged is merged again at its end."""
        enabled, merged = self._enabled, self.merged
        self.disable_adapters()
        try:
            yield
        finally:
            self._enable(enabled)
            if merged:
                self.merge_weights()

    # -- merging -------------------------------------------------------------------------------------------

    @property
    def merged(self) -> bool:
        """Whether the updates are in the weights."""
        return any(layer.merged for layer in self.lora_layers().values())

    def _refuse_merged(self, what: str) -> None:
        if self.merged:
            raise RuntimeError(
                f"{what}: the adapters are merged into the weights; call unmerge_weights() first."
            )

    def merge_weights(self) -> None:
        """Write the active mixture into the weights, all or none; merging twice is merging once."""
        if self.merged:
            warnings.warn("merge_weights: the adapters are merged already.", UserWarning, stacklevel=2)
            return
        if not self._enabled:
            raise RuntimeError("merge_weights: the adapters are disabled; call enable_adapters() first.")
        layers = [layer for layer in self.lora_layers().values() if layer._mix]
        for layer, weight in [(layer, layer.merged_weight()) for layer in layers]:
            layer._install(weight)

    def unmerge_weights(self) -> None:
        """Bring the original weights back, bit for bit."""
        if not self.merged:
            warnings.warn("unmerge_weights: nothing is merged.", UserWarning, stacklevel=2)
        for layer in self.lora_layers().values():
            if layer.merged:
                layer.unmerge_weights()

    def merge_and_unload(self) -> Module:
        """Return the model with the active mixture in its weights and no adapters."""
        if not self.merged:
            self.merge_weights()
        return self._plain(lambda saved: saved.current)

    def unload(self) -> Module:
        """Return the model as it was before, without adapters; trained biases stay."""
        if self.merged:
            self.unmerge_weights()
        return self._plain(lambda saved: saved.original)

    def _plain(self, choose: Any) -> Module:
        changes = {id(layer): layer.base_layer for layer in self.lora_layers().values()}
        changes |= {id(saved): choose(saved) for saved in self.saved_modules().values()}
        substitute(self.model, changes)
        self._configs.clear()
        self._mix.clear()
        return self.model

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> state.IncompatibleKeys:
        """Copy values in, as `Module.load_state_dict`; refused while merged, for unmerging would undo it."""
        self._refuse_merged("load_state_dict")
        return super().load_state_dict(state_dict, strict)

    # -- counting ------------------------------------------------------------------------------------------

    def get_nb_trainable_parameters(self) -> tuple[int, int]:
        """Return how many numbers are trained, and how many there are."""
        sizes = [(p.requires_grad, p.numel()) for p in self.parameters()]
        return sum(n for learnt, n in sizes if learnt), sum(n for _, n in sizes)

    def print_trainable_parameters(self) -> None:
        """Print how much of the model is trained."""
        learnt, total = self.get_nb_trainable_parameters()
        share = 100 * learnt / total
        print(f"trainable params: {learnt:,} || all params: {total:,} || trainable%: {share:.4f}")

    # -- files ---------------------------------------------------------------------------------------------

    def save_pretrained(self, folder: str | os.PathLike[str], adapter_name: str | None = None) -> Path:
        """Write an adapter to ``adapter_config.json`` and ``adapter_model.safetensors`` as peft names things.

        The base model's weights are not in them. Each file is written whole or not at all. Without a name the only
        active adapter is written. Returns the folder.
        """
        if adapter_name is None:
            if len(self._mix) != 1:
                raise ValueError(f"save_pretrained: name an adapter; {list(self._mix)} are active.")
            adapter_name = next(iter(self._mix))
        if adapter_name not in self._configs:
            raise ValueError(f"no adapter is called {adapter_name!r}; there are {list(self._configs)}.")
        config = self._configs[adapter_name]
        holders = self.lora_layers(), self.saved_modules()
        return files.save(
            folder, config, files.entries(adapter_name, *holders, biases(self.model, config.bias))
        )

    def load_adapter(self, folder: str | os.PathLike[str], adapter_name: str = DEFAULT) -> Self:
        """Add an adapter from a folder that `save_pretrained` or peft wrote, and make it the active one.

        After an error the model is as it was. Returns the model.

        Raises
        ------
        FileFormatError
            If a file is truncated or foreign.
        StateDictError
            If it does not fit the model, naming each key.
        """
        config, arrays = files.read(folder)
        self._check_new(adapter_name, config)
        planned = plan(self.model, config)
        files.fill(arrays, planned, biases(self.model, config.bias, planned))
        self._take(adapter_name, config, planned)
        return self.set_adapter(adapter_name)

    @classmethod
    def from_pretrained(
        cls, model: Module, folder: str | os.PathLike[str], adapter_name: str = DEFAULT
    ) -> Self:
        """Return a model with the adapter of a folder; see `load_adapter`."""
        self = cls.__new__(cls)
        self._prepare(model)
        return self.load_adapter(folder, adapter_name)

    def extra_repr(self) -> str:
        """The adapters and which are active."""
        return f"adapters={list(self._configs)}, active={list(self._mix)}"


def get_peft_model(model: Module, config: LoRAConfig, adapter_name: str = DEFAULT) -> LoRAModel:
    """Return `model` with adapters; see `LoRAModel`."""
    return LoRAModel(model, config, adapter_name)
