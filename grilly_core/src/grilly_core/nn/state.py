"""State dicts: collecting, checking before loading, and moving cells between devices and dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from grilly_core.apply import as_tensor
from grilly_core.config import no_grad
from grilly_core.device import Device
from grilly_core.dtypes import DType, as_dtype
from grilly_core.errors import DTypeError, StateDictError
from grilly_core.tensor import Tensor

if TYPE_CHECKING:
    from grilly_core.nn.module import Module

__all__ = ["IncompatibleKeys", "destination", "entries", "load", "move", "save"]


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


_EXTRA: Final = "_extra_state"


def extras(module: Module) -> dict[str, Module]:
    """Return the modules with a state of their own making, by its name in a state dict."""
    plain = _module().get_extra_state
    return {
        f"{path}.{_EXTRA}" if path else _EXTRA: m
        for path, m in module.named_modules()
        if type(m).get_extra_state is not plain
    }


def _module() -> type[Module]:
    from grilly_core.nn.module import Module

    return Module


def run_hooks(
    module: Module, kind: str, *, upwards: bool, call: Callable[[Any, Module, str], object]
) -> None:
    """Call ``call(hook, module, prefix)`` for the hooks of a kind, from a module down, or from below up to it."""
    found = [(path, m) for path, m in module.named_modules() if m._hooks is not None]
    for path, m in reversed(found) if upwards else found:
        for hook, _ in list(getattr(m._hooks, kind).values()):
            call(hook, m, f"{path}." if path else "")


def save(module: Module, prefix: str, keep_vars: bool) -> dict[str, Any]:
    """Collect a state dict; see `Module.state_dict`."""
    run_hooks(module, "save_pre", upwards=False, call=lambda hook, m, at: hook(m, prefix + at, keep_vars))
    found: dict[str, Any] = {
        prefix + name: cell if keep_vars else cell.detach() for name, cell in entries(module)
    }
    found |= {prefix + name: m.get_extra_state() for name, m in extras(module).items()}
    run_hooks(module, "save", upwards=True, call=lambda hook, m, at: hook(m, found, prefix + at, {}))
    return found


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
    state_dict = dict(state_dict)
    missing: list[str] = []
    unexpected: list[str] = []
    problems: list[str] = []
    run_hooks(
        module,
        "load_pre",
        upwards=False,
        call=lambda hook, m, at: hook(m, state_dict, at, {}, strict, missing, unexpected, problems),
    )
    cells, own = dict(entries(module)), extras(module)
    missing += [name for name in (*cells, *own) if name not in state_dict]
    unexpected += [name for name in state_dict if name not in cells and name not in own]
    values = {name: host_array(state_dict[name]) for name in cells if name in state_dict}
    for name, v in values.items():
        if isinstance(v, np.ndarray) and v.dtype.kind not in "biufcV":  # V: bfloat16
            problems.append(f"{name}: expected a tensor; received {type(state_dict[name]).__name__}")
        elif tuple(v.shape) != tuple(cells[name].shape):
            problems.append(
                f"{name}: the module has shape {tuple(cells[name].shape)}, the state dict {tuple(v.shape)}"
            )
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
    for name, owner in own.items():
        if name in state_dict:
            owner.set_extra_state(state_dict[name])
    keys = IncompatibleKeys(missing, unexpected)
    run_hooks(module, "load", upwards=True, call=lambda hook, m, at: hook(m, keys))
    return keys


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
