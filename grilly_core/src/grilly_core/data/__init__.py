"""Data sets, samplers and loaders."""

from __future__ import annotations

from grilly_core.data.dataset import (
    ArrayDataset,
    ConcatDataset,
    Dataset,
    Subset,
    TensorDataset,
    random_split,
)
from grilly_core.data.loader import DataLoader, default_collate
from grilly_core.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
)
from grilly_core.data.transforms import (
    Compose,
    Flatten,
    Lambda,
    Normalize,
    OneHot,
    RandomFlip,
    RandomNoise,
    ToFloat32,
)

__all__ = [
    "ArrayDataset", "BatchSampler", "Compose", "ConcatDataset", "DataLoader", "Dataset", "Flatten", "Lambda",
    "Normalize", "OneHot", "RandomFlip", "RandomNoise", "RandomSampler", "Sampler", "SequentialSampler", "Subset",
    "SubsetRandomSampler", "TensorDataset", "ToFloat32", "default_collate", "random_split",
]  # fmt: skip
