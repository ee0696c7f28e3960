"""`LoRALayer`: a frozen layer with low-rank updates beside it; the base of the kinds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.config import no_grad
from grilly_core.linalg import vector_norm
from grilly_core.lora.adapter import Adapter
from grilly_core.lora.config import LoRAConfig
from grilly_core.nn import state
from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter
from grilly_core.ops.math import isfinite, where
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = ["DEFAULT", "LoRALayer"]

DEFAULT = "default"


class LoRALayer(Module):
    """A layer whose weight W is frozen, with updates of low rank that are learnt.

    With the adapters that are active, each with a weight w of the mixture, the layer computes with
    ``W + sum(w * scaling * B @ A)``. Merging writes that sum into the layer and keeps W itself, so unmerging brings the
    very same bits back.

    Parameters
    ----------
    base_layer : Module
        The layer, which the first adapter freezes.

    Attributes
    ----------
    base_layer : Module
    adapters : dict of str to Adapter
    """

    out_axis: ClassVar[int] = 0  # of the weight: where its vectors, whose lengths DoRA learns, are counted
    lookup: ClassVar[bool] = False  # whether inputs are ids
    weight_name: ClassVar[str] = "weight"  # of what is updated, in the base layer
    base_layer: Any
    _original: Any

    def __init__(self, base_layer: Module) -> None:
        super().__init__()
        self.base_layer = base_layer
        self.training = base_layer.training
        self.adapters: dict[str, Adapter] = {}
        self._mix: dict[str, float] = {}
        self._enabled = True
        self.__dict__["_original"] = None  # not registered: while merged it is no part of the layer

    # -- what the kinds define -----------------------------------------------------------------------------

    def _shapes(self, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shapes of A and B."""
        raise NotImplementedError

    def _product(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the update of the weight that A and B stand for, without the scale."""
        raise NotImplementedError

    def _low_rank(self, input: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return what the update adds to the output, without the scale."""
        raise NotImplementedError

    def _plain(self, input: Tensor, weight: Tensor) -> Tensor:
        """Return the layer's output without its bias."""
        raise NotImplementedError

    def _along(self, factors: Tensor, output: Tensor) -> Tensor:
        """Reshape a factor for each weight vector so that it multiplies outputs."""
        raise NotImplementedError

    # -- layers inside, which get adapters of their own ------------------------------------------------------

    def inner_layers(self) -> Iterator[tuple[str, Module]]:
        """Yield layers of the base layer that are adapted with it, by their names below this one."""
        return iter(())

    def substitute_inner(self, new: Module) -> None:
        """Put another layer in the place of the one inside."""
        raise NotImplementedError

    @staticmethod
    def wrap_inner(layer: Module) -> LoRALayer:
        """Return the layer inside as one that takes adapters."""
        raise NotImplementedError

    # -- adapters ------------------------------------------------------------------------------------------

    def make_adapter(self, config: LoRAConfig) -> Adapter:
        """Return a new adapter that fits this layer; `attach` takes it."""
        weight = self.original_weight
        high = weight.dtype if weight.dtype == dtypes.float64 else dtypes.float32
        made = Adapter(config, self._shapes(config.rank), weight.device, high)
        self._restart(made)
        return made

    def _restart(self, adapter: Adapter, rng: Generator | None = None) -> None:
        adapter.reset(self.lookup, rng)
        if adapter.use_dora:
            with no_grad():
                adapter.learn_lengths(self._lengths(adapter))

    def attach(self, name: str, adapter: Adapter) -> None:
        """Add an adapter; it is not active yet. The first one freezes the layer."""
        if not self.adapters:
            self.base_layer.requires_grad_(False)
        adapter.requires_grad_(False)
        adapter.train(self.training)
        self.adapters[name] = adapter

    def add_adapter(self, name: str = DEFAULT, config: LoRAConfig | None = None) -> Self:
        """Add an adapter and make it the active one; returns the layer."""
        self._refuse_merged("add_adapter")
        if name in self.adapters:
            raise ValueError(
                f"add_adapter: there is an adapter {name!r} already; delete it or take another name."
            )
        self.attach(name, self.make_adapter(config or LoRAConfig()))
        return self.set_active({name: 1.0})

    def set_active(self, weights: Mapping[str, float]) -> Self:
        """Activate adapters with their weights in the mixture; the others are frozen. Returns the layer."""
        self._refuse_merged("set_active")
        unknown = [name for name in weights if name not in self.adapters]
        if unknown:
            raise ValueError(f"no adapter is called {unknown}; there are {list(self.adapters)}.")
        self._mix = {name: float(w) for name, w in weights.items()}
        for name, adapter in self.adapters.items():
            adapter.requires_grad_(name in self._mix)
        return self

    def delete_adapter(self, name: str) -> None:
        """Forget an adapter."""
        self._refuse_merged("delete_adapter")
        self.adapters.pop(name, None)
        self._mix.pop(name, None)

    def _refuse_merged(self, what: str) -> None:
        if self.merged:
            raise RuntimeError(
                f"{what}: the adapters are merged into the weight; call unmerge_weights() first."
            )

    def enable_lora(self) -> None:
        """Let the active adapters act."""
        self._enabled = True

    def disable_lora(self) -> None:
        """Compute as the base layer alone does; merged adapters are unmerged."""
        if self.merged:
            self.unmerge_weights()
        self._enabled = False

    def reset_lora_parameters(self, name: str = DEFAULT, *, rng: Generator | None = None) -> None:
        """Draw the first values of an adapter again."""
        self._refuse_merged("reset_lora_parameters")
        self._restart(self.adapters[name], rng)
        self.set_active(self._mix)

    # -- computing -----------------------------------------------------------------------------------------

    def forward(self, input: Any) -> Tensor:
        """Add the active adapters' updates to the base layer's output."""
        if not isinstance(input, Tensor):
            input = as_tensor(input) if self.lookup else as_tensor(input, self._present)
        base: Tensor = self.base_layer(input)
        if self.merged or not self._enabled:
            return base
        output = base
        for name, weight in self._mix.items():
            update = self._update(input, base, self.adapters[name])
            output = output + (update if weight == 1.0 else update * weight).to(base.dtype)
        return output

    def _update(self, input: Tensor, base: Tensor, adapter: Adapter) -> Tensor:
        a, b = adapter.lora_A, adapter.lora_B
        entered = input if self.lookup else input.to(a.dtype)
        dropped = entered if self.lookup else adapter.dropout(entered)
        low = self._low_rank(dropped, a, b) * adapter.scaling
        if adapter.magnitude is None:
            return low
        factors = self._along(adapter.magnitude / self._lengths(adapter), low)
        plain = self._plain(dropped, self.original_weight.to(a.dtype))
        return (factors - 1.0) * plain + factors * low

    def _lengths(self, adapter: Adapter) -> Tensor:
        """Return the lengths of the updated weight's vectors; DoRA takes them as constants."""
        with no_grad():
            whole = self.original_weight.to(adapter.lora_A.dtype) + adapter.scaling * self._product(
                adapter.lora_A, adapter.lora_B
            )
            axes = tuple(i for i in range(whole.ndim) if i != self.out_axis)
            lengths = vector_norm(whole, axis=axes)
            return where(lengths == 0.0, 1.0, lengths)

    def _change(self, adapter: Adapter) -> Tensor:
        """Return what an adapter adds to the weight, in the adapter's precision."""
        update = self._product(adapter.lora_A, adapter.lora_B) * adapter.scaling
        if adapter.magnitude is None:
            return update
        weight = self.original_weight.to(update.dtype)
        shape = [1] * weight.ndim
        shape[self.out_axis] = -1
        factors = (adapter.magnitude / self._lengths(adapter)).reshape(shape)
        return (factors - 1.0) * weight + factors * update

    @property
    def _present(self) -> Tensor:
        """The weight that the base layer has now."""
        found: Tensor = getattr(self.base_layer, self.weight_name)
        return found

    @property
    def original_weight(self) -> Tensor:
        """The weight without updates, merged or not."""
        found: Tensor = self._present if self._original is None else self._original
        return found

    @property
    def weight(self) -> Tensor:
        """The weight with the active updates, which gradients flow through; without the adapters' dropout."""
        kept = self.original_weight
        if self.merged or not self._enabled or not self._mix:
            return self._present
        total = kept.to(self.adapters[next(iter(self._mix))].lora_A.dtype)
        for name, share in self._mix.items():
            total = total + self._change(self.adapters[name]) * share
        return total.to(kept.dtype)

    @property
    def bias(self) -> Parameter | None:
        """The base layer's bias."""
        found: Parameter | None = getattr(self.base_layer, "bias", None)
        return found

    # -- merging -------------------------------------------------------------------------------------------

    @property
    def merged(self) -> bool:
        """Whether the updates are in the weight."""
        return self._original is not None

    def merged_weight(self) -> Tensor:
        """Return the weight that merging would write, after checking that it is finite."""
        with no_grad():
            for name in self._mix:
                if not bool(isfinite(self._change(self.adapters[name])).all()):
                    raise ValueError(
                        f"merge: the adapter {name!r} holds NaN or infinity; nothing was merged."
                    )
            return self.weight.detach()

    def merge_weights(self) -> None:
        """Write the active updates into the layer's weight; the original is kept. Merging twice is merging once."""
        if self.merged:
            warnings.warn("merge_weights: the adapters are merged already.", UserWarning, stacklevel=2)
            return
        if not self._enabled:
            raise RuntimeError("merge_weights: the adapters are disabled; call enable_lora() first.")
        self._install(self.merged_weight())

    def _install(self, weight: Tensor) -> None:
        # A cell of its own: a weight that another layer shares must not change there.
        self.__dict__["_original"] = self._present
        setattr(self.base_layer, self.weight_name, Parameter(weight, requires_grad=False))

    def unmerge_weights(self) -> None:
        """Bring the original weight back, bit for bit."""
        if not self.merged:
            warnings.warn("unmerge_weights: nothing is merged.", UserWarning, stacklevel=2)
            return
        original, merged = self._original, self._present
        state.move(original, merged.device, merged.dtype)  # where the layer went meanwhile
        setattr(self.base_layer, self.weight_name, original)
        self.__dict__["_original"] = None

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> state.IncompatibleKeys:
        """Copy values in, as `Module.load_state_dict`; refused while merged, for unmerging would undo it."""
        self._refuse_merged("load_state_dict")
        return super().load_state_dict(state_dict, strict)

    # -- counting ------------------------------------------------------------------------------------------

    def lora_parameters(self) -> Iterator[Parameter]:
        """Yield the parameters of all adapters."""
        for adapter in self.adapters.values():
            yield from adapter.parameters()

    def num_trainable_params(self) -> int:
        """Return how many numbers are trained."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def num_total_params(self) -> int:
        """Return how many numbers there are."""
        return sum(p.numel() for p in self.parameters())

    def extra_repr(self) -> str:
        """Which adapters are active, and whether they are merged."""
        return f"active={list(self._mix)}" + (", merged" if self.merged else "")
