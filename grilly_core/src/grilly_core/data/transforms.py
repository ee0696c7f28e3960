"""Transforms of single items, as callables on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grilly_core.data.sampler import Seed, as_generator
from grilly_core.ops.random import normal, uniform

__all__ = ["Compose", "Flatten", "Lambda", "Normalize", "OneHot", "RandomFlip", "RandomNoise", "ToFloat32"]


class Compose:
    """Apply transforms one after the other.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.data.Compose([grilly.data.ToFloat32(0.5), grilly.data.Flatten()])([[2, 4]]).tolist()
    [1.0, 2.0]
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, item: Any) -> Any:
        """Transform one item."""
        for transform in self.transforms:
            item = transform(item)
        return item


class ToFloat32:
    """Cast to float32 and multiply by `scale`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.data.ToFloat32(scale=0.5)([4]).tolist()
    [2.0]
    """

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = np.float32(scale)

    def __call__(self, item: Any) -> Any:
        """Transform one item."""
        return np.asarray(item, np.float32) * self.scale


class Normalize:
    """Return ``(item - mean) / std``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.data.Normalize(1.0, 2.0)([3.0]).tolist()
    [1.0]
    """

    def __init__(self, mean: Any, std: Any) -> None:
        self.mean = np.asarray(mean, np.float32)
        self.std = np.asarray(std, np.float32)
        if (self.std == 0).any():
            raise ValueError("Normalize: std must not be 0.")

    def __call__(self, item: Any) -> Any:
        """Transform one item."""
        return (np.asarray(item, np.float32) - self.mean) / self.std


class Flatten:
    """Return all elements in one axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.data.Flatten()([[1, 2], [3, 4]]).tolist()
    [1, 2, 3, 4]
    """

    def __call__(self, item: Any) -> Any:
        """Transform one item."""
        return np.asarray(item).reshape(-1)


class RandomNoise:
    """Add normal noise of the given standard deviation.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.data.RandomNoise(std=0.0)([1.0]).tolist()
    [1.0]
    """

    def __init__(self, std: float = 0.1, rng: Seed = None) -> None:
        self.std = std
        self.rng = as_generator(rng)

    def __call__(self, item: Any) -> Any:
        """Transform one item."""
        array = np.asarray(item, np.float32)
        return array + normal(0.0, self.std, array.shape, device="cpu", rng=self.rng).numpy()


class RandomFlip:
    """Mirror the last axis with probability `p`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.data.RandomFlip(p=1.0)([1, 2]).tolist()
    [2, 1]
    """

    def __init__(self, p: float = 0.5, rng: Seed = None) -> None:
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"RandomFlip: p must lie in [0, 1]; received {p}.")
        self.p = p
        self.rng = as_generator(rng)

    def __call__(self, item: Any) -> Any:
        """Transform one item."""
        flip = uniform(0.0, 1.0, (), device="cpu", rng=self.rng).item() < self.p
        return np.flip(np.asarray(item), -1) if flip else item


class OneHot:
    """Return a float32 vector of length n with a 1 at the index.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.data.OneHot(3)(1).tolist()
    [0.0, 1.0, 0.0]
    """

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, index: Any) -> Any:
        """Transform one item."""
        if not 0 <= int(index) < self.n:
            raise IndexError(f"OneHot: index {index} is out of range for {self.n} classes.")
        vector = np.zeros(self.n, np.float32)
        vector[int(index)] = 1.0
        return vector


class Lambda:
    """Apply any function.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.data.Lambda(abs)(-1)
    1
    """

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self.fn = fn

    def __call__(self, item: Any) -> Any:
        """Transform one item."""
        return self.fn(item)
