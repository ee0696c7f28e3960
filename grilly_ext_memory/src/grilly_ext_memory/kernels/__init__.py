"""Kernels of this package, by backend."""
