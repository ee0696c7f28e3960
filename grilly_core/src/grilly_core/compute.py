"""`Compute`: the ops as plain functions from NumPy arrays to NumPy arrays, on one device.

The door for people who want kernels and no tensors. Its namespaces are one table from names to ops.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from grilly_core import dtypes, registry
from grilly_core.config import no_grad
from grilly_core.device import Context, Device, open_context
from grilly_core.errors import DeviceError
from grilly_core.tensor import Tensor

__all__ = ["Compute"]

#: namespace → public name → op.
_TABLE: Final[dict[str, dict[str, str]]] = {
    "fnn": {
        "gemm": "matmul_any", "linear": "nn.linear", "activation_relu": "nn.relu", "activation_gelu": "nn.gelu",
        "activation_silu": "nn.silu", "activation_tanh": "tanh", "activation_softmax": "nn.softmax",
        "softmax_backward": "nn.softmax_vjp", "layernorm": "nn.layer_norm", "rms_norm": "nn.rms_norm",
        "cross_entropy_loss": "nn.cross_entropy", "residual": "add", "log_softmax": "nn.log_softmax",
        "sigmoid": "nn.sigmoid", "embedding": "nn.embedding",
    },
    "conv": {
        "conv": "nn.conv", "conv_backward_input": "nn.conv_input_grad", "conv_backward_weight": "nn.conv_weight_grad",
    },
    "pooling": {"max_pool": "nn.max_pool", "avg_pool": "nn.avg_pool"},
    "normalization": {"layer_norm": "nn.layer_norm", "rms_norm": "nn.rms_norm", "batch_norm": "nn.batch_norm_eval"},
    "learning": {
        "fisher_info_update": "learning.fisher_info", "ewc_penalty": "learning.ewc_penalty",
        "ewc_gradient": "learning.ewc_gradient", "natural_gradient": "learning.natural_gradient",
        "nlms_update": "learning.nlms_update", "whitening_transform": "learning.whitening_transform",
    },
    "contrastive": {
        "contrastive_loss": "learning.infonce", "contrastive_gradient": "learning.infonce_gradient",
    },
    "tensor_ops": {
        "transpose": "permute_dims", "cat": "concat", "where": "where", "index_select": "take", "bmm": "matmul_any",
        "sort": "sort", "topk": "topk", "cumsum": "cumsum", "sum": "sum", "max": "max", "mean": "mean",
    },
}  # fmt: skip


class Namespace:
    """One group of functions of a `Compute`."""

    def __init__(self, owner: Compute, name: str, table: dict[str, str]) -> None:
        self._owner = owner
        self._name = name
        self._table = table

    def __getattr__(self, name: str) -> Callable[..., Any]:
        op = self._table.get(name)
        if op is None:
            close = difflib.get_close_matches(name, self._table, n=3)
            raise AttributeError(
                f"Compute().{self._name} has no {name!r}; "
                + (f"did you mean {', '.join(close)}?" if close else f"it has {', '.join(self._table)}.")
            )
        return lambda *arrays, **attrs: self._owner.run(op, *arrays, **attrs)

    def __dir__(self) -> list[str]:
        return sorted(self._table)


class Compute:
    """Kernels by name: NumPy arrays in, NumPy arrays out.

    Parameters
    ----------
    device : Device or str, optional
        The default device if left out.

    Examples
    --------
    >>> import numpy as np
    >>> import grilly_core as grilly
    >>> with grilly.Compute("cpu") as compute:
    ...     compute.fnn.activation_relu(np.array([-1.0, 2.0], np.float32)).tolist()
    [0.0, 2.0]
    """

    def __init__(self, device: Device | str | None = None) -> None:
        self._context: Context | None = open_context(device)
        for name, table in _TABLE.items():
            setattr(self, name, Namespace(self, name, table))

    @property
    def device(self) -> Device:
        """Where the kernels run."""
        return self._open().device

    def _open(self) -> Context:
        if self._context is None:
            raise DeviceError("this Compute was closed by cleanup(); make a new one with grilly.Compute().")
        return self._context

    def run(self, op: str, *arrays: Any, **attrs: Any) -> Any:
        """Run any op by its registry name.

        Parameters
        ----------
        op : str
            Such as ``"nn.gelu"``; `grilly ops` lists them.
        *arrays : array, list of arrays, number or None
            float64 enters as float32; integers keep their dtype.
        **attrs
            The op's attributes.

        Returns
        -------
        ndarray or tuple of ndarray
            Writable, with memory of their own.
        """
        context = self._open()
        with no_grad(), context.device:
            result = registry.get(op)(*(_given(a, context) for a in arrays), **attrs)
        return _array(result)

    def cleanup(self) -> None:
        """Wait for the device and let go of it; safe to call again."""
        context, self._context = self._context, None
        if context is not None:
            context.synchronize()
            context.collect()

    def __enter__(self) -> Compute:
        self._open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.cleanup()


def _given(value: Any, context: Context) -> Any:
    if isinstance(value, list) and value and all(isinstance(v, np.ndarray) for v in value):
        return [_given(v, context) for v in value]
    if not isinstance(value, np.ndarray | list | tuple):
        return value
    array = np.asarray(value)
    dtype = dtypes.from_numpy(array.dtype)
    dtype = dtypes.float32 if dtype is dtypes.float64 else dtype
    return Tensor(context.upload(array, dtype))


def _array(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(_array(r) for r in result)
    return result.detach().numpy(copy=True)
