"""`Converter`: a trained network of linear maps and ReLUs becomes a spiking one whose rates stand for activations.

Weights are rescaled by the activations that data cause (Diehl et al. 2015, Rueckauer et al. 2017), and every ReLU
becomes an integrate-and-fire neuron with a soft reset: over T steps it fires ``T a / scale`` times for an activation a.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import grilly_core as grilly
from grilly_core import nn
from grilly_core.nn import Module, Sequential
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import steps, tensor
from grilly_ext_snn.functional.nets import reset_net
from grilly_ext_snn.functional.steps import seq_to_ann_forward
from grilly_ext_snn.nn.containers import SeqToANNContainer
from grilly_ext_snn.nn.nodes import IFNode

__all__ = ["ConvertedNetwork", "Converter", "Scale"]

_WEIGHTS: Final = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS: Final = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_LINEAR: Final = (
    nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.Flatten, nn.Identity,
)  # fmt: skip
_DROPPED: Final = (nn.Dropout, nn.Dropout1d, nn.Dropout2d)
_POOLS: Final = (nn.MaxPool1d, nn.MaxPool2d)


class Scale(NamedTuple):
    """How one layer with weights was rescaled.

    Attributes
    ----------
    layer : str
    before, after : float
        The activation that a spike at every step stands for, in the layer's input and output.
    """

    layer: str
    before: float
    after: float


class _CountingMaxPool(Module):
    """Max pooling of spike trains: at every step the largest count of spikes so far fires, if it has grown."""

    def __init__(self, pool: Module) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, spikes: Tensor) -> Tensor:
        counts = seq_to_ann_forward(spikes.cumsum(0), self.pool)
        before = grilly.concat([counts[:1] * 0.0, counts[:-1]], axis=0)
        result: Tensor = counts - before
        return result


class ConvertedNetwork(Module):
    """What `Converter.convert` returns; called with ``(B, ...)`` it gives the mean output over T steps.

    Attributes
    ----------
    layers : Sequential
        Takes and gives sequences ``(T, B, ...)``.
    T : int
    scales : list of Scale
    """

    def __init__(self, layers: Sequential, T: int, scales: Sequence[Scale]) -> None:
        super().__init__()
        self.layers, self.T = layers, steps("ConvertedNetwork", T)
        self._scales = tuple(scales)

    @property
    def scales(self) -> list[Scale]:
        """How each layer was rescaled."""
        return list(self._scales)

    def forward(self, x: Any) -> Tensor:
        """Present `x` as a constant current from rest; return the mean output."""
        made = tensor(x)
        reset_net(self.layers)
        y = self.layers(grilly.broadcast_to(made, (self.T, *made.shape)))
        reset_net(self.layers)
        result: Tensor = y.mean(0)
        return result

    def report(self) -> str:
        """Return a table of the scales."""
        rows = [("layer", "a spike in", "a spike out")]
        rows += [(s.layer, f"{s.before:.4g}", f"{s.after:.4g}") for s in self._scales]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join(
            "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in
                      enumerate(zip(row, widths, strict=True)))
            for row in rows
        )  # fmt: skip


class Converter:
    """Turn a trained network into a spiking one.

    The network is a `Sequential`, nested at will, of linear maps, convolutions, batch normalisation behind one of them,
    ReLU, pooling, `Flatten` and dropout.

    Parameters
    ----------
    mode : {"max"}, percentage or float
        The activation that a spike at every step stands for: the largest one, a percentile such as ``"99.9%"``, or a
        share of the largest one.
    fuse_flag : bool
        Whether batch normalisation is made part of the map before it; without that it is refused.
    T : int
        Steps.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.conversion import Converter
    >>> nn = grilly.nn
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> x = grilly.rand(16, 4)
    >>> spiking = Converter(T=256).convert(net, [x])
    >>> bool((abs(spiking(x) - net(x)) < 0.05).all())
    True
    """

    def __init__(self, mode: str | float = "max", fuse_flag: bool = True, T: int = 16) -> None:
        self.mode, self.fuse_flag, self.T = mode, fuse_flag, steps("Converter", T)
        self._share, self._percentile = _read_mode(mode)

    def convert(self, model: Module, data_loader: Iterable[Any] | None = None) -> ConvertedNetwork:
        """Return the spiking network; `model` stays as it is.

        Parameters
        ----------
        model : Module
        data_loader : iterable, optional
            Batches ``x`` or ``(x, y)`` whose activations are measured. Without it activations are taken to lie in
            [0, 1].

        Raises
        ------
        ValueError
            If a layer cannot be converted; the message says which, and what can be done.
        """
        layers = copy.deepcopy(self._flat(model, ""))
        for _, layer in layers:
            layer.eval()
        layers = _relu_first(self._fused(layers))
        for name, layer in layers:
            _check(name, layer)
        activations = self._activations(layers, data_loader)
        scales = _rescale(layers, activations)
        return ConvertedNetwork(_spiking(layers), self.T, scales)

    def fuse_conv_bn(self, model: Module) -> Sequential:
        """Return a copy of a network in which batch normalisation is part of the maps before it."""
        layers = copy.deepcopy(self._flat(model, ""))
        return Sequential(*[layer.eval() for _, layer in _fuse(layers)])

    def _flat(self, model: Module, prefix: str) -> list[tuple[str, Module]]:
        if not isinstance(model, Sequential):
            raise ValueError(
                f"Converter: {prefix or 'the model'} is a {type(model).__name__} with a forward of its own; it must "
                "be a Sequential, because the order of the layers is read from it."
            )
        found: list[tuple[str, Module]] = []
        for name, child in model.named_children():
            path = f"{prefix}{name}"
            if isinstance(child, Sequential):
                found += self._flat(child, f"{path}.")
            elif not isinstance(child, _DROPPED):
                found.append((path, child))
        return found

    def _fused(self, layers: list[tuple[str, Module]]) -> list[tuple[str, Module]]:
        if self.fuse_flag:
            return _fuse(layers)
        for name, layer in layers:
            if isinstance(layer, _NORMS):
                raise ValueError(
                    f"Converter: {name} ({type(layer).__name__}) has no spiking form; fuse_flag=True makes it part of "
                    "the map before it."
                )
        return layers

    def _activations(
        self, layers: Sequence[tuple[str, Module]], batches: Iterable[Any] | None
    ) -> dict[str, float]:
        """Return the activation behind each ReLU that a spike at every step stands for."""
        found: dict[str, list[float]] = {name: [] for name, layer in layers if isinstance(layer, nn.ReLU)}
        if batches is None:
            return dict.fromkeys(found, 1.0)
        with grilly.no_grad():
            for batch in batches:
                x = tensor(batch[0] if isinstance(batch, list | tuple) else batch)
                for name, layer in layers:
                    x = layer(x)
                    if name in found:
                        found[name].append(self._measure(x))
        for name, values in found.items():
            if not values or not max(values) > 0:
                raise ValueError(
                    f"Converter: the data cause no activation behind {name}; give batches that the network answers to."
                )
        return {name: max(values) for name, values in found.items()}

    def _measure(self, x: Tensor) -> float:
        values = np.asarray(x.detach().numpy(), np.float64)
        if self._percentile is None:
            return self._share * float(values.max())
        return float(np.percentile(values, self._percentile))


def _read_mode(mode: Any) -> tuple[float, float | None]:
    if mode == "max":
        return 1.0, None
    if (
        isinstance(mode, str)
        and (match := re.fullmatch(r"(\d+(?:\.\d+)?)%", mode))
        and 0 < float(match[1]) <= 100
    ):
        return 1.0, float(match[1])
    if isinstance(mode, int | float) and not isinstance(mode, bool) and 0 < mode <= 1:
        return float(mode), None
    raise ValueError(
        f"Converter: mode is 'max', a percentile such as '99.9%', or a share of the maximum in (0, 1]; "
        f"received {mode!r}."
    )


def _check(name: str, layer: Module) -> None:
    if isinstance(layer, (*_WEIGHTS, *_LINEAR, *_POOLS, nn.ReLU)):
        return
    raise ValueError(
        f"Converter: {name} ({type(layer).__name__}) has no spiking form; use Linear, Conv, BatchNorm behind one of "
        "them, ReLU, AvgPool, MaxPool, Flatten and Dropout."
    )


def _fuse(layers: Sequence[tuple[str, Module]]) -> list[tuple[str, Module]]:
    done: list[tuple[str, Module]] = []
    for name, layer in layers:
        if not isinstance(layer, _NORMS):
            done.append((name, layer))
            continue
        if not done or not isinstance(done[-1][1], _WEIGHTS) or layer.running_var is None:
            raise ValueError(
                f"Converter: {name} ({type(layer).__name__}) can be fused only right behind a Linear or Conv, and with "
                "running statistics."
            )
        _into(done[-1][1], layer)
    return done


def _into(target: Any, norm: Any) -> None:
    """Make a normalisation part of the map before it: ``gamma (W x + b - mean) / sigma + beta``."""
    with grilly.no_grad():
        factor = 1.0 / grilly.sqrt(norm.running_var + norm.eps)
        if norm.weight is not None:
            factor = factor * norm.weight
        shift = norm.running_mean * -factor
        if norm.bias is not None:
            shift = shift + norm.bias
        if target.bias is not None:
            shift = shift + target.bias * factor
        weight = target.weight * factor.reshape(-1, *(1,) * (target.weight.ndim - 1))
    target.weight = nn.Parameter(weight.detach())
    target.bias = nn.Parameter(shift.detach())


def _relu_first(layers: Sequence[tuple[str, Module]]) -> list[tuple[str, Module]]:
    """Let a ReLU come before max pooling, which changes nothing, so that pooling sees spikes."""
    done = list(layers)
    for i, (_, layer) in enumerate(done):
        j = i
        while isinstance(layer, nn.ReLU) and j and isinstance(done[j - 1][1], _POOLS):
            done[j - 1], done[j] = done[j], done[j - 1]
            j -= 1
    return done


def _rescale(layers: Sequence[tuple[str, Any]], activations: dict[str, float]) -> list[Scale]:
    """Divide weights and biases so that an activation at its scale becomes a current of 1."""
    scales, before = [], 1.0
    for i, (name, layer) in enumerate(layers):
        if not isinstance(layer, _WEIGHTS):
            continue
        behind = next((n for n, m in layers[i + 1 :] if isinstance(m, (nn.ReLU, *_WEIGHTS))), "")
        after = activations.get(behind, 1.0)
        with grilly.no_grad():
            weight = layer.weight * (before / after)
            bias = None if layer.bias is None else layer.bias * (1.0 / after)
        layer.weight = nn.Parameter(weight.detach())
        if bias is not None:
            layer.bias = nn.Parameter(bias.detach())
        scales.append(Scale(f"{name} ({type(layer).__name__})", before, after))
        before = after
    return scales


def _spiking(layers: Sequence[tuple[str, Module]]) -> Sequential:
    done: list[Module] = []
    for _, layer in layers:
        if isinstance(layer, nn.ReLU):
            node = IFNode(v_reset=None, step_mode="m")
            node._memories["v"] = 0.5  # half a threshold: rates are rounded, not cut off
            done.append(node)
        elif isinstance(layer, _POOLS):
            done.append(_CountingMaxPool(layer))
        else:
            done.append(SeqToANNContainer(layer))
    return Sequential(*done)
