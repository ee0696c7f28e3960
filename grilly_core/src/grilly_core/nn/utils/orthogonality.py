"""Weights that stay orthogonal while they are learnt: three maps onto orthogonal matrices, as PyTorch has them."""

from __future__ import annotations

from typing import Any

import numpy as np

import grilly_core as grilly
from grilly_core.config import no_grad
from grilly_core.errors import ShapeError
from grilly_core.nn.module import Module
from grilly_core.nn.utils.parametrize import register_parametrization
from grilly_core.tensor import Tensor

__all__ = ["orthogonal"]

_MAPS = ("matrix_exp", "cayley", "householder")


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a weight orthogonal: its rows are orthonormal, or its columns, of which there are fewer.

    Parameters
    ----------
    module : Module
    name : str
        Of a matrix, or of a batch of matrices ``(..., M, N)``.
    orthogonal_map : {"matrix_exp", "cayley", "householder"}, optional
        How the matrix is made from what is learnt. By default ``"matrix_exp"`` for square and complex matrices, which
        the product of reflections cannot make, else ``"householder"``.
    use_trivialization : bool
        Learn how far the matrix is from a fixed one (Lezcano-Casado 2019), which keeps the gradients well scaled, and
        lets the weight be assigned. Without it only ``"householder"`` starts from the present weight.

    Returns
    -------
    Module
        The same module; what is learnt is ``parametrizations.NAME.original``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> layer = grilly.nn.utils.parametrizations.orthogonal(grilly.nn.Linear(20, 40))
    >>> far = layer.weight.T @ layer.weight - grilly.eye(20)
    >>> bool((far.abs() < 1e-5).all())
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"orthogonal: {type(module).__name__} has no parameter or buffer {name!r}.")
    if weight.ndim < 2:
        raise ShapeError(f"orthogonal: expected a matrix or matrices; received shape {tuple(weight.shape)}.")
    is_complex = weight.dtype.kind == "c"
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or is_complex else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(f"orthogonal_map: expected one of {', '.join(_MAPS)}; received {orthogonal_map!r}.")
    if is_complex and orthogonal_map == "householder":
        raise ValueError("orthogonal: 'householder' makes no complex matrices; use 'matrix_exp' or 'cayley'.")
    kind = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, kind, unsafe=True)


class _Orthogonal(Module):
    base: Any

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.shape = tuple(weight.shape)
        self.orthogonal_map = orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.shape[-2] < x.shape[-1]
        tall = x.mT if wide else x
        q = _reflected(tall) if self.orthogonal_map == "householder" else self._turned(tall)
        if self.use_trivialization:
            q = self.base @ q
        return q.mT if wide else q

    def _turned(self, x: Tensor) -> Tensor:
        """Return the first columns of the image of a skew-symmetric matrix."""
        n, k = x.shape[-2:]
        lower = x.tril()
        if n != k:
            lower = grilly.concat([lower, lower.new_zeros((*x.shape[:-2], n, n - k))], axis=-1)
        skew = lower - lower.mH
        if self.orthogonal_map == "matrix_exp":
            q = grilly.linalg.matrix_exp(skew)
        else:
            identity = grilly.eye(n, dtype=x.dtype, device=x.device)
            q = grilly.linalg.solve(identity - 0.5 * skew, identity + 0.5 * skew)
        columns: Tensor = q[..., :k] if n != k else q
        return columns

    def right_inverse(self, q: Tensor) -> Tensor:
        if tuple(q.shape) != self.shape:
            raise ShapeError(f"orthogonal: expected shape {self.shape}; received {tuple(q.shape)}.")
        with no_grad():
            wide = q.shape[-2] < q.shape[-1]
            tall = q.detach().mT if wide else q.detach()
            if not self.use_trivialization:
                if self.orthogonal_map != "householder":
                    raise NotImplementedError(
                        f"orthogonal: with use_trivialization=False {self.orthogonal_map!r} cannot be assigned to."
                    )
                found = _reflections(tall)
                return found.mT if wide else found
            self.base = _completed(tall)
            # Minus one on the diagonal, so that reflections by nothing give the identity.
            start = np.zeros(self.shape)
            np.einsum("...ii->...i", start[..., : min(self.shape[-2:]), : min(self.shape[-2:])])[...] = -1.0
            made: Tensor = grilly.asarray(start, dtype=q.dtype, device=q.device)
            return made


def _reflected(x: Tensor) -> Tensor:
    """Product of the reflections by the columns below the diagonal; the diagonal, which is not learnt, has signs."""
    below = x.tril(-1)
    tau = 2.0 / (1.0 + (below * below).sum(dim=-2))
    signs = x.detach().diagonal(dim1=-2, dim2=-1).trunc()
    product: Tensor = grilly.linalg.householder_product(below, tau) * signs.unsqueeze(-2)
    return product


def _reflections(q: Tensor) -> Tensor:
    """Return what `_reflected` makes the orthogonal factor of `q` of (LAPACK's ``geqrf``, signs on the diagonal)."""
    a = np.array(q.numpy(), order="C")
    for matrix in a.reshape(-1, *a.shape[-2:]):
        for j in range(matrix.shape[1]):
            column = matrix[j:, j]
            rest, alpha = float(column[1:] @ column[1:]), float(column[0])
            if rest == 0.0:  # no reflection, so the factor has the sign of its own diagonal turned round
                matrix[j, j] = -np.sign(alpha)
                continue
            beta = -np.copysign(np.sqrt(alpha * alpha + rest), alpha)
            v = column / (alpha - beta)
            v[0] = 1.0
            matrix[j:, j + 1 :] -= (beta - alpha) / beta * np.outer(v, v @ matrix[j:, j + 1 :])
            matrix[j:, j] = v
            matrix[j, j] = np.sign(beta)
    made: Tensor = grilly.asarray(a, dtype=q.dtype, device=q.device)
    return made


def _completed(q: Tensor) -> Tensor:
    """Return a square orthogonal matrix that starts with the columns of `q`, made orthogonal if they are not."""
    n, k = q.shape[-2:]
    if n != k:
        more = grilly.randn(*q.shape[:-2], n, n - k, device=q.device).to(q.dtype)
        return _orthogonalised(grilly.concat([q, more], axis=-1))
    eps = 10 * n * grilly.finfo(q.dtype).eps
    off = q.mH @ q - grilly.eye(n, dtype=q.dtype, device=q.device)
    return q.clone() if bool((off.abs() <= eps).all()) else _orthogonalised(q)


def _orthogonalised(a: Tensor) -> Tensor:
    """Orthogonal factor whose triangular factor has a positive diagonal, so that orthogonal columns stay."""
    q, r = grilly.linalg.qr(a)
    made: Tensor = q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
    return made
