"""Descriptions of neurons: one function for each, from which bodies, gradients and kernels are made."""

from __future__ import annotations

from grilly_ext_snn.neurons.model import NEURONS, Neuron, neuron_of

__all__ = ["NEURONS", "Neuron", "neuron_of"]
