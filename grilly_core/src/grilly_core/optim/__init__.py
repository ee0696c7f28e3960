"""Optimisers and learning-rate schedules."""

from __future__ import annotations

from grilly_core.optim import lr_scheduler, swa_utils
from grilly_core.optim.adagrad import Adadelta, Adagrad
from grilly_core.optim.adam import Adam, AdamW
from grilly_core.optim.adam_variants import Adamax, NAdam, RAdam
from grilly_core.optim.asgd import ASGD
from grilly_core.optim.auto_hypergradient import AutoHypergradientAdamW
from grilly_core.optim.hypergradient import HypergradientAdamW
from grilly_core.optim.lbfgs import LBFGS
from grilly_core.optim.natural_gradient import NaturalGradient
from grilly_core.optim.nlms import NLMS
from grilly_core.optim.optimizer import Optimizer, OptimizerStateError
from grilly_core.optim.rmsprop import RMSprop, Rprop
from grilly_core.optim.sgd import SGD

__all__ = [
    "ASGD", "LBFGS", "NLMS", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "AutoHypergradientAdamW",
    "HypergradientAdamW", "NAdam", "NaturalGradient", "Optimizer", "OptimizerStateError", "RAdam", "RMSprop", "Rprop",
    "lr_scheduler", "swa_utils",
]  # fmt: skip
