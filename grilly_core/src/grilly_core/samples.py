"""The sample builder: what an op's ``samples`` rule receives, and the cases it collects.

The conformance kit runs the cases on devices; `grilly explain` uses the first as a typical input.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grilly_core.opspec import Op

__all__ = ["Case", "ErrorCase", "Samples", "cases_of"]


@dataclass(frozen=True)
class Case:
    """Inputs on which an op must work.

    Attributes
    ----------
    inputs : tuple
        Arrays, None, or lists of arrays, in schema order.
    attrs : dict
    tol : float or None
        Relative and absolute tolerance against float64; None for the kit's own.
    grad : {"exact", "surrogate", "none"}
        Whether finite differences check the gradient.
    compare : {"close", "bits"}
    """

    op: Op[Any, Any]
    index: int
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    tol: float | None = None
    grad: str = "exact"
    compare: str = "close"

    def __str__(self) -> str:
        shapes = ", ".join(_described(x) for x in self.inputs)
        attrs = "".join(f", {k}={v}" for k, v in self.attrs.items())
        return f"{self.op.name}#{self.index}({shapes}{attrs})"


@dataclass(frozen=True)
class ErrorCase:
    """Inputs that an op must refuse, with the error and a part of its message."""

    op: Op[Any, Any]
    error: type[BaseException]
    message: str
    inputs: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.op.name}({', '.join(_described(x) for x in self.inputs)}) → {self.error.__name__}"


def _described(x: Any) -> str:
    if x is None:
        return "None"
    if isinstance(x, list):
        return f"[{', '.join(map(_described, x))}]"
    return f"{x.dtype}{list(x.shape)}"


class Samples:
    """Makes arrays from a stream that depends on the op's name alone, and collects cases."""

    def __init__(self, op: Op[Any, Any]) -> None:
        self._op = op
        self._rng = np.random.default_rng(zlib.crc32(op.name.encode()))
        self.cases: list[Case] = []
        self.errors: list[ErrorCase] = []

    def f32(
        self, *shape: int, low: float = -2.0, high: float = 2.0, scale: float = 1.0, gap: float = 0.0
    ) -> NDArray[Any]:
        """Uniform floats in ``scale * [low, high]``, none closer to 0 than `gap`, all different."""
        x = self._rng.uniform(low, high, shape) * scale
        if gap:
            x = np.where(np.abs(x) < gap, np.copysign(gap + np.abs(x), x), x)
        return np.asarray(x, np.float32)

    def c64(self, *shape: int) -> NDArray[Any]:
        """Complex numbers."""
        return np.asarray(self.f32(*shape) + 1j * self.f32(*shape), np.complex64)

    def i32(self, *shape: int, low: int = -100, high: int = 100) -> NDArray[Any]:
        """Integers in ``[low, high)``."""
        return np.asarray(self._rng.integers(low, high, shape), np.int32)

    def u32(self, *shape: int, low: int = 0, high: int = 1 << 32) -> NDArray[Any]:
        """Unsigned integers in ``[low, high)``."""
        return np.asarray(self._rng.integers(low, high, shape), np.uint32)

    def bool(self, *shape: int) -> NDArray[Any]:
        """Truth values."""
        return np.asarray(self._rng.integers(0, 2, shape), np.bool_)

    def state(self) -> NDArray[Any]:
        """State of a random generator."""
        return np.array([11, 22, 3, 0], np.uint32)

    def array(self, values: Any) -> NDArray[Any]:
        """Exactly these values."""
        return np.asarray(values)

    def case(
        self,
        *inputs: Any,
        tol: float | None = None,
        grad: str = "exact",
        compare: str = "close",
        **attrs: Any,
    ) -> None:
        """Declare inputs on which the op must work."""
        self.cases.append(Case(self._op, len(self.cases), self._padded(inputs), attrs, tol, grad, compare))

    def error(self, error: type[BaseException], message: str, *inputs: Any, **attrs: Any) -> None:
        """Declare inputs that the op must refuse with `error`, whose message contains `message`."""
        self.errors.append(ErrorCase(self._op, error, message, self._padded(inputs), attrs))

    def _padded(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return inputs + (None,) * (self._op.arity - len(inputs))


def cases_of(op: Op[Any, Any]) -> Samples:
    """Return the cases an op declares."""
    samples = Samples(op)
    if op.samples_rule is not None:
        op.samples_rule(samples)
    return samples
