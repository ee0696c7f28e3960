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

ENTRIES = {
    **{f"special.{n}": Entry(lambda *a, _n=n: getattr(S, _n)(*a), tol=5e-5) for n in SAME.split()},
    "special.modified_bessel_i0": Entry(lambda x: S.i0(x)),
    "special.modified_bessel_i1": Entry(lambda x: S.i1(x)),
    "special.polygamma": Entry(lambda x, n: S.polygamma(n, x), tol=1e-4),
}
