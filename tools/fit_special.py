"""Write grilly_core/ops/special_fits.py: Chebyshev series of the special functions, from SciPy's values.

Each series interpolates a smooth part of a function at Chebyshev nodes; terms below the rounding error of float64
are dropped. Needs SciPy (requirements-peers.txt); run ``python tools/fit_special.py`` after a change here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special as sp

TARGET = Path(__file__).parents[1] / "grilly_core/src/grilly_core/ops/special_fits.py"
ARRAY = np.ndarray[Any, Any]


def series(function: Callable[[ARRAY], ARRAY], low: float, high: float, degree: int = 40) -> list[float]:
    """Chebyshev coefficients of a function on [low, high], cut where they no longer matter."""

    def mapped(t: ARRAY) -> ARRAY:
        return function((t + 1) * 0.5 * (high - low) + low)

    found = np.polynomial.chebyshev.chebinterpolate(mapped, degree)
    size = np.abs(found)
    noise = max(4e-16 * size.max(), 4 * float(np.median(size[-8:])))  # of SciPy's own rounding
    quiet = [k for k in range(1, degree) if max(size[k], size[k + 1]) < noise]
    return [float(c) for c in found[: quiet[0]]]


def hankel(order: int, part: str) -> Callable[[ARRAY], ARRAY]:
    """Modulus-and-phase parts of the Bessel functions for ``x = 1/u``: both are smooth in ``u``."""

    def values(u: ARRAY) -> ARRAY:
        x = 1 / np.maximum(u, 1e-7)
        phase = x - (0.25 + 0.5 * order) * np.pi
        j, y = sp.jv(order, x), sp.yv(order, x)
        scale = np.sqrt(np.pi * x / 2)
        if part == "p":
            return scale * (j * np.cos(phase) + y * np.sin(phase))
        return scale * (y * np.cos(phase) - j * np.sin(phase)) * x

    return values


def rest_of_y(order: int) -> Callable[[ARRAY], ARRAY]:
    """What is left of Y of order 0 or 1, without its logarithm, as a function of ``x**2``."""

    def values(s: ARRAY) -> ARRAY:
        x = np.sqrt(np.maximum(s, 1e-8))
        if order == 0:
            return sp.y0(x) - 2 / np.pi * np.log(x) * sp.j0(x)
        return (sp.y1(x) - 2 / np.pi * (np.log(x) * sp.j1(x) - 1 / x)) / x

    return values


def rest_of_k(order: int) -> Callable[[ARRAY], ARRAY]:
    """What is left of K of order 0 or 1, without its logarithm, as a function of ``x**2``."""

    def values(s: ARRAY) -> ARRAY:
        x = np.sqrt(np.maximum(s, 1e-8))
        if order == 0:
            return sp.k0(x) + np.log(x / 2) * sp.i0(x)
        return (sp.k1(x) - np.log(x / 2) * sp.i1(x) - 1 / x) / x

    return values


def lgamma_part(x: ARRAY) -> ARRAY:
    """``lgamma(x) / ((x - 1) (x - 2))``, by its limits at 1 and 2."""
    euler = np.euler_gamma
    bottom = (x - 1) * (x - 2)
    near1, near2 = np.abs(x - 1) < 1e-9, np.abs(x - 2) < 1e-9
    safe = np.where(near1 | near2, 1.0, bottom)
    return np.where(near1, euler, np.where(near2, 1 - euler, sp.gammaln(x) / safe))


FITS: dict[str, tuple[str, list[float]]] = {
    "ERFCX": ("erfcx(x) / t over t = 2 / (2 + x) in (0, 1]", series(
        lambda t: sp.erfcx(2 / np.maximum(t, 1e-12) - 2) / np.maximum(t, 1e-12), 0, 1)),
    "LGAMMA": ("lgamma(x) / ((x - 1)(x - 2)) over x in [1, 3]", series(lgamma_part, 1, 3)),
    "I0_SMALL": ("exp(-x) I0(x) over x in [0, 8]", series(sp.i0e, 0, 8)),
    "I0_LARGE": ("sqrt(x) exp(-x) I0(x) over 8 / x in (0, 1]", series(
        lambda u: np.sqrt(8 / np.maximum(u, 1e-9)) * sp.i0e(8 / np.maximum(u, 1e-9)), 0, 1)),
    "I1_SMALL": ("exp(-x) I1(x) / x over x in [0, 8]", series(
        lambda x: sp.i1e(np.maximum(x, 1e-9)) / np.maximum(x, 1e-9), 0, 8)),
    "I1_LARGE": ("sqrt(x) exp(-x) I1(x) over 8 / x in (0, 1]", series(
        lambda u: np.sqrt(8 / np.maximum(u, 1e-9)) * sp.i1e(8 / np.maximum(u, 1e-9)), 0, 1)),
    "J0_SMALL": ("J0(x) over x**2 in [0, 64]", series(lambda s: sp.j0(np.sqrt(s)), 0, 64)),
    "J1_SMALL": ("J1(x) / x over x**2 in [0, 64]", series(
        lambda s: sp.j1(np.sqrt(np.maximum(s, 1e-14))) / np.sqrt(np.maximum(s, 1e-14)), 0, 64)),
    "Y0_SMALL": ("Y0(x) - 2/pi log(x) J0(x) over x**2 in [0, 64]", series(rest_of_y(0), 0, 64)),
    "Y1_SMALL": ("(Y1(x) - 2/pi (log(x) J1(x) - 1/x)) / x over x**2 in [0, 64]", series(rest_of_y(1), 0, 64)),
    "P0": ("P of order 0 over 8 / x in (0, 1]", series(lambda u: hankel(0, "p")(u / 8), 0, 1)),
    "Q0": ("x Q of order 0 over 8 / x in (0, 1]", series(lambda u: hankel(0, "q")(np.maximum(u, 1e-3) / 8), 0, 1)),
    "P1": ("P of order 1 over 8 / x in (0, 1]", series(lambda u: hankel(1, "p")(u / 8), 0, 1)),
    "Q1": ("x Q of order 1 over 8 / x in (0, 1]", series(lambda u: hankel(1, "q")(np.maximum(u, 1e-3) / 8), 0, 1)),
    "K0_SMALL": ("K0(x) + log(x/2) I0(x) over x**2 in [0, 4]", series(rest_of_k(0), 0, 4)),
    "K1_SMALL": ("(K1(x) - log(x/2) I1(x) - 1/x) / x over x**2 in [0, 4]", series(rest_of_k(1), 0, 4)),
    "K0_LARGE": ("sqrt(x) exp(x) K0(x) over 2 / x in (0, 1]", series(
        lambda u: np.sqrt(2 / np.maximum(u, 1e-9)) * sp.k0e(2 / np.maximum(u, 1e-9)), 0, 1)),
    "K1_LARGE": ("sqrt(x) exp(x) K1(x) over 2 / x in (0, 1]", series(
        lambda u: np.sqrt(2 / np.maximum(u, 1e-9)) * sp.k1e(2 / np.maximum(u, 1e-9)), 0, 1)),
}  # fmt: skip


def main() -> None:
    """Write the module."""
    lines = [
        '"""Chebyshev series for `special`, written by tools/fit_special.py; do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final",
        "",
    ]
    for name, (meaning, coefficients) in FITS.items():
        lines += [f"#: {meaning}", f"{name}: Final = ("]
        lines += [f"    {c!r}," for c in coefficients]
        lines += [")", ""]
    TARGET.write_text("\n".join(lines), encoding="utf-8")
    for name, (_, coefficients) in FITS.items():
        print(f"{name:9} {len(coefficients)} terms, the last {coefficients[-1]:.1e}")


if __name__ == "__main__":
    main()
