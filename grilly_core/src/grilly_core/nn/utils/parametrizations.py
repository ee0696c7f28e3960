"""Parametrisations of weights: norms and orthogonality, with PyTorch's names and state-dict keys."""

from __future__ import annotations

from typing import Any

import grilly_core as grilly
from grilly_core.config import no_grad
from grilly_core.errors import ShapeError
from grilly_core.nn.module import Module
from grilly_core.nn.transposed import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from grilly_core.nn.utils.orthogonality import orthogonal
from grilly_core.nn.utils.parametrize import register_parametrization
from grilly_core.tensor import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_FIRST_ITERATIONS = 15


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn length and direction of a weight apart: ``g * v / ||v||`` (Salimans & Kingma 2016).

    Parameters
    ----------
    module : Module
    name : str
        Of the weight.
    dim : int or None
        The axis along which each slice has a length of its own; None for one length of the whole weight.

    Returns
    -------
    Module
        The same module; ``parametrizations.NAME.original0`` is ``g``, ``original1`` is ``v``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.utils.parametrizations.weight_norm(grilly.nn.Linear(20, 40))
    >>> layer.parametrizations.weight.original0.shape
    (40, 1)
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _WeightNorm(Module):
    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = dim

    def _norm(self, v: Tensor) -> Tensor:
        if self.dim is None:
            return (v * v).sum().sqrt()
        axes = tuple(i for i in range(v.ndim) if i != self.dim % v.ndim)
        return (v * v).sum(axes, keepdim=True).sqrt() if axes else v.abs()

    def forward(self, g: Tensor, v: Tensor) -> Tensor:
        return v * (g / self._norm(v))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return self._norm(weight), weight


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al. 2018).

    The singular value is estimated by power iteration, a step at each use while the module trains.

    Parameters
    ----------
    module : Module
    name : str
        Of the weight.
    n_power_iterations : int
        Steps at each use.
    eps : float
        Least norm that is divided by.
    dim : int, optional
        The axis of the outputs: 1 for transposed convolutions by default, else 0.

    Returns
    -------
    Module
        The same module.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.utils.parametrizations.spectral_norm(grilly.nn.Linear(20, 40), n_power_iterations=30)
    >>> round(float(grilly.linalg.svdvals(layer.weight)[0].item()), 3)
    1.0
    """
    if dim is None:
        dim = 1 if isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d) else 0
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"spectral_norm: {type(module).__name__} has no parameter {name!r}.")
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


class _SpectralNorm(Module):
    _u: Any
    _v: Any

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if n_power_iterations <= 0:
            raise ValueError(
                f"spectral_norm: n_power_iterations must be positive; received {n_power_iterations}."
            )
        if not -weight.ndim <= dim < weight.ndim:
            raise ShapeError(f"spectral_norm: dim {dim} is outside of a weight of {weight.ndim} axes.")
        self.dim, self.eps, self.n_power_iterations = dim % weight.ndim, eps, n_power_iterations
        if weight.ndim > 1:
            with no_grad():
                matrix = self._matrix(weight.detach())
                u, v = (grilly.randn(n, device=weight.device).to(weight.dtype) for n in matrix.shape)
                self.register_buffer("_u", self._unit(u))
                self.register_buffer("_v", self._unit(v))
                self._iterate(matrix, _FIRST_ITERATIONS)

    def _unit(self, x: Tensor) -> Tensor:
        return grilly.functional.normalize(x, dim=0, eps=self.eps)

    def _matrix(self, weight: Tensor) -> Tensor:
        if self.dim != 0:
            weight = weight.permute(self.dim, *(i for i in range(weight.ndim) if i != self.dim))
        return weight.reshape(weight.shape[0], -1)

    def _iterate(self, matrix: Tensor, count: int) -> None:
        u, v = self._u, self._v
        for _ in range(count):
            u = self._unit(matrix @ v)
            v = self._unit(matrix.T @ u)
        self._u.copy_(u)
        self._v.copy_(v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return self._unit(weight)
        matrix = self._matrix(weight)
        if self.training:
            with no_grad():
                self._iterate(matrix.detach(), self.n_power_iterations)
        sigma = (self._u.clone() * (matrix @ self._v.clone())).sum()
        normalised: Tensor = weight / sigma
        return normalised

    def right_inverse(self, value: Tensor) -> Tensor:
        return value
