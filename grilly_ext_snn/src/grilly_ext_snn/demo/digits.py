"""The handwritten digits of the demos: 1797 images of 8x8 pixels with their labels.

They are the test part of "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak (UCI Machine Learning
Repository, CC BY 4.0), the same that scikit-learn's `load_digits` returns.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

__all__ = ["Digits", "load_digits"]

TEST_SHARE = 0.25


class Digits(NamedTuple):
    """Images ``(N, 64)`` from 0 to 1 and labels ``(N,)``."""

    images: np.ndarray
    labels: np.ndarray


def load_digits(seed: int) -> tuple[Digits, Digits]:
    """Return the sets for training and for the test, with equal shares of each class; the split depends on `seed`.

    Examples
    --------
    >>> from grilly_ext_snn.demo.digits import load_digits
    >>> [len(part.labels) for part in load_digits(0)]
    [1347, 450]
    """
    with np.load(Path(__file__).with_name("digits.npz")) as file:
        images = file["images"].reshape(-1, 64).astype(np.float32) / 16.0
        labels = file["labels"].astype(np.int32)
    order = np.random.default_rng(seed).permutation(len(labels))
    chosen = np.zeros(len(labels), bool)
    for digit in range(10):
        of_one = order[labels[order] == digit]
        chosen[of_one[: round(TEST_SHARE * len(of_one))]] = True
    train, test = order[~chosen[order]], order[chosen[order]]
    return Digits(images[train], labels[train]), Digits(images[test], labels[test])
