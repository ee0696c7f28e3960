"""Learning-rate schedules, with PyTorch's names and, step by step, its numbers.

A schedule takes effect when it is made (epoch 0) and moves on with every `step`, which belongs after the optimiser's.
It writes to ``group["lr"]``, where optimisers read it; a captured step sees the change.
"""

from __future__ import annotations

from grilly_core.optim.composed_schedules import ChainedScheduler, SequentialLR
from grilly_core.optim.cosine_schedules import CosineAnnealingLR, CosineAnnealingWarmRestarts, WarmupCosine
from grilly_core.optim.cyclic import CyclicLR
from grilly_core.optim.factor_schedules import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from grilly_core.optim.one_cycle import OneCycleLR
from grilly_core.optim.plateau import ReduceLROnPlateau
from grilly_core.optim.schedule_base import LRScheduler

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR", "WarmupCosine",
]  # fmt: skip
