"""Activation layers with settings: numbers, an axis, or slopes that are learnt."""

from __future__ import annotations

from typing import Any

from grilly_core.device import Device
from grilly_core.functional import activations as f
from grilly_core.nn.linear import positive
from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter
from grilly_core.ops.creation import full, tensor
from grilly_core.tensor import Tensor

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "GeGLU", "Hardshrink", "Hardtanh", "LeakyReLU", "LogSoftmax", "PReLU", "ReGLU",
    "RoSwish", "Softmax", "Softmin", "Softplus", "Softshrink", "SwiGLU", "Threshold",
]  # fmt: skip


class GELU(Module):
    """Return ``x * Phi(x)`` with the normal distribution function, or its ``"tanh"`` approximation.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.GELU()(grilly.tensor(0.0)).item()
    0.0
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """The settings."""
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """Return x where it is positive, else ``negative_slope * x``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.LeakyReLU(0.5)(grilly.tensor(-1.0)).item()
    -0.5
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """The settings."""
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """Return x where it is positive, else ``alpha * (exp(x) - 1)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ELU()(grilly.tensor(2.0)).item()
    2.0
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """The settings."""
        return f"alpha={self.alpha}"


class CELU(Module):
    """Return x where it is positive, else ``alpha * (exp(x / alpha) - 1)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.CELU()(grilly.tensor(2.0)).item()
    2.0
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """The settings."""
        return f"alpha={self.alpha}"


class Hardtanh(Module):
    """Return x clipped to ``[min_val, max_val]``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Hardtanh()(grilly.tensor(3.0)).item()
    1.0
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """The settings."""
        return f"min_val={self.min_val}, max_val={self.max_val}"


class Threshold(Module):
    """Return x where it exceeds `threshold`, else `value`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Threshold(1.0, -7.0)(grilly.tensor(0.5)).item()
    -7.0
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """The settings."""
        return f"threshold={self.threshold}, value={self.value}"


class Softplus(Module):
    """Return ``log(1 + exp(beta x)) / beta``, linear where ``beta x`` exceeds `threshold`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Softplus()(grilly.tensor(1000.0)).item()
    1000.0
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """The settings."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Softshrink(Module):
    """Return x moved towards 0 by `lambd`, stopping at 0.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Softshrink()(grilly.tensor(2.0)).item()
    1.5
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The settings."""
        return str(self.lambd)


class Hardshrink(Module):
    """Return x outside ``[-lambd, lambd]`` and 0 inside.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Hardshrink()(grilly.tensor(0.25)).item()
    0.0
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The settings."""
        return str(self.lambd)


class Softmax(Module):
    """Return ``exp(x) / sum(exp(x))`` along one axis; the last one if `dim` is None.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Softmax(dim=-1)(grilly.tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply it along the axis."""
        return f.softmax(input, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """Return ``log(softmax(x))`` without forming the softmax; the last one if `dim` is None.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.LogSoftmax(dim=-1)(grilly.tensor([0.0, -1000.0])).tolist()
    [0.0, -1000.0]
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply it along the axis."""
        return f.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class Softmin(Module):
    """Return ``softmax(-x)``; the last one if `dim` is None.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.Softmin(dim=-1)(grilly.tensor([1.0, 1.0])).tolist()
    [0.5, 0.5]
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply it along the axis."""
        return f.softmin(input, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class GLU(Module):
    """Return ``a * sigmoid(b)`` for the halves a and b of one axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.GLU(dim=-1)(grilly.tensor([2.0, 0.0])).tolist()
    [1.0]
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply it along the axis."""
        return f.glu(input, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class SwiGLU(Module):
    """Return ``a * silu(b)`` for the halves a and b of one axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.SwiGLU(dim=-1)(grilly.tensor([2.0, 0.0])).tolist()
    [0.0]
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply it along the axis."""
        return f.swiglu(input, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class PReLU(Module):
    """Return x where it is positive, else a learnt slope times x.

    Parameters
    ----------
    num_parameters : int
        1, or the number of channels (axis 1).
    init : float
        First slope.
    device : Device or str, optional
    dtype : DType, optional

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.PReLU()(grilly.tensor([-4.0])).tolist()
    [-1.0]
    """

    weight: Parameter

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: Device | str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        positive(num_parameters=num_parameters)
        self.num_parameters = num_parameters
        self.weight = Parameter(full((num_parameters,), float(init), device=device, dtype=dtype))

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of slopes."""
        return f"num_parameters={self.num_parameters}"


class GeGLU(Module):
    """Return ``a * gelu(b)`` for the halves a and b of one axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.GeGLU()(grilly.tensor([2.0, 0.0])).tolist()
    [0.0]
    """

    def __init__(self, dim: int = -1, approximate: str = "none") -> None:
        super().__init__()
        self.dim = dim
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Apply it along the axis."""
        return f.geglu(input, self.dim, self.approximate)

    def extra_repr(self) -> str:
        """The axis and the form of the gate."""
        return f"dim={self.dim}, approximate={self.approximate!r}"


class ReGLU(Module):
    """Return ``a * relu(b)`` for the halves a and b of one axis.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.ReGLU()(grilly.tensor([2.0, 3.0])).tolist()
    [6.0]
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Apply it along the axis."""
        return f.reglu(input, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class RoSwish(Module):
    """Return ``(x + alpha) * sigmoid(beta * x) - alpha / 2``.

    Parameters
    ----------
    alpha_init, beta_init : float
    learnable : bool
        Whether alpha and beta are parameters; else they are buffers.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.nn.RoSwish()(grilly.tensor(0.0)).item()
    0.0
    """

    alpha: Tensor
    beta: Tensor

    def __init__(self, alpha_init: float = 1.0, beta_init: float = 1.0, learnable: bool = True) -> None:
        super().__init__()
        self.learnable = learnable
        for name, value in (("alpha", alpha_init), ("beta", beta_init)):
            if learnable:
                self.register_parameter(name, Parameter(tensor(float(value))))
            else:
                self.register_buffer(name, tensor(float(value)))

    def forward(self, input: Tensor) -> Tensor:
        """Apply it to each element."""
        return f.roswish(input, self.alpha, self.beta)

    def extra_repr(self) -> str:
        """Whether it learns."""
        return f"learnable={self.learnable}"
