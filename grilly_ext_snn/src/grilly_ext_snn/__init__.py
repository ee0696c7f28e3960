"""Spiking networks for grilly: neurons, surrogate gradients, synapses, plasticity, encoders, conversion."""

__version__ = "0.1.0"

#: The epoch of the plugin contracts that this package is written for.
grilly_abi = 1
