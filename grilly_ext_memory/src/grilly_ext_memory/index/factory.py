"""Indexes from a string, in FAISS's words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from grilly_ext_memory.index.base import Index
from grilly_ext_memory.index.binary import IndexBinaryFlat
from grilly_ext_memory.index.flat import IndexFlat, IndexPQ, IndexScalarQuantizer
from grilly_ext_memory.index.graph import IndexHNSW
from grilly_ext_memory.index.inverted import IndexIVFFlat, IndexIVFPQ, IndexIVFScalarQuantizer

__all__ = ["index_factory"]

_SCALAR: Final = {"SQ8": "sq8", "SQ4": "sq4", "SQfp16": "f16"}
_PQ: Final = r"PQ(\d+)(?:x(\d+))?"

_Maker = Callable[[int, str, Any, re.Match[str]], Index]


def _ivf_pq(d: int, metric: str, device: Any, found: re.Match[str]) -> Index:
    return IndexIVFPQ(d, int(found[1]), int(found[2]), int(found[3] or 8), metric, device=device)


def _ivf_scalar(d: int, metric: str, device: Any, found: re.Match[str]) -> Index:
    return IndexIVFScalarQuantizer(d, int(found[1]), _SCALAR[found[2]], metric, device=device)


def _scalar(d: int, metric: str, device: Any, found: re.Match[str]) -> Index:
    return IndexScalarQuantizer(d, _SCALAR[found[1]], metric, device=device)


def _pq(d: int, metric: str, device: Any, found: re.Match[str]) -> Index:
    return IndexPQ(d, int(found[1]), int(found[2] or 8), metric, device=device)


#: Pattern → what makes the index.
_MAKERS: Final[dict[str, _Maker]] = {
    r"Flat": lambda d, metric, device, found: IndexFlat(d, metric, device=device),
    r"(SQ8|SQ4|SQfp16)": _scalar,
    _PQ: _pq,
    r"HNSW(\d+)?(?:,Flat)?": lambda d, metric, device, found: IndexHNSW(d, int(found[1] or 32), metric, device=device),
    r"IVF(\d+),Flat": lambda d, metric, device, found: IndexIVFFlat(d, int(found[1]), metric, device=device),
    r"IVF(\d+),(SQ8|SQ4|SQfp16)": _ivf_scalar,
    rf"IVF(\d+),{_PQ}": _ivf_pq,
}  # fmt: skip


def index_factory(d: int, description: str, metric: str = "sqeuclidean", *, device: Any = None) -> Index:
    """Return an index by its description.

    Parameters
    ----------
    d : int
        Width of the vectors; bits for ``"BFlat"``.
    description : str
        ``"Flat"``, ``"SQ8"``, ``"SQ4"``, ``"SQfp16"``, ``"PQ16"`` or ``"PQ16x4"``, each also after ``"IVF100,"``;
        ``"HNSW32"``; ``"BFlat"``.
    metric : str
        See `IndexFlat`; plays no part for ``"BFlat"``, which counts differing bits.
    device : Device or str, optional

    Raises
    ------
    ValueError
        For another description, with those that are known.

    Examples
    --------
    >>> from grilly_ext_memory.index.factory import index_factory
    >>> index_factory(64, "IVF100,PQ16")
    IndexIVFPQ(d=64, metric='sqeuclidean', ntotal=0, not trained)
    """
    if description == "BFlat":
        if metric not in ("sqeuclidean", "hamming"):  # the default, and its own
            raise ValueError(
                f"index_factory: BFlat counts differing bits, 'hamming'; received metric {metric!r}."
            )
        return IndexBinaryFlat(d, device=device)
    for pattern, make in _MAKERS.items():
        if found := re.fullmatch(pattern, description):
            return make(d, metric, device, found)
    raise ValueError(
        f"index_factory: {description!r} is not known; expected Flat, SQ8, SQ4, SQfp16, PQ<m> or PQ<m>x<bits>, each "
        "also behind IVF<lists> and a comma; HNSW<m>; BFlat."
    )
