"""Arithmetic that is more than one elementwise op, and comparisons of whole tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from grilly_core.methods.base import Methods, run

if TYPE_CHECKING:
    from grilly_core.tensor import Tensor

__all__ = ["ArithmeticMethods"]

builtins_int = int  # the methods of these names hide the types
builtins_float = float  # the methods of these names hide the types
builtins_bool = bool  # the methods of these names hide the types


class ArithmeticMethods(Methods):
    """Arithmetic that is more than one elementwise op, and comparisons of whole tensors."""

    __slots__ = ()

    def add(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Return ``self + alpha * other``."""
        return run("add", self, other if alpha == 1 else run("mul", other, alpha))

    def sub(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Return ``self - alpha * other``."""
        return run("sub", self, other if alpha == 1 else run("mul", other, alpha))

    def matmul(self, other: Any) -> Tensor:
        """Return the matrix product."""
        return run("matmul_any", self, other)

    mm = matmul
    bmm = matmul
    dot = matmul
    mv = matmul

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """Return the elements limited to ``[min, max]``."""
        return run("clip", self, min, max)

    clip = clamp

    def softmax(self, dim: builtins_int = -1) -> Tensor:
        """Return ``exp(x) / sum(exp(x))`` along `dim`."""
        return run("nn.softmax", self, axis=dim)

    def log_softmax(self, dim: builtins_int = -1) -> Tensor:
        """Return the logarithm of `softmax` along `dim`."""
        return run("nn.log_softmax", self, axis=dim)

    def round(self, decimals: builtins_int = 0) -> Tensor:
        """Return the nearest numbers with `decimals` digits after the point; halves go to the even digit."""
        if decimals == 0:
            return run("round", self)
        scale = 10.0 ** abs(decimals)
        if decimals > 0:
            return run("div", run("round", run("mul", self, scale)), scale)
        return run("mul", run("round", run("div", self, scale)), scale)

    def allclose(
        self,
        other: Any,
        rtol: builtins_float = 1e-5,
        atol: builtins_float = 1e-8,
        equal_nan: builtins_bool = False,
    ) -> builtins_bool:
        """Whether all elements agree within ``atol + rtol * abs(other)``."""
        import numpy as np

        from grilly_core.apply import as_tensor

        mine, its = self.detach().numpy(), as_tensor(other, cast("Tensor", self)).detach().numpy()
        return builtins_bool(np.allclose(mine, its, rtol, atol, equal_nan))

    def equal(self, other: Tensor) -> builtins_bool:
        """Whether shape and all elements are equal."""
        return self.shape == other.shape and builtins_bool(run("all", run("eq", self, other)))
