"""`Monitor`: recording spikes and states of the neurons of a network while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from grilly_core.errors import ShapeError
from grilly_core.nn import Module
from grilly_core.tensor import Tensor
from grilly_ext_snn.nn.base_node import BaseNode
from grilly_ext_snn.nn.memory import MemoryModule

__all__ = ["Monitor"]

#: The name of a node's output among the variables.
SPIKE = "spike"


class Monitor:
    """Keep variables of every module of a network that has them, call by call.

    A variable is a memory, such as ``"v"``, or ``"spike"``, the output of a node. What is recorded is copied off the
    graph and stays on its device until it is read. Replays of a captured function run no Python and record nothing.

    Parameters
    ----------
    module : Module
        A node, or a network with nodes in it.
    var_names : sequence of str, optional
        ``["v"]`` without it.

    Raises
    ------
    ValueError
        If no module has one of the variables.

    Examples
    --------
    >>> import grilly
    >>> from grilly_ext_snn.nn.monitor import Monitor
    >>> from grilly_ext_snn.nn.nodes import LIFNode
    >>> net = grilly.nn.Sequential(grilly.nn.Linear(4, 3), LIFNode(step_mode="m"))
    >>> with Monitor(net, ["v", "spike"]) as monitor:
    ...     _ = net(grilly.ones((5, 2, 4)))
    >>> monitor.get("spike").shape, monitor.layers("v"), monitor.num_recordings
    ((5, 2, 3), ['1'], 5)
    """

    def __init__(self, module: Module, var_names: Sequence[str] | None = None) -> None:
        if isinstance(var_names, str):
            raise TypeError(f"Monitor: var_names is a list of names, [{var_names!r}]; received a string.")
        self.module = module
        self.var_names = list(var_names) if var_names is not None else ["v"]
        self._watched = {name: m for name, m in module.named_modules() if self._variables(m)}
        for var in self.var_names:
            if not any(var in self._variables(m) for m in self._watched.values()):
                known = sorted({v for m in module.modules() for v in _known(m)})
                raise ValueError(
                    f"Monitor: no module has a variable {var!r}; there are {', '.join(known) or 'none'}."
                )
        self._stored: dict[tuple[str, str], list[Tensor]] = {}
        self._handles: list[Any] = []
        self._kept: dict[str, bool] = {}
        self.reset()
        self.enable()

    def _variables(self, module: Module) -> list[str]:
        known = _known(module)
        return [v for v in self.var_names if v in known]

    # -- recording -----------------------------------------------------------------------------------------

    def enable(self) -> None:
        """Record every call from now on; a monitor starts enabled."""
        if self._handles:
            return
        for name, module in self._watched.items():
            if isinstance(module, BaseNode):
                self._kept[name] = module.store_v_seq
                module.store_v_seq = module.store_v_seq or any(v != SPIKE for v in self._variables(module))
            self._handles.append(module.register_forward_hook(self._hook(name)))

    def disable(self) -> None:
        """Record no more; what has been recorded stays."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for name, kept in self._kept.items():
            module = self._watched[name]
            if isinstance(module, BaseNode):
                module.store_v_seq = kept
        self._kept = {}

    def _hook(self, name: str) -> Any:
        def hook(module: Module, args: Any, output: Any) -> None:
            many = getattr(module, "step_mode", "s") == "m"
            for var in self._variables(module):
                value = output if var == SPIKE else self._state(module, var, many)
                self._keep(name, var, value if many else value.unsqueeze(0))

        return hook

    def _state(self, module: Module, var: str, many: bool) -> Tensor:
        if not many:
            value: Tensor = getattr(module, var)
            return value
        if isinstance(module, BaseNode) and var in module.state_seq:
            return module.state_seq[var]
        raise ValueError(
            f"Monitor: {type(module).__name__} runs many steps in a call and keeps only the last {var!r}; "
            "use step_mode 's' to record it."
        )

    def _keep(self, name: str, var: str, value: Tensor) -> None:
        self._stored[name, var].append(value.detach())

    def record(self) -> None:
        """Record the present states once, as one step, whether the monitor is enabled or not."""
        for name, module in self._watched.items():
            for var in self._variables(module):
                value = None if var == SPIKE else getattr(module, var)
                if value is not None:
                    self._keep(name, var, value.unsqueeze(0))

    def reset(self) -> None:
        """Forget what has been recorded."""
        self._stored = {(n, v): [] for n, m in self._watched.items() for v in self._variables(m)}

    # -- reading -------------------------------------------------------------------------------------------

    @property
    def num_recordings(self) -> int:
        """How many steps have been recorded; of the variable that has most."""
        return max((sum(len(v) for v in values) for values in self._stored.values()), default=0)

    def layers(self, name: str) -> list[str]:
        """Return the dotted names of the modules that have a variable; that of the module itself is empty."""
        self._known_variable(name)
        return [layer for layer, var in self._stored if var == name]

    def get(self, name: str, layer: str | None = None) -> np.ndarray:
        """Return what has been recorded of a variable.

        Parameters
        ----------
        name : str
        layer : str, optional
            Dotted name of the module; may be left out if only one has the variable.

        Returns
        -------
        ndarray, (T, ...)
            All recorded steps.
        """
        layers = self.layers(name)
        if layer is None and len(layers) == 1:
            layer = layers[0]
        if layer is None or layer not in layers:
            raise ValueError(
                f"Monitor: {name!r} is recorded in the layers {layers}; received layer={layer!r}."
            )
        values = [np.asarray(value.numpy()) for value in self._stored[layer, name]]
        if not values:
            raise ValueError(f"Monitor: nothing of {name!r} has been recorded; run the network first.")
        shapes = sorted({v.shape[1:] for v in values})
        if len(shapes) > 1:
            raise ShapeError(
                f"Monitor: {name!r} was recorded with steps of the shapes {shapes}; call reset() between batches of "
                "different sizes."
            )
        return np.concatenate(values)

    def items(self, name: str) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the layers that have a variable, with what has been recorded of it."""
        for layer in self.layers(name):
            yield layer, self.get(name, layer)

    def _known_variable(self, name: str) -> None:
        if name not in self.var_names:
            raise ValueError(f"Monitor: {name!r} is not recorded; recorded are {', '.join(self.var_names)}.")

    def __enter__(self) -> Monitor:
        self.enable()
        return self

    def __exit__(self, *error: object) -> None:
        self.disable()


def _known(module: Module) -> list[str]:
    found = list(module.memories()) if isinstance(module, MemoryModule) else []
    return [*found, SPIKE] if isinstance(module, BaseNode) else found
