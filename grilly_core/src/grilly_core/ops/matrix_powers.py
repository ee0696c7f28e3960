"""Powers, exponentials and chains of products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.ops import primitives as p
from grilly_core.ops.creation import eye
from grilly_core.ops.decompositions import matrix
from grilly_core.ops.linalg import matmul
from grilly_core.ops.reduce import max, sum
from grilly_core.ops.solutions import inv, solve
from grilly_core.ops.views import broadcast_to, expand_dims, squeeze
from grilly_core.tensor import Tensor

__all__ = ["matrix_exp", "matrix_power", "multi_dot", "vander"]


def matrix_power(x: Any, n: int, /) -> Tensor:
    """Return the `n`-th power of square matrices; a negative one is a power of the inverse.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.matrix_power([[1.0, 1.0], [0.0, 1.0]], 3).tolist()
    [[1.0, 3.0], [0.0, 1.0]]
    """
    x = as_tensor(x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"matrix_power: expected square matrices (..., N, N); received shape {x.shape}.")
    if n < 0:
        x, n = inv(x), -n
    if n == 0:
        return broadcast_to(eye(x.shape[-1], dtype=x.dtype, device=x.device), shape=x.shape)
    result: Tensor | None = None
    while n:  # by squaring: one product for each binary digit, another for each that is 1
        if n & 1:
            result = x if result is None else matmul(result, x)
        n >>= 1
        x = matmul(x, x) if n else x
    assert result is not None
    return result


#: Numerator of the Padé approximant of order 13, and the norm up to which it is exact (Higham 2005).
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_PADE_NORM = {"f32": 1.0, "f64": 5.371920351148152}


def matrix_exp(x: Any, /) -> Tensor:
    """Return the exponential of square matrices, by scaling and squaring a Padé approximant (Higham 2005).

    The largest norm is read by the host once; inside `capture` that is an error.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.matrix_exp([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    x = matrix(x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"matrix_exp: expected square matrices (..., N, N); received shape {x.shape}.")
    if math.prod(x.shape) == 0:
        return p.strided_copy(x)
    largest = float(max(sum(p.abs(x.detach()), axis=-2)).item())
    limit = _PADE_NORM[x.dtype.real.code]
    squarings = math.ceil(math.log2(largest / limit)) if limit < largest < math.inf else 0
    x = p.mul(x, 0.5**squarings)
    one = broadcast_to(eye(x.shape[-1], dtype=x.dtype, device=x.device), shape=x.shape)
    # Everything is divided by the first coefficient, so that nothing overflows in float32.
    b = [c / _PADE[0] for c in _PADE]
    x2 = matmul(x, x)
    even, odd, power = p.mul(one, 1.0), p.mul(one, b[1]), one
    for k in range(2, len(b), 2):
        power = matmul(power, x2)
        even = p.add(even, p.mul(power, b[k]))
        odd = p.add(odd, p.mul(power, b[k + 1])) if k + 1 < len(b) else odd
    odd = matmul(x, odd)
    result = solve(p.sub(even, odd), p.add(even, odd))
    for _ in range(squarings):
        result = matmul(result, result)
    return result


def multi_dot(tensors: Sequence[Any], /) -> Tensor:
    """Return the product of several matrices, in the order that costs least; the ends may be vectors.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.multi_dot([[1.0, 2.0], [[1.0], [1.0]]]).tolist()
    [3.0]
    """
    parts = [as_tensor(t) for t in tensors]
    if len(parts) < 2:
        raise ValueError(f"multi_dot: expected at least 2 matrices; received {len(parts)}.")
    row, column = parts[0].ndim == 1, parts[-1].ndim == 1
    parts[0] = expand_dims(parts[0], axis=0) if row else parts[0]
    parts[-1] = expand_dims(parts[-1], axis=1) if column else parts[-1]
    sizes = [t.shape[0] for t in parts] + [parts[-1].shape[1]]
    result = _chained(parts, _cheapest(sizes), 0, len(parts) - 1)
    drop = ((0,) if row else ()) + ((1,) if column else ())
    return squeeze(result, axis=drop) if drop else result


def _cheapest(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to split each range of a chain of products (the classic dynamic programme)."""
    n = len(sizes) - 1
    cost: dict[tuple[int, int], float] = {(i, i): 0 for i in range(n)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            ]
            cost[i, j], split[i, j] = sorted(options)[0]
    return split


def _chained(parts: Sequence[Tensor], split: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return parts[i]
    k = split[i, j]
    return matmul(_chained(parts, split, i, k), _chained(parts, split, k + 1, j))


def vander(x: Any, /, *, N: int | None = None) -> Tensor:
    """Return matrices of the powers 0 to `N` - 1 of the elements of the last axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.linalg.vander([2, 3], N=3).tolist()
    [[1, 2, 4], [1, 3, 9]]
    """
    from grilly_core.ops.manipulate import stack

    x = as_tensor(x)
    count = x.shape[-1] if N is None else N
    one = p.add(p.mul(x, 0), 1)
    powers = [one]
    for _ in range(count - 1):
        powers.append(p.mul(powers[-1], x))
    return stack(powers, axis=-1)
