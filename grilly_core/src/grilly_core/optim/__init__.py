"""Optimisers and learning-rate schedules."""

from __future__ import annotations

from grilly_core.optim import lr_scheduler
from grilly_core.optim.adam import Adam, AdamW
from grilly_core.optim.optimizer import Optimizer, OptimizerStateError
from grilly_core.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "OptimizerStateError", "lr_scheduler"]
