"""Scans for Numba, one module for each neuron; made by ``python -m grilly_ext_snn.kernels.emit``."""
