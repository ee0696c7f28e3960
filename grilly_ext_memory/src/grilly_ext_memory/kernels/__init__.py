"""Kernels by backend, each loaded when that backend opens."""
