"""Networks to and from NIR, the Neuromorphic Intermediate Representation (Pedersen et al. 2024); the extra ``nir``.

NIR's neurons are differential equations in seconds; ours take steps. A step is one of Euler's with length `dt`:

========================  =================================================================================
here                      in NIR
========================  =================================================================================
`IFNode`                  ``IF``: ``r = 1 / dt``
`LIFNode`                 ``LIF``: ``tau = dt tau``, ``r = tau`` (in steps), or 1 with `decay_input`
`LeakyNode`               ``LIF``: ``tau = dt / (1 - beta)``, ``r = 1 / (1 - beta)``
`SynapticNode`            ``CubaLIF``: the same for both decays, ``w_in = 1 / (1 - alpha)``
========================  =================================================================================

NIR knows hard resets in the step of the spike, where ``v > v_threshold``; here it is ``>=``. Other resets are written
into the node's metadata (``"reset"``, ``"delayed"``) with a warning, because other tools do not read that.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

import grilly_core as grilly
from grilly_core import nn
from grilly_core.errors import MissingPluginError, ShapeError
from grilly_core.nn import Module, Parameter, Sequential
from grilly_ext_snn.functional._arguments import finite
from grilly_ext_snn.functional.nets import reset_net
from grilly_ext_snn.nn.base_node import BaseNode
from grilly_ext_snn.nn.containers import SeqToANNContainer
from grilly_ext_snn.nn.nodes import IFNode, LeakyNode, LIFNode, ScanNode, SynapticNode

__all__ = ["GeneralLIF", "from_nir", "to_nir"]

_MECHANISMS: Final = {"soft": "subtract", "hard": "zero", "none": "none"}


def _nir() -> Any:
    try:
        import nir
    except ImportError as error:
        raise MissingPluginError(
            "the exchange through NIR needs the package nir: from a checkout of grilly run "
            "`pip install './grilly_ext_snn[nir]'`."
        ) from error
    return nir


class GeneralLIF(ScanNode):
    """NIR's leaky neuron with constants of any relation: ``V += dt (v_leak - V + r X) / tau``, hard reset.

    Parameters
    ----------
    tau, dt : float
        In one unit; dt at most tau.
    r, v_leak, v_threshold, v_reset : float
    step_mode : {"s", "m"}

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.exchange import GeneralLIF
    >>> GeneralLIF(tau=0.02, dt=0.01, v_leak=0.5, step_mode="m")(grilly.full((3, 1), 0.8))[:, 0].tolist()
    [0.0, 1.0, 0.0]
    """

    _name = "lif_refractory"

    def __init__(
        self, tau: float, dt: float, r: float = 1.0, v_leak: float = 0.0, v_threshold: float = 1.0,
        v_reset: float = 0.0, step_mode: str = "s",
    ) -> None:  # fmt: skip
        finite("GeneralLIF", tau=tau, dt=dt)
        if dt > tau:
            raise ValueError(f"GeneralLIF: dt must be at most tau; received {dt} and {tau}.")
        constants = {"tau": tau, "dt": dt, "r_mem": r, "v_rest": v_leak, "t_refrac": 0.0}
        super().__init__(constants, v_threshold=v_threshold, v_reset=v_reset, step_mode=step_mode)
        self._memories["v"] = v_leak


# -- to NIR ------------------------------------------------------------------------------------------------


def to_nir(net: Sequential, input_shape: Sequence[int], dt: float = 1e-4) -> Any:
    """Return the graph of a network.

    Parameters
    ----------
    net : Sequential
        Of linear maps, convolutions, average pooling, `Flatten` and nodes, also in containers; all nodes of a layer
        share their constants.
    input_shape : sequence of int
        Of one step of one sample.
    dt : float
        The length of a step in seconds.

    Returns
    -------
    nir.NIRGraph
        ``nir.write(path, graph)`` makes a file of it.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.exchange import to_nir
    >>> from grilly_ext_snn.nn.nodes import LIFNode
    >>> net = grilly.nn.Sequential(grilly.nn.Linear(4, 3), LIFNode(step_mode="m"))
    >>> [type(node).__name__ for node in to_nir(net, (4,)).nodes.values()]
    ['Input', 'Affine', 'LIF', 'Output']
    """
    nir = _nir()
    finite("to_nir", dt=dt)
    nodes: dict[str, Any] = {"input": nir.Input({"input": np.array(tuple(input_shape))})}
    x = grilly.zeros((1, 1, *input_shape))
    with grilly.no_grad():
        for name, layer in _flat(net, ""):
            shape = tuple(x.shape[2:])
            x = _shape_after(layer, x)
            nodes[name.replace(".", "_")] = _exported(nir, name, layer, shape, tuple(x.shape[2:]), dt)
    nodes["output"] = nir.Output({"output": np.array(tuple(x.shape[2:]))})
    names = list(nodes)
    return nir.NIRGraph(nodes, list(itertools.pairwise(names)))


def _flat(net: Module, prefix: str) -> list[tuple[str, Module]]:
    if not isinstance(net, Sequential):
        raise ValueError(
            f"to_nir: {prefix or 'the network'} is a {type(net).__name__} with a forward of its own; the order of the "
            "layers is read from a Sequential."
        )
    found: list[tuple[str, Module]] = []
    for name, child in net.named_children():
        inner = isinstance(child, Sequential)
        found += _flat(child, f"{prefix}{name}.") if inner else [(f"{prefix}{name}", child)]
    return found


def _shape_after(layer: Module, x: Any) -> Any:
    if isinstance(layer, BaseNode):
        return x
    return layer(x) if isinstance(layer, nn.Linear) else SeqToANNContainer(layer)(x)


def _exported(
    nir: Any, name: str, layer: Any, before: tuple[int, ...], after: tuple[int, ...], dt: float
) -> Any:
    if isinstance(layer, BaseNode):
        return _exported_neuron(nir, name, layer, after, dt)
    if isinstance(layer, nn.Linear):
        weight = layer.weight.detach().numpy()
        return nir.Linear(weight) if layer.bias is None else nir.Affine(weight, layer.bias.detach().numpy())
    if isinstance(layer, nn.Conv1d | nn.Conv2d) and layer.groups > 1:
        raise ValueError(
            f"to_nir: {name} has {layer.groups} groups, whose shapes nir's check of types gets wrong."
        )
    if isinstance(layer, nn.Conv1d | nn.Conv2d) and layer.padding_mode == "zeros":
        two = isinstance(layer, nn.Conv2d)
        bias = (
            np.zeros(layer.weight.shape[0], np.float32) if layer.bias is None else layer.bias.detach().numpy()
        )
        made = nir.Conv2d if two else nir.Conv1d
        size = tuple(before[1:]) if two else before[1]
        settings = [
            v if two or isinstance(v, str) else _one(v) for v in (layer.stride, layer.padding, layer.dilation)
        ]
        return made(size, layer.weight.detach().numpy(), *settings, layer.groups, bias)
    if isinstance(layer, nn.Flatten) and layer.start_dim == 1 and layer.end_dim == -1:
        return nir.Flatten({"input": np.array(before)}, 0, -1)
    if isinstance(layer, nn.AvgPool2d) and not layer.ceil_mode and layer.divisor_override is None:
        pairs = [_pair(v) for v in (layer.kernel_size, layer.stride or layer.kernel_size, layer.padding)]
        return nir.AvgPool2d(*pairs)
    raise ValueError(
        f"to_nir: {name} ({layer}) has no form in NIR; use Linear, Conv1d, Conv2d, AvgPool2d, Flatten, IFNode, "
        "LIFNode, LeakyNode or SynapticNode."
    )


def _one(value: Any) -> int:
    return int(value[0]) if isinstance(value, tuple | list) else int(value)


def _pair(value: Any) -> np.ndarray:
    return np.broadcast_to(np.asarray(value), (2,)).copy()


def _exported_neuron(nir: Any, name: str, node: Any, shape: tuple[int, ...], dt: float) -> Any:
    def full(value: float) -> np.ndarray:
        return np.full(shape, value, np.float64)

    hard = node.reset_rule == "hard"
    common = {"v_threshold": full(node.v_threshold), "v_reset": full(node.v_reset or 0.0 if hard else 0.0)}
    common["metadata"] = _reset_metadata(name, node)
    if type(node) is IFNode:
        return nir.IF(r=full(1.0 / dt), **common)
    if type(node) is GeneralLIF:
        c = node.constants
        tau = c["tau"] * dt / c["dt"]
        return nir.LIF(tau=full(tau), r=full(c["r_mem"]), v_leak=full(c["v_rest"]), **common)
    if type(node) is LIFNode:
        tau = node.constants["tau"]
        r = 1.0 if node.constants["decay_input"] else tau
        return nir.LIF(tau=full(tau * dt), r=full(r), v_leak=full(node.v_reset if hard else 0.0), **common)
    if type(node) is LeakyNode:
        left = _leaves(name, "beta", node.constants["beta"])
        return nir.LIF(tau=full(dt / left), r=full(1.0 / left), v_leak=full(0.0), **common)
    if type(node) is SynapticNode:
        left = _leaves(name, "beta", node.constants["beta"])
        syn = _leaves(name, "alpha", node.constants["current_decay"])
        return nir.CubaLIF(
            tau_syn=full(dt / syn), tau_mem=full(dt / left), r=full(1.0 / left), v_leak=full(0.0),
            w_in=full(1.0 / syn), **common,
        )  # fmt: skip
    raise ValueError(
        f"to_nir: {name} ({type(node).__name__}) has no form in NIR; use IFNode, LIFNode, LeakyNode or SynapticNode."
    )


def _leaves(name: str, what: str, decay: float) -> float:
    if decay >= 1:
        raise ValueError(
            f"to_nir: {name} has {what} = {decay}, which is no leak; NIR's time constants are finite."
        )
    return 1.0 - decay


def _reset_metadata(name: str, node: Any) -> dict[str, Any]:
    delayed = isinstance(node, LeakyNode | SynapticNode)
    if node.reset_rule == "hard" and not isinstance(node, SynapticNode) and not delayed:
        return {}
    if not (node.reset_rule == "hard" and isinstance(node, LeakyNode)):
        warnings.warn(
            f"to_nir: {name} has the reset {node.reset_rule!r}{' one step later' if delayed else ''}, which NIR does "
            "not know; it is kept as metadata, and other tools will reset hard in the step of the spike.",
            stacklevel=4,
        )
    return {"reset": node.reset_rule, "delayed": delayed}


# -- from NIR ----------------------------------------------------------------------------------------------


def from_nir(graph: Any, dt: float = 1e-4) -> Sequential:
    """Return the network of a graph; it takes sequences ``(T, B, ...)``.

    Parameters
    ----------
    graph : nir.NIRGraph or path
        A chain of nodes from one input to one output.
    dt : float
        The length of a step in seconds.

    Raises
    ------
    ValueError
        If the graph branches or has cycles, if a node has no form here, or if neurons of one node have different
        constants.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.exchange import from_nir, to_nir
    >>> from grilly_ext_snn.nn.nodes import IFNode
    >>> net = grilly.nn.Sequential(grilly.nn.Linear(4, 3), IFNode(step_mode="m"))
    >>> from_nir(to_nir(net, (4,)))(grilly.ones((5, 2, 4))).shape
    (5, 2, 3)
    """
    nir = _nir()
    finite("from_nir", dt=dt)
    if isinstance(graph, str | os.PathLike):
        graph = nir.read(os.fspath(graph))
    if not isinstance(graph, nir.NIRGraph):
        raise TypeError(f"from_nir: expected a nir.NIRGraph or a path; received {type(graph).__name__}.")
    layers = [_imported(nir, name, graph.nodes[name], dt) for name in _chain(nir, graph)]
    net = Sequential(*layers)
    reset_net(net)
    return net


def _chain(nir: Any, graph: Any) -> list[str]:
    """Return the names between input and output in their order."""
    after: dict[str, list[str]] = {}
    for a, b in graph.edges:
        after.setdefault(a, []).append(b)
    inputs = [n for n, node in graph.nodes.items() if isinstance(node, nir.Input)]
    if len(inputs) != 1:
        raise ValueError(f"from_nir: the graph must have one input; it has {len(inputs)}.")
    names, at = [], inputs[0]
    while after.get(at):
        if len(set(after[at])) > 1:
            raise ValueError(
                f"from_nir: {at!r} leads to {', '.join(map(repr, after[at]))}; only chains can be imported."
            )
        at = after[at][0]
        if at in names:
            raise ValueError(f"from_nir: the graph has a cycle through {at!r}; only chains can be imported.")
        names.append(at)
    if not names or not isinstance(graph.nodes[at], nir.Output) or len(names) + 1 != len(graph.nodes):
        raise ValueError("from_nir: the graph must be a chain of all its nodes from input to output.")
    return names[:-1]


def _imported(nir: Any, name: str, node: Any, dt: float) -> Module:
    kinds: Mapping[str, Callable[[str, Any, float], Module]] = {
        "Linear": _linear, "Affine": _linear, "Conv1d": _convolution, "Conv2d": _convolution, "Flatten": _flatten,
        "AvgPool2d": _pool, "IF": _if, "LIF": _lif, "CubaLIF": _cuba,
    }  # fmt: skip
    kind = type(node).__name__
    if kind not in kinds:
        raise ValueError(f"from_nir: {name!r} ({kind}) has no form here; known are {', '.join(kinds)}.")
    return kinds[kind](name, node, dt)


def _parameter(values: Any) -> Parameter:
    return Parameter(grilly.asarray(np.asarray(values, np.float32)))


def _linear(name: str, node: Any, dt: float) -> Module:
    weight = np.asarray(node.weight)
    if weight.ndim != 2:
        raise ShapeError(f"from_nir: the weight of {name!r} must be (out, in); received {weight.shape}.")
    bias = getattr(node, "bias", None)
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    made.weight = _parameter(weight)
    if bias is not None:
        made.bias = _parameter(bias)
    return made


def _convolution(name: str, node: Any, dt: float) -> Module:
    weight = np.asarray(node.weight)
    kind, axes = (nn.Conv1d, 1) if weight.ndim == 3 else (nn.Conv2d, 2)

    def sizes(value: Any) -> Any:
        return (
            value
            if isinstance(value, str)
            else tuple(int(v) for v in np.broadcast_to(np.asarray(value), (axes,)))
        )

    made = kind(
        weight.shape[1] * int(node.groups), weight.shape[0], weight.shape[2:], stride=sizes(node.stride),
        padding=sizes(node.padding), dilation=sizes(node.dilation), groups=int(node.groups),
    )  # fmt: skip
    made.weight, made.bias = _parameter(weight), _parameter(node.bias)
    return SeqToANNContainer(made)


def _flatten(name: str, node: Any, dt: float) -> Module:
    start, end = int(node.start_dim), int(node.end_dim)
    return SeqToANNContainer(nn.Flatten(start + 1, end if end < 0 else end + 1))


def _pool(name: str, node: Any, dt: float) -> Module:
    sizes = [
        tuple(int(v) for v in np.broadcast_to(s, (2,))) for s in (node.kernel_size, node.stride, node.padding)
    ]
    return SeqToANNContainer(nn.AvgPool2d(*sizes))


def _same(name: str, what: str, values: Any) -> float:
    a = np.asarray(values, np.float64).ravel()
    if a.size == 0 or not np.allclose(a, a[0], rtol=1e-6, atol=0):
        raise ValueError(
            f"from_nir: the neurons of {name!r} have different values of {what}; nodes here share their constants."
        )
    return float(a[0])


def _reset(name: str, node: Any) -> tuple[str, float, bool]:
    """Return rule, value and whether it acts a step later."""
    extra = node.metadata or {}
    rule = extra.get("reset", "hard")
    rule = rule.decode() if isinstance(rule, bytes) else str(rule)
    value = 0.0 if node.v_reset is None else _same(name, "v_reset", node.v_reset)
    return rule, value, bool(extra.get("delayed", False))


def _options(rule: str, value: float) -> dict[str, Any]:
    return {"v_reset": value if rule == "hard" else None, "reset": rule, "step_mode": "m"}


def _if(name: str, node: Any, dt: float) -> Module:
    rule, value, _ = _reset(name, node)
    r, threshold = _same(name, "r", node.r) * dt, _same(name, "v_threshold", node.v_threshold)
    # V + r X with thresholds (a, b) is V' + X with (a / r, b / r)
    return IFNode(threshold / _near(r), **_options(rule, value / _near(r)))


def _near(value: float) -> float:
    """Return 1 for what differs from it by rounding only."""
    return 1.0 if abs(value - 1.0) < 1e-9 else value


def _lif(name: str, node: Any, dt: float) -> Module:
    rule, value, delayed = _reset(name, node)
    tau, r, leak, threshold = (
        _same(name, n, getattr(node, n)) for n in ("tau", "r", "v_leak", "v_threshold")
    )
    steps = tau / dt
    if delayed:
        beta = _rounded(1.0 - dt / tau)
        return LeakyNode(beta, threshold, reset_mechanism=_MECHANISMS[rule], step_mode="m")
    rest = value if rule == "hard" else 0.0
    if leak == rest and steps >= 1 - 1e-9 and (abs(r - 1) < 1e-9 or abs(r - steps) < 1e-9 * steps):
        decayed = abs(r - 1) < 1e-9
        return LIFNode(max(_rounded(steps), 1.0), decayed, threshold, **_options(rule, value))
    if rule != "hard":
        raise ValueError(
            f"from_nir: {name!r} has the reset {rule!r} together with constants that LIFNode lacks."
        )
    return GeneralLIF(tau, dt, r, leak, threshold, value, step_mode="m")


def _rounded(value: float) -> float:
    """Take off what dividing by dt and multiplying again has added."""
    return float(f"{value:.12g}")


def _cuba(name: str, node: Any, dt: float) -> Module:
    rule, value, delayed = _reset(name, node)
    names = ("tau_syn", "tau_mem", "r", "v_leak", "v_threshold", "w_in")
    syn, mem, r, leak, threshold, w_in = (_same(name, n, getattr(node, n)) for n in names)
    gain = r * dt / mem * w_in * dt / syn
    if leak != 0 or value != 0:
        raise ValueError(f"from_nir: {name!r} must have v_leak = v_reset = 0; received {leak} and {value}.")
    if not delayed:
        warnings.warn(
            f"from_nir: the reset of {name!r} acts one step later in SynapticNode than NIR says.",
            stacklevel=4,
        )
    return SynapticNode(
        _rounded(1.0 - dt / syn), _rounded(1.0 - dt / mem), threshold / _near(gain),
        reset_mechanism=_MECHANISMS[rule], step_mode="m",
    )  # fmt: skip
