"""`SNNCompute`: how a population of leaky neurons answers to a vector."""

from __future__ import annotations

from typing import Any

import numpy as np

import grilly_core as grilly
from grilly_core.errors import GrillyError
from grilly_core.nn import Module
from grilly_core.plugins import loader
from grilly_core.tensor import Tensor
from grilly_ext_snn.functional._arguments import finite, steps, tensor
from grilly_ext_snn.nn.physical import LIFNeuron

__all__ = ["SNNCompute"]


class SNNCompute(Module):
    """Drive `n_neurons` leaky neurons by the size of the elements of a vector, for `T` steps.

    Parameters
    ----------
    n_neurons : int, optional
        1000 without it. A vector is cut to that length, or filled up with zeros.
    use_vulkan : bool
        Whether `process` runs on a Vulkan device where there is one, else on the CPU.
    dt, tau : float
        A step and the time constant of the membrane, in one unit.
    threshold : float
    T : int
        Steps.
    input_scale : float
        A neuron gets the current ``|x| input_scale / 4`` at every step.

    Examples
    --------
    >>> from grilly_ext_snn.nn.compute import SNNCompute
    >>> found = SNNCompute(4, use_vulkan=False).process([0.0, 1.0, -3.0])
    >>> found["spikes"].tolist(), found["spike_activity"]
    ([0.0, 0.0, 2.0, 0.0], 2.0)
    """

    def __init__(
        self, n_neurons: int | None = None, use_vulkan: bool = True, *, dt: float = 0.01, tau: float = 5.0,
        threshold: float = 0.5, T: int = 50, input_scale: float = 20.0,
    ) -> None:  # fmt: skip
        super().__init__()
        finite("SNNCompute", dt=dt, tau=tau, threshold=threshold, input_scale=input_scale)
        self.n_neurons = 1000 if n_neurons is None else n_neurons
        self.T, self.input_scale = steps("SNNCompute", T), input_scale
        self.use_vulkan = use_vulkan and _there_is_vulkan()
        self.neurons = LIFNeuron(
            self.n_neurons, dt, tau, threshold, t_refrac_period=0.0, time_unit="ms", step_mode="s"
        )

    def reset(self) -> None:
        """Forget the membranes."""
        self.neurons.reset()

    def forward(self, current: Any) -> Tensor:
        """Take one step with currents ``(n,)`` or ``(B, n)``; return the spikes."""
        return self.neurons(current)

    def process(self, embedding: Any, *, spike_train: bool = False) -> dict[str, Any]:
        """Run from rest over all steps.

        Parameters
        ----------
        embedding : array_like, (d,)
        spike_train : bool
            Whether the spikes of every step are returned too.

        Returns
        -------
        dict
            ``spikes`` (n,), counts; ``spike_activity``, their sum; ``firing_rate``, the sum over ``n T``; and
            ``spike_train`` (T, n), if asked for. Arrays are NumPy's.
        """
        x = np.asarray(tensor(embedding).detach().numpy(), np.float32).reshape(-1)
        drive = np.zeros(self.n_neurons, np.float32)
        drive[: len(x)] = np.abs(x[: self.n_neurons]) * (self.input_scale / 4.0)
        current = grilly.asarray(drive, device="vulkan:0" if self.use_vulkan else "cpu")
        self.reset()
        self.neurons.step_mode = "m"
        try:
            with grilly.no_grad():
                train = self.neurons(grilly.broadcast_to(current, (self.T, self.n_neurons))).numpy()
        finally:
            self.neurons.step_mode = "s"
            self.reset()
        counts = train.sum(0)
        total = float(counts.sum())
        found = {
            "spikes": counts,
            "spike_activity": total,
            "firing_rate": total / (self.n_neurons * self.T),
        }
        return {**found, "spike_train": train} if spike_train else found


def _there_is_vulkan() -> bool:
    try:
        return bool(loader.devices_of("vulkan"))
    except (GrillyError, LookupError):
        return False
