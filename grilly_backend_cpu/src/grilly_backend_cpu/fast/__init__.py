"""Kernels compiled by Numba, by family. Nothing here imports Numba; `grilly_backend_cpu.jit` does, on first use."""
