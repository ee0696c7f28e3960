"""Indexes that look at every vector: exact, in half precision, in 8 or 4 bits a number, or in products of codewords."""

from __future__ import annotations

from typing import Any, Final

from grilly_ext_memory.index.arguments import as_metric
from grilly_ext_memory.index.base import Index
from grilly_ext_memory.index.codecs import Codec, Half, Raw, Scalar4, Scalar8
from grilly_ext_memory.index.product import Product

__all__ = ["IndexFlat", "IndexPQ", "IndexScalarQuantizer", "scalar_codec"]

_SCALAR: Final = {"sq8": Scalar8, "sq4": Scalar4, "f16": Half}


class IndexFlat(Index):
    """All vectors in float32; the results are exact and do not depend on how many queries come at once.

    Parameters
    ----------
    d : int
        Width of the vectors.
    metric : {"sqeuclidean", "l2", "ip", "cosine", "l1"}
        FAISS's L2 is ``"sqeuclidean"``. Cosine is ``1 - cos``, 1 for a vector of zeros.
    device : Device or str, optional
        Where searches run.

    Examples
    --------
    >>> from grilly_ext_memory.index.flat import IndexFlat
    >>> index = IndexFlat(2)
    >>> _ = index.add([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    >>> distances, ids = index.search([0.0, 0.0], k=2)
    >>> distances.tolist(), ids.tolist()
    ([[0.0, 1.0]], [[0, 1]])
    """

    __slots__ = ()

    def __init__(self, d: int, metric: str = "sqeuclidean", *, device: Any = None) -> None:
        super().__init__(d, as_metric(metric), Raw(), device=device)


class IndexScalarQuantizer(Index):
    """Each number in a byte, half a byte or float16. Distances are those to the decoded vectors.

    Parameters
    ----------
    d : int
    qtype : {"sq8", "sq4", "f16"}
        The first two learn the range of each column in `train`.
    metric : str
        See `IndexFlat`.
    device : Device or str, optional

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_memory.index.flat import IndexScalarQuantizer
    >>> x = np.random.default_rng(0).random((100, 8), np.float32)
    >>> index = IndexScalarQuantizer(8, "sq8").train(x)
    >>> _ = index.add(x)
    >>> bool(np.abs(index.reconstruct(range(100)) - x).max() < 0.5 / 255 + 1e-6)
    True
    """

    __slots__ = ()

    def __init__(
        self, d: int, qtype: str = "sq8", metric: str = "sqeuclidean", *, device: Any = None
    ) -> None:
        super().__init__(d, as_metric(metric), scalar_codec(qtype), device=device)

    def settings(self) -> dict[str, Any]:
        """Return the arguments that make such an index again, as JSON."""
        return {**super().settings(), "qtype": self.codec.kind}


class IndexPQ(Index):
    """Vectors as `m` numbers of codewords, a byte each; distances are sums over tables (Jégou et al. 2011).

    Parameters
    ----------
    d : int
    m : int
        Parts, which divide d.
    nbits : int
        ``2 ** nbits`` codewords a part, at most 8.
    metric : str
        See `IndexFlat`. With ``"cosine"`` vectors are kept at length 1.
    seed : int
        Of the clustering of codewords.
    device : Device or str, optional

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_ext_memory.index.flat import IndexPQ
    >>> x = np.random.default_rng(0).random((300, 8), np.float32)
    >>> index = IndexPQ(8, m=4).train(x)
    >>> _ = index.add(x)
    >>> index.search(x[:1], k=1).ids.tolist()
    [[0]]
    """

    __slots__ = ()

    def __init__(
        self, d: int, m: int, nbits: int = 8, metric: str = "sqeuclidean", *, seed: int = 0, device: Any = None
    ) -> None:  # fmt: skip
        super().__init__(d, as_metric(metric), Product(d, m, nbits), seed=seed, device=device)

    def settings(self) -> dict[str, Any]:
        """Return the arguments that make such an index again, as JSON."""
        return {**super().settings(), **self.codec.state()[0], "seed": self.seed}


def scalar_codec(qtype: str, *, residual: bool = False) -> Codec:
    """Return the codec of a name, of rows or of what they differ from their list's centroid by."""
    if qtype not in _SCALAR:
        raise ValueError(f"qtype: expected one of {', '.join(_SCALAR)}; received {qtype!r}.")
    made: Codec = _SCALAR[qtype]()
    made.residual = residual
    return made
