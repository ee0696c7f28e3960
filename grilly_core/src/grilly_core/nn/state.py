"""State dicts: collecting, checking before loading, and moving cells between devices and dtypes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grilly_core.apply import as_tensor
from grilly_core.config import no_grad
from grilly_core.device import Device
from grilly_core.dtypes import DType, as_dtype
from grilly_core.errors import DTypeError, StateDictError
from grilly_core.tensor import Tensor

if TYPE_CHECKING:
    from grilly_core.nn.module import Module

__all__ = ["IncompatibleKeys", "destination", "entries", "load", "move"]


class IncompatibleKeys(NamedTuple):
    """Names that a state dict lacked, and names that nothing took."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def entries(module: Module, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the cells of a state dict in PyTorch's order; a shared one comes under each of its names."""
    for name, parameter in module._of_kind("parameter"):
        yield prefix + name, parameter
    for name, buffer in module._of_kind("buffer"):
        if name not in module._transient:
            yield prefix + name, buffer
    for name, child in module._of_kind("module"):
        yield from entries(child, f"{prefix}{name}.")


def host_array(value: Any) -> Any:
    """Return a tensor of another library as an array (PyTorch's bfloat16 has none, so it goes through f32)."""
    if isinstance(value, Tensor | np.ndarray):
        return value
    detach = getattr(value, "detach", None)
    if detach is not None:
        value = detach().cpu()
        if "bfloat16" in str(value.dtype):
            value = value.float()
        return value.numpy()
    return np.asarray(value)


def load(module: Module, state_dict: Mapping[str, Any], strict: bool) -> IncompatibleKeys:
    """Check a state dict against a module, then copy it in; see `Module.load_state_dict`."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(
            f"load_state_dict: expected a mapping of names to tensors; received {type(state_dict).__name__}."
        )
    cells = dict(entries(module))
    missing = [name for name in cells if name not in state_dict]
    unexpected = [name for name in state_dict if name not in cells]
    values = {name: host_array(state_dict[name]) for name in cells if name in state_dict}
    problems = [
        f"{name}: the module has shape {tuple(cells[name].shape)}, the state dict {tuple(v.shape)}"
        for name, v in values.items()
        if tuple(v.shape) != tuple(cells[name].shape)
    ]
    if strict:
        problems += [f"{name}: missing" for name in missing] + [f"{name}: unexpected" for name in unexpected]
    if problems:
        raise StateDictError(
            f"{type(module).__name__}: the state dict does not fit, and nothing was loaded:\n  "
            + "\n  ".join(problems)
        )
    with no_grad():
        ready = {name: _converted(v, cells[name]) for name, v in values.items()}
        for name, value in ready.items():
            cells[name].copy_(value)
    return IncompatibleKeys(missing, unexpected)


def _converted(value: Any, cell: Tensor) -> Tensor:
    made = value if isinstance(value, Tensor) else as_tensor(value, cell, dtype=cell.dtype)
    return made.detach().to(cell.device, cell.dtype)


def destination(
    args: tuple[Any, ...], device: Device | str | None, dtype: Any
) -> tuple[Device | str | None, DType | None]:
    """Read the arguments of `Module.to`."""
    for a in args:
        if isinstance(a, Tensor):
            device, dtype = a.device, a.dtype
        elif isinstance(a, Device) or (isinstance(a, str) and not _is_dtype(a)):
            device = a
        elif a is not None:
            dtype = a
    kind = None if dtype is None else as_dtype(dtype)
    if kind is not None and not kind.is_differentiable:
        raise DTypeError(f"Module.to: dtype must be floating or complex; received {kind.name}.")
    return device, kind


def _is_dtype(name: str) -> bool:
    try:
        as_dtype(name)
    except (DTypeError, TypeError):
        return False
    return True


def move(cell: Tensor, device: Device | str | None, dtype: DType | None) -> None:
    """Move one cell, and its gradient, keeping the object."""
    dtype = dtype if cell.dtype.is_floating else None
    if dtype is None and device is None:
        return
    g = cell.grad
    if g is not None:
        cell.grad = None
    cell._value = _moved(cell, device, dtype)._value
    if g is not None:
        cell.grad = _moved(g, device, dtype)


def _moved(t: Tensor, device: Device | str | None, dtype: DType | None) -> Tensor:
    with no_grad():
        made = t.detach() if dtype is None else t.detach().to(dtype)
        return made if device is None else made.to(device)
