"""Which function of grilly answers which name of ``torch.special``."""

from __future__ import annotations

from typing import Any

from tests.peers.op_samples import Entry

import grilly

S: Any = grilly.special
SAME = """
    bessel_j0 bessel_j1 bessel_y0 bessel_y1 entr erfcx i0e i1 i1e log_ndtr modified_bessel_k0 modified_bessel_k1 ndtr
    ndtri scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 xlog1py zeta
"""
POLYNOMIALS = """
    chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h
    hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t
    shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w
"""


ENTRIES = {
    **{f"special.{n}": Entry(lambda *a, _n=n: getattr(S, _n)(*a), tol=5e-5) for n in SAME.split()},
    **{f"special.{n}": Entry(lambda x, n, _f=n: getattr(S, _f)(x, n), tol=1e-4) for n in POLYNOMIALS.split()},
    "special.modified_bessel_i0": Entry(lambda x: S.i0(x)),
    "special.modified_bessel_i1": Entry(lambda x: S.i1(x)),
    "special.polygamma": Entry(lambda x, n: S.polygamma(n, x), tol=1e-4),
}
