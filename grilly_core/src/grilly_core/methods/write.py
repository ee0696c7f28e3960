"""Writes: each replaces the value of this object."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from grilly_core.methods.arithmetic import ArithmeticMethods
from grilly_core.methods.base import run
from grilly_core.methods.place import PlaceMethods

if TYPE_CHECKING:
    from grilly_core.tensor import Tensor

__all__ = ["WriteMethods"]

builtins_int = int  # the methods of these names hide the types
builtins_float = float  # the methods of these names hide the types


class WriteMethods(PlaceMethods, ArithmeticMethods):
    """Writes: each replaces the value of this object."""

    __slots__ = ()

    def copy_(self, other: Any) -> Tensor:
        """Take over the value of `other`, broadcast to this shape and cast to this dtype."""
        from grilly_core.apply import as_tensor

        value = as_tensor(other, cast("Tensor", self)).to(self.device, self.dtype)
        return self._assign(
            value.clone() if value.shape == self.shape else value.expand(*self.shape).clone(), "copy_"
        )

    def fill_(self, value: Any) -> Tensor:
        """Set every element to `value`."""
        from grilly_core.ops.creation import full_like

        return self._assign(full_like(self.detach(), value), "fill_")

    def zero_(self) -> Tensor:
        """Set every element to 0."""
        return self._assign(run("zeros_like", self.detach()), "zero_")

    def clamp_(self, min: Any = None, max: Any = None) -> Tensor:
        """Limit the elements to ``[min, max]``."""
        return self._assign(self.clamp(min, max), "clamp_")

    def add_(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Add ``alpha * other``."""
        return self._assign(self.add(other, alpha=alpha), "add_")

    def sub_(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """Subtract ``alpha * other``."""
        return self._assign(self.sub(other, alpha=alpha), "sub_")

    def masked_fill_(self, mask: Any, value: Any) -> Tensor:
        """Set the elements where `mask` holds to `value`."""
        return self._assign(self.masked_fill(mask, value), "masked_fill_")

    def index_add_(self, dim: builtins_int, index: Any, source: Any) -> Tensor:
        """Add slices of `source` at `index` along `dim`."""
        return self._assign(self.index_add(dim, index, source), "index_add_")

    def scatter_(self, dim: builtins_int, index: Any, src: Any) -> Tensor:
        """Write `src` along `dim`, one index for each update."""
        return self._assign(self.scatter(dim, index, src), "scatter_")

    def scatter_add_(self, dim: builtins_int, index: Any, src: Any) -> Tensor:
        """Add `src` along `dim`, one index for each update."""
        return self._assign(self.scatter_add(dim, index, src), "scatter_add_")

    def uniform_(self, low: builtins_float = 0.0, high: builtins_float = 1.0, *, rng: Any = None) -> Tensor:
        """Fill with uniform numbers in ``[low, high)``."""
        from grilly_core.ops.random import uniform

        return self._assign(
            uniform(low, high, self.shape, dtype=self.dtype, device=self.device, rng=rng), "uniform_"
        )

    def normal_(self, mean: builtins_float = 0.0, std: builtins_float = 1.0, *, rng: Any = None) -> Tensor:
        """Fill with normally distributed numbers."""
        from grilly_core.ops.random import normal

        return self._assign(
            normal(mean, std, self.shape, dtype=self.dtype, device=self.device, rng=rng), "normal_"
        )

    def log_normal_(
        self, mean: builtins_float = 1.0, std: builtins_float = 2.0, *, rng: Any = None
    ) -> Tensor:
        """Fill with numbers whose logarithm is normally distributed."""
        drawn = self.detach().clone().normal_(mean, std, rng=rng)
        return self._assign(run("exp", drawn), "log_normal_")

    def exponential_(self, lambd: builtins_float = 1.0, *, rng: Any = None) -> Tensor:
        """Fill with exponentially distributed numbers of mean ``1 / lambd``."""
        if not lambd > 0:
            raise ValueError(f"exponential_: lambd must be positive; received {lambd}.")
        return self._assign(run("div", self._waiting(rng), lambd), "exponential_")

    def geometric_(self, p: builtins_float, *, rng: Any = None) -> Tensor:
        """Fill with the number of trials up to the first success, each succeeding with probability `p`."""
        if not 0 < p < 1:
            raise ValueError(f"geometric_: p must lie between 0 and 1; received {p}.")
        trials = run("floor", run("div", self._waiting(rng), -math.log1p(-p)))
        return self._assign(run("add", trials, 1), "geometric_")

    def cauchy_(
        self, median: builtins_float = 0.0, sigma: builtins_float = 1.0, *, rng: Any = None
    ) -> Tensor:
        """Fill with numbers of the Cauchy distribution."""
        turn = run("mul", self.detach().clone().uniform_(-0.5, 0.5, rng=rng), math.pi)
        return self._assign(run("add", run("mul", run("tan", turn), sigma), median), "cauchy_")

    def _waiting(self, rng: Any) -> Tensor:
        """Exponentially distributed numbers of mean 1, in the shape and dtype of this tensor."""
        return run("neg", run("log1p", run("neg", self.detach().clone().uniform_(rng=rng))))
