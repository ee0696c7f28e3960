"""Functions that NumPy lacks, in NumPy."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from grilly_backend_cpu.kernels.support import widened

__all__ = ["erf"]

# Our own fits: erf(z) / z in z**2 for z <= 1, and (1 + 2 z) exp(z**2) erfc(z) in t = (z - 2) / (z + 2) for 1 <= z <= 6.
# Both are below 2e-19 off, so rounding decides.
_NEAR: Final = (
    5.957176147748911e-11,
    -1.1372848856791674e-09,
    1.4659775274047436e-08,
    -1.6350312701054695e-07,
    1.6461000484121368e-06,
    -1.4925595266831182e-05,
    0.0001205533111164271,
    -0.000854832698083379,
    0.0052239776248180145,
    -0.026866170645076792,
    0.11283791670954879,
    -0.3761263890318375,
    1.1283791670955126,
)
_FAR: Final = (
    -5.726657919591312e-07,
    -1.0213665612092237e-06,
    1.4407263366295628e-06,
    5.3557634163047894e-06,
    3.710816258542232e-06,
    -1.3519446482991338e-05,
    -3.64220507779147e-05,
    -1.5066605946481974e-06,
    0.0001510391003572724,
    0.00020636696269404087,
    -0.0004543408446390139,
    -0.001456813934073493,
    0.001271338967968922,
    0.008722653875293036,
    -0.008034015082525296,
    -0.05422000099203026,
    0.16405128003344405,
    -0.16603039761528943,
    -0.09276382658574601,
    1.2769783815525286,
)
_ONE_FROM: Final = 6.0  # erf(6) rounds to 1


def _polynomial(coefficients: tuple[float, ...], x: NDArray[Any]) -> NDArray[Any]:
    result = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        result *= x
        result += c
    return result


def _erf64(x: NDArray[np.float64]) -> NDArray[np.float64]:
    z = np.minimum(np.abs(x), _ONE_FROM)
    near = x * _polynomial(_NEAR, np.minimum(z, 1.0) ** 2)
    far = 1.0 - _polynomial(_FAR, (z - 2.0) / (z + 2.0)) * np.exp(-z * z) / (1.0 + 2.0 * z)
    result: NDArray[np.float64] = np.where(z < 1.0, near, np.copysign(far, x))
    return result


def erf(x: NDArray[Any], out: NDArray[Any]) -> None:
    """Write the error function of `x` to `out`, within 2 ulp; computed in f64.

    Examples
    --------
    >>> import numpy as np
    >>> erf(np.array([0.5]), out := np.empty(1))
    >>> round(float(out[0]), 12)
    0.520499877813
    """
    out[...] = _erf64(widened(x).astype(np.float64, copy=False))
