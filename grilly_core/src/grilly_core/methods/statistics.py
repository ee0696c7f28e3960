"""Order statistics, averages that skip NaN, covariances, counts, running extremes and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grilly_core.methods.base import Methods

if TYPE_CHECKING:
    from grilly_core.tensor import Tensor

__all__ = ["StatisticsMethods"]

builtins_bool = bool  # methods may hide the types
builtins_float = float  # methods may hide the types
builtins_int = int  # methods may hide the types


class StatisticsMethods(Methods):
    """Order statistics, averages that skip NaN, covariances, counts, running extremes and differences."""

    __slots__ = ()

    def median(self, dim: builtins_int | None = None, keepdim: builtins_bool = False) -> Any:
        """Return the lower median, as PyTorch: a tensor, or with `dim` values and indices; NaN if any is NaN."""
        from grilly_core.ops.statistics import median

        return median(self, axis=dim, keepdims=keepdim)

    def nanmedian(self, dim: builtins_int | None = None, keepdim: builtins_bool = False) -> Any:
        """Return the lower median of what is not NaN; see `median`."""
        from grilly_core.ops.statistics import nanmedian

        return nanmedian(self, axis=dim, keepdims=keepdim)

    def mode(self, dim: builtins_int = -1, keepdim: builtins_bool = False) -> Any:
        """Return the most frequent value along `dim` (the smallest of several) and where it is found last."""
        from grilly_core.ops.statistics import mode

        return mode(self, axis=dim, keepdims=keepdim)

    def kthvalue(self, k: builtins_int, dim: builtins_int = -1, keepdim: builtins_bool = False) -> Any:
        """Return the `k`-th smallest element along `dim`, counted from 1, and its index."""
        from grilly_core.ops.statistics import kthvalue

        return kthvalue(self, k, axis=dim, keepdims=keepdim)

    def quantile(
        self,
        q: Any,
        dim: builtins_int | None = None,
        keepdim: builtins_bool = False,
        *,
        interpolation: str = "linear",
    ) -> Tensor:
        """Return the quantiles `q` (a number or a 1-D tensor, whose axis comes first) over `dim`."""
        from grilly_core.ops.statistics import quantile

        return quantile(self, q, axis=dim, keepdims=keepdim, method=interpolation)

    def nanquantile(
        self,
        q: Any,
        dim: builtins_int | None = None,
        keepdim: builtins_bool = False,
        *,
        interpolation: str = "linear",
    ) -> Tensor:
        """Return the quantiles of what is not NaN; see `quantile`."""
        from grilly_core.ops.statistics import nanquantile

        return nanquantile(self, q, axis=dim, keepdims=keepdim, method=interpolation)

    def nansum(self, dim: Any = None, keepdim: builtins_bool = False, *, dtype: Any = None) -> Tensor:
        """Return the sum over `dim`, NaN counting as 0."""
        from grilly_core.ops.statistics import nansum

        return nansum(self, axis=dim, keepdims=keepdim, dtype=dtype)

    def nanmean(self, dim: Any = None, keepdim: builtins_bool = False) -> Tensor:
        """Return the mean over `dim` of what is not NaN."""
        from grilly_core.ops.statistics import nanmean

        return nanmean(self, axis=dim, keepdims=keepdim)

    def aminmax(self, *, dim: builtins_int | None = None, keepdim: builtins_bool = False) -> Any:
        """Return the smallest and the largest element over `dim`."""
        from grilly_core.ops.statistics import aminmax

        return aminmax(self, axis=dim, keepdims=keepdim)

    def cov(self, *, correction: builtins_int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
        """Return the covariance matrix of variables (rows) over observations (columns)."""
        from grilly_core.ops.statistics import cov

        return cov(self, correction=correction, fweights=fweights, aweights=aweights)

    def corrcoef(self) -> Tensor:
        """Return the matrix of correlation coefficients of variables (rows)."""
        from grilly_core.ops.statistics import corrcoef

        return corrcoef(self)

    def bincount(self, weights: Any = None, minlength: builtins_int = 0) -> Tensor:
        """Return how often each integer 0, 1, ... occurs, or the sums of `weights` where it does."""
        from grilly_core.ops.histograms import bincount

        return bincount(self, weights, minlength=minlength)

    def histc(self, bins: builtins_int = 100, min: builtins_float = 0.0, max: builtins_float = 0.0) -> Tensor:
        """Return the counts of `bins` equal bins from `min` to `max` (of the data, if both are equal)."""
        from grilly_core.ops.histograms import histc

        return histc(self, bins, min=min, max=max)

    def cummax(self, dim: builtins_int) -> Any:
        """Return the running maximum along `dim` and the index where it was last reached."""
        from grilly_core.ops.scan import cummax

        return cummax(self, axis=dim)

    def cummin(self, dim: builtins_int) -> Any:
        """Return the running minimum along `dim` and the index where it was last reached."""
        from grilly_core.ops.scan import cummin

        return cummin(self, axis=dim)

    def logcumsumexp(self, dim: builtins_int) -> Tensor:
        """Return the logarithm of the running sum of ``exp(x)`` along `dim`, without overflow."""
        from grilly_core.ops.scan import logcumsumexp

        return logcumsumexp(self, axis=dim)

    def diff(
        self, n: builtins_int = 1, dim: builtins_int = -1, prepend: Any = None, append: Any = None
    ) -> Tensor:
        """Return n-th differences of neighbours along `dim`."""
        from grilly_core.ops.scan import diff

        return diff(self, n=n, axis=dim, prepend=prepend, append=append)

    def unique(
        self,
        return_inverse: builtins_bool = False,
        return_counts: builtins_bool = False,
        dim: builtins_int | None = None,
    ) -> Any:
        """Return the distinct values in order, or with `dim` the distinct slices in lexicographic order."""
        from grilly_core.ops.sets import unique

        return unique(self, return_inverse=return_inverse, return_counts=return_counts, axis=dim)

    def unique_consecutive(
        self,
        return_inverse: builtins_bool = False,
        return_counts: builtins_bool = False,
        dim: builtins_int | None = None,
    ) -> Any:
        """Return the values (or slices along `dim`) without those equal to the one before; see `unique`."""
        from grilly_core.ops.sets import unique_consecutive

        return unique_consecutive(self, return_inverse=return_inverse, return_counts=return_counts, axis=dim)
