"""``fft.dft``: NumPy's pocketfft, which stays in single precision for complex64."""

from __future__ import annotations

from typing import Any

import numpy as np

from grilly_backend_cpu.kernels.support import COMPLEX
from grilly_backend_cpu.quiet import quietly

__all__ = ["register"]


@quietly
def dft(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    """Transform along one axis of any stride."""
    out, x, axis = outs[0].array, ins[0].array, attrs["axis"]
    if x.size == 0:
        return
    if attrs["inverse"]:
        np.fft.ifft(x, axis=axis, norm="forward", out=out)
    else:
        np.fft.fft(x, axis=axis, out=out)
    if attrs["scale"] != 1:
        np.multiply(out, out.real.dtype.type(attrs["scale"]), out)


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    kernels.add("fft.dft", dft, dtypes=COMPLEX)
