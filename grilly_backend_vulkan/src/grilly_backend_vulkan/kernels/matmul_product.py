"""What a product of matrices is: operands of any strides, sizes, and what is done with the sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from grilly_backend_vulkan.kernels import mapping
from grilly_backend_vulkan.kernels.support import MAX_GROUPS

__all__ = ["ACTIVATIONS", "BATCH_AXES", "Finish", "Lines", "Matrices", "Product", "cut", "grid", "lines"]

BATCH_AXES: Final = 3
#: Activation → its number in ``matmul_finish.glsl``.
ACTIVATIONS: Final = {
    "none": 0,
    "relu": 1,
    "gelu": 2,
    "gelu_tanh": 3,
    "silu": 4,
    "sigmoid": 5,
    "tanh": 6,
    "relu_vjp": 7,
}
_REACH: Final = 1 << 31
_TILE: Final = 512  # no tile is longer


@dataclass(frozen=True, slots=True)
class Matrices:
    """A batch of matrices: strides in elements.

    Attributes
    ----------
    view : View or scratch memory
    row, column : int
    batch : tuple of int
        Strides of the axes of the batch, outermost first.
    """

    view: Any
    row: int
    column: int
    batch: tuple[int, ...] = ()

    @property
    def transposed(self) -> Matrices:
        """The same matrices with rows and columns exchanged."""
        return Matrices(self.view, self.column, self.row, self.batch)


@dataclass(frozen=True, slots=True)
class Finish:
    """What is done with finished sums: ``activation(sum + bias) + residual``.

    The gradient of a ReLU, ``relu_vjp``, takes the ReLU's output as residual, and is the sum where that is above zero.

    Attributes
    ----------
    bias : View or None
        Of the columns, packed.
    residual : View or None
        Laid out as the output.
    activation : str
    """

    bias: Any = None
    residual: Any = None
    activation: str = "none"

    @property
    def nothing(self) -> bool:
        """Whether the sums are the result."""
        return self.bias is None and self.residual is None and self.activation == "none"

    @property
    def reads(self) -> list[Any]:
        """What is read."""
        return [v for v in (self.bias, self.residual) if v is not None]


@dataclass(frozen=True, slots=True)
class Product:
    """A batch of products ``a @ b`` into a packed output.

    Attributes
    ----------
    out : View
    a, b : Matrices
    m, n, k : int
    shape : tuple of int
        Of the batch, without axes of size 1.
    finish : Finish
    """

    out: Any
    a: Matrices
    b: Matrices
    m: int
    n: int
    k: int
    shape: tuple[int, ...] = ()
    finish: Finish = Finish()

    @staticmethod
    def of(out: Any, a: Matrices, b: Matrices, sizes: tuple[int, int, int], shape: tuple[int, ...] = (),
           finish: Finish = Finish()) -> Product:  # fmt: skip
        """Return the product, with axes of the batch joined where both operands allow it."""
        joined, steps = mapping.merged(shape, [a.batch, b.batch])
        a, b = (Matrices(x.view, x.row, x.column, s) for x, s in zip((a, b), steps, strict=True))
        return Product(out, a, b, *sizes, joined, finish)

    @property
    def batch(self) -> int:
        """Number of products."""
        return math.prod(self.shape)

    def batch_push(self) -> tuple[int, ...]:
        """Return sizes of the inner two axes, then the strides of a and b, innermost first."""
        missing = BATCH_AXES - len(self.shape)
        sizes = [*self.shape[::-1], *[1] * missing][: BATCH_AXES - 1]
        steps = ([*x.batch[::-1], *[0] * missing] for x in (self.a, self.b))
        return (*sizes, *(s for each in steps for s in each))


@dataclass(frozen=True, slots=True)
class Lines:
    """How a tiled shader walks an operand: lines of neighbours, `step` elements apart.

    Attributes
    ----------
    along_k : bool
        Whether neighbours are terms of one sum; else they belong to neighbouring sums.
    step : int
    count, length : int
        Lines, and elements of one.
    """

    along_k: bool
    step: int
    count: int
    length: int

    def wide(self, stream: Any, operand: Matrices, each: int, itemsize: int) -> bool:
        """Whether `each` neighbours always lie together at an aligned place, or outside."""
        steps = (*operand.batch, *([self.step] if self.count > 1 else []))
        aligned = stream.address(operand.view) % (each * itemsize) == 0
        return aligned and self.length % each == 0 and all(s % each == 0 for s in steps)


def lines(operand: Matrices, rows: int, k: int) -> Lines | None:
    """Return the lines of ``a`` (or of ``b`` transposed); None if it has none, or they are too far apart."""
    if operand.column == 1 or k == 1:
        found = Lines(True, operand.row if rows > 1 else 0, rows, k)
    elif operand.row == 1 or rows == 1:
        found = Lines(False, operand.column, k, rows)
    else:
        return None
    far = max(map(abs, operand.batch), default=0) >= _REACH or abs(found.step) * _TILE >= _REACH
    return None if far or len(operand.batch) > BATCH_AXES else found


def grid(groups: int) -> tuple[int, int, int]:
    """Return at least `groups` work groups in two axes."""
    across = min(groups, MAX_GROUPS)
    return across, -(-groups // across), 1


def cut(k: int, parts: int, step: int) -> tuple[int, int]:
    """Return the terms of a part, whole steps, and how many parts that makes of `k` terms.

    Examples
    --------
    >>> cut(100, 3, 16)
    (48, 3)
    """
    chunk = max(1, math.ceil(math.ceil(k / parts) / step)) * step
    return chunk, max(1, math.ceil(k / chunk))
