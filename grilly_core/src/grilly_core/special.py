"""Special functions: error, gamma, Bessel and zeta functions, entropies and the normal distribution, elementwise."""

from __future__ import annotations

from grilly_core.ops.arithmetic import logit, sinc, xlogy
from grilly_core.ops.bessel import (
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    i0,
    i0e,
    i1,
    i1e,
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
)
from grilly_core.ops.elementary import exp2
from grilly_core.ops.gamma import digamma, gammainc, gammaincc, lgamma, multigammaln, polygamma, zeta
from grilly_core.ops.math import erf, expm1, log1p, round
from grilly_core.ops.polynomials import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)
from grilly_core.ops.special import (
    entr,
    erfc,
    erfcx,
    erfinv,
    expit,
    log_ndtr,
    logsumexp,
    ndtr,
    ndtri,
    xlog1py,
)

gammaln, psi = lgamma, digamma

__all__ = [
    "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t", "chebyshev_polynomial_u",
    "chebyshev_polynomial_v", "chebyshev_polynomial_w", "digamma", "entr", "erf", "erfc", "erfcx", "erfinv",
    "exp2", "expit", "expm1", "gammainc", "gammaincc", "gammaln", "hermite_polynomial_h",
    "hermite_polynomial_he", "i0", "i0e", "i1", "i1e", "laguerre_polynomial_l", "legendre_polynomial_p",
    "lgamma", "log1p", "log_ndtr", "logit", "logsumexp", "modified_bessel_k0", "modified_bessel_k1",
    "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "round", "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1", "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "sinc", "spherical_bessel_j0",
    "xlog1py", "xlogy", "zeta",
]  # fmt: skip
