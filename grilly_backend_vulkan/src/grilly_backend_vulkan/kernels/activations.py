"""Activations and their gradients, each in one pass."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from grilly_backend_vulkan.kernels import mapping
from grilly_backend_vulkan.kernels.support import HALVES

__all__ = ["register"]

#: Op → the shader's number and the attributes it takes.
OPS: Final[dict[str, tuple[int, tuple[str, ...]]]] = {
    "relu": (0, ()), "relu_vjp": (1, ()), "sigmoid": (2, ()), "sigmoid_vjp": (3, ()), "tanh_vjp": (4, ()),
    "silu": (9, ()), "silu_vjp": (10, ()), "softplus": (11, ("beta", "threshold")),
    "softplus_vjp": (12, ("beta", "threshold")), "leaky_relu": (13, ("negative_slope",)), "elu": (14, ("alpha",)),
}  # fmt: skip
#: Op → numbers of its exact form and of its approximation.
GELU: Final = {"gelu": {"none": 5, "tanh": 7}, "gelu_vjp": {"none": 6, "tanh": 8}}
_CODES: Final = HALVES | {"f32"}


def _apply(number: int, names: tuple[str, ...]) -> Callable[..., None]:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        scalars = struct.pack(f"<{len(names)}f", *(attrs[name] for name in names))
        shader = f"activation_{outs[0].dtype.code}"
        mapping.run(stream, shader, (number,), (outs[0], *ins), scalars=scalars, fours=True)

    return kernel


def _gelu(numbers: dict[str, int]) -> Callable[..., None]:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        shader = f"activation_{outs[0].dtype.code}"
        mapping.run(stream, shader, (numbers[attrs["approximate"]],), (outs[0], *ins), fours=True)

    return kernel


def _one_dtype(c: Any) -> bool:
    """Whether inputs and output are of one type: integers go through the body, which promotes them."""
    return len({s.dtype for s in (*c.ins, *c.outs)}) == 1 and all(s.shape == c.outs[0].shape for s in c.ins)


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    for name, (number, attributes) in OPS.items():
        kernels.add(f"nn.{name}", _apply(number, attributes), dtypes=_CODES, when=_one_dtype)
    for name, numbers in GELU.items():
        kernels.add(f"nn.{name}", _gelu(numbers), dtypes=_CODES, when=_one_dtype)
