"""What FAISS's files are made of: names of kinds, numbers of metrics and quantisers, packed codes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "DUMMY",
    "METRICS",
    "OTHERS",
    "OTHER_METRICS",
    "OTHER_SCALARS",
    "SCALARS",
    "codes_of",
    "packed",
    "width_of",
]

#: What FAISS writes twice in each header, where it once meant something.
DUMMY: Final = 1 << 20

#: FAISS's number of a metric → ours.
METRICS: Final = {0: "ip", 1: "sqeuclidean", 2: "l1"}

OTHER_METRICS: Final = {
    3: "Linf", 4: "Lp", 20: "Canberra", 21: "BrayCurtis", 22: "JensenShannon", 23: "Jaccard", 24: "NaNEuclidean",
    25: "Gower",
}  # fmt: skip

#: FAISS's number of a scalar quantiser → our kind, and whether it has one range for all columns.
SCALARS: Final = {0: ("sq8", False), 1: ("sq4", False), 2: ("sq8", True), 3: ("sq4", True), 4: ("f16", False)}

OTHER_SCALARS: Final = {5: "QT_8bit_direct", 6: "QT_6bit", 7: "QT_bf16", 8: "QT_8bit_direct_signed"}

#: Kinds of index that are known by name and not read.
OTHERS: Final = {
    "IxPT": "IndexPreTransform (vectors are rotated, reduced or normalised first; index the transformed vectors)",
    "IxRF": "IndexRefine", "IHNf": "IndexHNSWFlat", "IHNp": "IndexHNSWPQ", "IHNs": "IndexHNSWSQ",
    "IHN2": "IndexHNSW2Level",
    "INSf": "IndexNSGFlat", "INSp": "IndexNSGPQ", "INSs": "IndexNSGSQ", "INNf": "IndexNNDescentFlat",
    "IxHe": "IndexLSH", "IxHE": "IndexLSH", "IPfs": "IndexPQFastScan", "IwPf": "IndexIVFPQFastScan",
    "IwPR": "IndexIVFPQR", "IwQR": "IndexIVFPQR", "IwFd": "IndexIVFFlatDedup", "IxRq": "IndexResidualQuantizer",
    "IxLS": "IndexLocalSearchQuantizer", "Imiq": "MultiIndexQuantizer", "Imfq": "MultiIndexQuantizer2",
    "Ix2L": "Index2Layer", "IwSh": "IndexIVFSpectralHash", "IvFl": "IndexIVFFlat of an old version",
    "IvFL": "IndexIVFFlat of an old version", "IvPQ": "IndexIVFPQ of an old version", "IvQR": "IndexIVFPQR",
    "IvSQ": "IndexIVFScalarQuantizer of an old version", "IBwF": "IndexBinaryIVF",
    "IBHf": "IndexBinaryHNSW", "IBFf": "IndexBinaryFromFloat", "IBHm": "IndexBinaryMultiHash",
    "IBHh": "IndexBinaryHash",
}  # fmt: skip


def width_of(m: int, nbits: int) -> int:
    """Return the bytes of a row of `m` codes."""
    return (m * nbits + 7) // 8


def codes_of(data: NDArray[np.uint8], m: int, nbits: int) -> NDArray[np.uint8]:
    """Return codes ``(N, m)``, a byte each, from rows of bits, low bits first."""
    if nbits == 8:
        return data
    bits = np.unpackbits(data, axis=1, count=m * nbits, bitorder="little").reshape(len(data), m, nbits)
    made: NDArray[np.uint8] = np.packbits(bits, axis=2, bitorder="little")[:, :, 0]
    return made


def packed(codes: NDArray[Any], nbits: int) -> NDArray[np.uint8]:
    """Return rows of bits from codes ``(N, m)``: the inverse of `codes_of`."""
    if nbits == 8:
        return codes
    bits = np.unpackbits(codes[:, :, None], axis=2, count=nbits, bitorder="little")
    return np.packbits(bits.reshape(len(codes), -1), axis=1, bitorder="little")
