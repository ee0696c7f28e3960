"""The ops that core ships; importing this package registers them all."""

from grilly_core.ops import (
    complex,
    creation,
    elementary,
    fft,
    index,
    linalg,
    loss,
    manipulate,
    math,
    nn,
    nn_activations,
    nn_attention,
    nn_conv,
    nn_embedding,
    nn_norm,
    nn_pool,
    optim,
    primitives,
    random,
    reduce,
    structure,
    views,
)

__all__ = [
    "complex", "creation", "elementary", "fft", "index", "linalg", "loss", "manipulate", "math", "nn", "nn_activations",
    "nn_attention", "nn_conv", "nn_embedding", "nn_norm", "nn_pool",
    "optim", "primitives", "random", "reduce", "structure", "views",
]  # fmt: skip
