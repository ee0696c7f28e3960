"""What all optimisers share: parameter groups, state, and the 0-d tensors that hold learning rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from grilly_core import dtypes
from grilly_core.apply import as_tensor
from grilly_core.config import enable_grad, no_grad
from grilly_core.device import Context
from grilly_core.dtypes import DType
from grilly_core.errors import StateDictError
from grilly_core.ops.creation import asarray, zeros_like
from grilly_core.ops.primitives import where
from grilly_core.optim.choices import CHOICES, check_choices
from grilly_core.tensor import Tensor

__all__ = ["Optimizer", "OptimizerStateError"]

Group = dict[str, Any]

Place = tuple[Context, DType]


class OptimizerStateError(StateDictError, ValueError):
    """A state dict belongs to another list of parameters; nothing was loaded."""


class _Rate:
    """A learning rate on a device, and the number it was last set to."""

    __slots__ = ("cell", "mirror")

    def __init__(self, cell: Tensor, mirror: float) -> None:
        self.cell = cell
        self.mirror = mirror


def checked_rate(lr: Any, name: str = "lr") -> float:
    """Return a learning rate as a float.

    Raises
    ------
    ValueError
        If it is negative or not finite.
    """
    value = float(lr)
    if not (math.isfinite(value) and value >= 0.0):
        raise ValueError(f"{name}: expected a finite number that is not negative; received {lr!r}.")
    return value


class Optimizer:
    """Base class of optimisers.

    Parameters
    ----------
    params : iterable of Tensor, of (str, Tensor), or of dict
        Parameters, with names or without, or groups: dicts with ``"params"`` and settings that replace the defaults.
        Names stand in the group as ``"param_names"``. A learning rate may be a tensor of one element, which is read
        once.
    defaults : dict
        Settings of groups that do not give their own.

    Attributes
    ----------
    param_groups : list of dict
        The only place of the settings: what is written to ``group["lr"]`` holds from the next step on.
    state : dict
        What is remembered for each parameter, by parameter.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> class SignDescent(grilly.optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {"lr": lr})
    ...     def _update(self, group, params, grads, lr):
    ...         for p, g in zip(params, grads):
    ...             p.sub_(lr * g.sign())
    >>> p = grilly.nn.Parameter(grilly.tensor([1.0]))
    >>> (p * 5.0).sum().backward()
    >>> SignDescent([p], lr=0.5).step()
    >>> p.tolist()
    [0.5]
    """

    #: Names of the state's 0-d tensors, which are float32 at least.
    _scalars: ClassVar[frozenset[str]] = frozenset(["step", "mu_product", "eta", "mu"])
    #: Settings that a captured step reads from tensors, or not at all.
    _not_in_key: ClassVar[frozenset[str]] = frozenset(["params", "param_names", "lr", "initial_lr"])

    def __init__(self, params: Iterable[Any], defaults: Group) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params: expected an iterable of tensors or groups; received one tensor. Put it in a list."
            )
        self.defaults = defaults
        self.param_groups: list[Group] = []
        self.state: dict[Tensor, dict[str, Any]] = {}
        self._rates: dict[tuple[int, Context, DType], _Rate] = {}
        self._skip: Tensor | None = None
        self._loads = 0  # how often the state was replaced
        given = list(params)
        if not given:
            raise ValueError("params: the optimiser got an empty list of parameters.")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group: a dict with ``"params"`` and, where they differ from the defaults, settings."""
        params, names = _unnamed(param_group["params"])
        check_choices(**{k: v for k, v in param_group.items() if k in CHOICES})
        known = {id(p) for group in self.param_groups for p in group["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"params: expected tensors; received {type(p).__name__}.")
            if not p.is_leaf:
                raise ValueError(
                    "params: a result of operations cannot be optimised; pass the leaves it came from."
                )
            if id(p) in known:
                raise ValueError("params: a parameter appears twice; give each one once.")
            known.add(id(p))
        unknown = set(param_group) - set(self.defaults) - CHOICES - {"params", "initial_lr", "param_names"}
        if unknown:
            raise ValueError(
                f"params: a group has unknown settings {sorted(unknown)}; known: {sorted(self.defaults)}."
            )
        given = {k: v for k, v in param_group.items() if k not in CHOICES}
        group = {**self.defaults, **given, "params": params}
        if names is not None:
            group["param_names"] = names
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise ValueError("params: give names for the parameters of all groups, or of none.")
        if isinstance(group["lr"], Tensor):
            group["lr"] = float(group["lr"])
        self._check_group(group)
        self.param_groups.append(group)

    def _check_group(self, group: Group) -> None:
        """Raise if a setting is out of range; subclasses add theirs."""
        checked_rate(group["lr"])
        if not group.get("weight_decay", 0.0) >= 0.0:
            raise ValueError(f"weight_decay: must not be negative; received {group['weight_decay']}.")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or with ``set_to_none=False`` fill them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = None if set_to_none else zeros_like(p.grad)

    # -- a step --------------------------------------------------------------------------------------------

    def step(
        self, closure: Callable[[], Any] | None = None, gradients: Mapping[Tensor, Any] | None = None
    ) -> Any:
        """Move every parameter that has a gradient.

        Parameters
        ----------
        closure : callable, optional
            Called first, with gradients on; its result is returned.
        gradients : mapping of parameter to array_like, optional
            Used instead of the parameters' own gradients; parameters without an entry stay.
        """
        result = None
        if closure is not None:
            with enable_grad():
                result = closure()
        with no_grad():
            for index, group in enumerate(self.param_groups):
                for place, params, grads in self._batches(group, gradients):
                    self._update(group, params, grads, self._rate(index, group, place))
        return result

    def step_unless(self, skip: Tensor) -> None:
        """Do what `step` does, unless `skip` (0-d, float32) is not 0; the decision is taken on the device.

        Fused steps take `skip` themselves (`_takes_skip`). For others old and new values are chosen from afterwards,
        which is exact once every parameter has its state.
        """
        if self._takes_skip():
            self._skip = skip
            try:
                self.step()
            finally:
                self._skip = None
            return
        cells = [
            *self._parameters(),
            *(t for c in self.state.values() for t in c.values() if isinstance(t, Tensor)),
        ]
        before = [(cell, Tensor(cell._value)) for cell in {id(c): c for c in cells}.values()]
        self.step()
        with no_grad():
            stays = skip != 0.0
            for cell, old in before:
                if cell._value is not old._value:
                    cell._value = where(stays, old, Tensor(cell._value))._value

    def _takes_skip(self) -> bool:
        """Whether `_update` hands `self._skip` to its op."""
        return False

    def _update(self, group: Group, params: list[Tensor], grads: list[Tensor], lr: Tensor) -> None:
        """Move parameters of one device and dtype; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} does not define _update().")

    def _batches(
        self, group: Group, gradients: Mapping[Tensor, Any] | None
    ) -> Iterator[tuple[Place, list[Tensor], list[Tensor]]]:
        """Split the parameters that have a gradient by device and dtype (mostly that is one batch)."""
        batches: dict[Place, tuple[list[Tensor], list[Tensor]]] = {}
        for p in group["params"]:
            g = p.grad if gradients is None else gradients.get(p)
            if g is None:
                continue
            spec = p._value.spec
            params, grads = batches.setdefault((spec.context, spec.dtype), ([], []))
            params.append(p)
            grads.append(g if gradients is None else as_tensor(g, p))
        for place, (params, grads) in batches.items():
            yield place, params, grads

    def _rate(self, index: int, group: Group, place: Place) -> Tensor:
        """Return the 0-d tensor with a group's learning rate, brought up to date with ``group["lr"]``."""
        context, dtype = place
        wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
        key = (index, context, wide)
        found = self._rates.get(key)
        if found is None:
            lr = checked_rate(group["lr"])
            found = self._rates[key] = _Rate(asarray(lr, dtype=wide, device=context.device), lr)
        elif found.mirror != group["lr"]:
            self._refresh(found, group)
        return found.cell

    @staticmethod
    def _refresh(rate: _Rate, group: Group) -> None:
        lr = checked_rate(group["lr"])
        with no_grad():
            rate.cell.fill_(lr)
        rate.mirror = lr

    # -- capture -------------------------------------------------------------------------------------------

    def captured_state(self) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor that a step reads or writes besides parameters and gradients."""
        seen: set[int] = set()
        for i, (p, content) in enumerate(self.state.items()):
            for name, value in content.items():
                if isinstance(value, Tensor) and id(value) not in seen:
                    seen.add(id(value))
                    yield f"optimizer.{i}.{name}", value
            yield f"optimizer.{i}.param", p
        for (index, _, _), rate in self._rates.items():
            yield f"optimizer.group{index}.lr", rate.cell

    def capture_key(self) -> tuple[Any, ...]:
        """Return what is constant in a captured step: which state there is, and all settings but the rates."""
        settings = [
            tuple([(k, v) for k, v in group.items() if k not in self._not_in_key])
            for group in self.param_groups
        ]
        return (self._loads, *settings)

    def before_replay(self) -> None:
        """Bring the learning rates on the devices up to date with the groups."""
        for (index, _, _), rate in self._rates.items():
            if rate.mirror != self.param_groups[index]["lr"]:
                self._refresh(rate, self.param_groups[index])

    def after_replay(self) -> None:
        """Nothing: all counters live in tensors."""

    # -- state ---------------------------------------------------------------------------------------------

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def state_dict(self) -> dict[str, Any]:
        """Return the state by the parameters' places, and the groups; a snapshot, as of `Module.state_dict`."""
        places = {id(p): i for i, p in enumerate(self._parameters())}
        state = {
            places[id(p)]: {k: v.detach() if isinstance(v, Tensor) else v for k, v in content.items()}
            for p, content in self.state.items()
        }
        groups = [
            {**group, "params": [places[id(p)] for p in group["params"]]} for group in self.param_groups
        ]
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over a state; everything is checked first.

        Raises
        ------
        OptimizerStateError
            (a ``ValueError``) if the state belongs to another list of parameters, or is none of an optimiser.
        """
        params = self._parameters()
        check_parts(state_dict)
        self._check_state(state_dict, params)
        left_out = {"params", *(CHOICES - set(self.defaults))}
        groups = []
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            settings = {
                k: v if k == "param_names" else _frozen(v) for k, v in saved.items() if k not in left_out
            }
            self._check_group({**group, **settings})
            groups.append(settings)
        state = {
            params[int(i)]: {k: self._loaded(k, v, params[int(i)]) for k, v in content.items()}
            for i, content in state_dict["state"].items()
        }
        for group, settings in zip(self.param_groups, groups, strict=True):
            group.update(settings)
        self.state = state
        self._loads += 1
        self._after_load()

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the tensors of learning rates, which belong to open devices and are made anew by a step."""
        return {**self.__dict__, "_rates": {}}

    def _check_state(self, state_dict: Mapping[str, Any], params: list[Tensor]) -> None:
        saved = state_dict["param_groups"]
        here = [len(group["params"]) for group in self.param_groups]
        there = [len(group["params"]) for group in saved]
        if here != there:
            raise OptimizerStateError(
                f"the optimiser's groups have {here} parameters, the state dict's {there}; nothing was loaded."
            )
        for i, content in state_dict["state"].items():
            if not 0 <= int(i) < len(params):
                raise OptimizerStateError(f"the state dict has a parameter {i}, the optimiser {len(params)}.")
            shape = tuple(params[int(i)].shape)
            for name, value in content.items():
                if hasattr(value, "shape") and tuple(value.shape) not in (shape, ()):
                    raise OptimizerStateError(
                        f"parameter {i} has shape {shape}, its {name} in the state dict {tuple(value.shape)}; "
                        "nothing was loaded."
                    )

    def _loaded(self, name: str, value: Any, p: Tensor) -> Any:
        scalar = name in self._scalars
        if not scalar and not hasattr(value, "shape"):
            return value
        dtype = _step_dtype(p) if scalar else p.dtype
        made = value if isinstance(value, Tensor) else as_tensor(value, dtype=dtype)
        return Tensor(made.detach().to(p.device, dtype)._value)

    def _after_load(self) -> None:
        """Called when a state was loaded; subclasses rebuild what hangs on it."""

    def __repr__(self) -> str:
        lines = []
        for i, group in enumerate(self.param_groups):
            settings = ", ".join(f"{k}={v}" for k, v in group.items() if k != "params")
            lines.append(f"  group {i}: {len(group['params'])} parameters, {settings}")
        return f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)"


def _unnamed(params: Any) -> tuple[list[Tensor], list[str] | None]:
    """Split named parameters into parameters and names."""
    given = [params] if isinstance(params, Tensor) else list(params)
    named = [isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in given]
    if not any(named):
        return given, None
    if not all(named):
        raise ValueError("params: give names for all parameters of a group, or for none.")
    return [p for _, p in given], [name for name, _ in given]


def check_parts(state_dict: Any) -> None:
    """Raise unless `state_dict` has the two parts that the state of every optimiser has."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(
            f"load_state_dict: expected what state_dict() returned; received {type(state_dict).__name__}."
        )
    lacking = [part for part in ("state", "param_groups") if part not in state_dict]
    if lacking:
        raise OptimizerStateError(
            f"load_state_dict: expected the keys 'state' and 'param_groups' of an optimiser's state_dict(); "
            f"{' and '.join(map(repr, lacking))} missing among {sorted(map(str, state_dict))}; nothing was loaded."
        )


def _step_dtype(p: Tensor) -> DType:
    return dtypes.float64 if p.dtype is dtypes.float64 else dtypes.float32


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def assign(cells: Iterable[Tensor], values: Iterable[Tensor]) -> None:
    """Give cells the values an op returned; their shapes and dtypes are known to agree."""
    for cell, value in zip(cells, values, strict=True):
        cell._value = value._value


def zeros_for(params: Iterable[Tensor]) -> list[Tensor]:
    """Return a cell of zeros for each parameter."""
    return [zeros_like(p) for p in params]
