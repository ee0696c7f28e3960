"""Mixed precision: `autocast` chooses types, `GradScaler` keeps float16 gradients in range."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grilly_core import dtypes
from grilly_core.config import autocast, current, no_grad
from grilly_core.errors import GrillyError
from grilly_core.ops.creation import asarray
from grilly_core.ops.optim import unscale
from grilly_core.ops.primitives import maximum, where
from grilly_core.optim.optimizer import Optimizer
from grilly_core.tensor import Tensor

__all__ = ["GradScaler", "autocast"]


class GradScaler:
    """Scale the loss so that float16 gradients do not vanish, and skip the steps in which they overflow.

    The scale falls by `backoff_factor` at an overflow and grows by `growth_factor` after `growth_interval` steps
    without one (Micikevicius et al. 2018). The decision to skip is taken on the device, so a step with a scaler can be
    captured; pass the scaler in ``state``.

    Parameters
    ----------
    init_scale : float
    growth_factor : float
        Above 1.
    backoff_factor : float
        Between 0 and 1.
    growth_interval : int
    enabled : bool
        False makes every method pass through, so that one program serves both cases.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> model = grilly.nn.Linear(3, 1)
    >>> optimizer, scaler = grilly.optim.SGD(model.parameters(), lr=0.1), grilly.amp.GradScaler(1024.0)
    >>> with grilly.autocast("float16"):
    ...     loss = model(grilly.ones(2, 3)).mean()
    >>> scaler.scale(loss).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> scaler.get_scale(), scaler.skipped_steps()
    (1024.0, 0)
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        *,
        enabled: bool = True,
    ) -> None:
        if not init_scale > 0:
            raise ValueError(f"init_scale: must be positive; received {init_scale}.")
        if not growth_factor > 1:
            raise ValueError(f"growth_factor: must be above 1; received {growth_factor}.")
        if not 0 < backoff_factor < 1:
            raise ValueError(f"backoff_factor: must lie between 0 and 1; received {backoff_factor}.")
        if not growth_interval >= 1:
            raise ValueError(f"growth_interval: must be at least 1; received {growth_interval}.")
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self._enabled = enabled
        self._start = {"scale": float(init_scale), "clean": 0.0, "skipped": 0.0}
        self._cells: dict[str, Tensor] = {}
        self._overflows: dict[int, Tensor] = {}  # by optimiser; between unscale_ and update

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def scale(self, loss: Any) -> Any:
        """Return the loss (or each of a list) times the scale."""
        if not self._enabled:
            return loss
        if isinstance(loss, list | tuple):
            return type(loss)([self.scale(x) for x in loss])
        return loss * self._cell("scale", loss)  # in float32: a half type would overflow

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of the optimiser's parameters by the scale, for example before clipping them.

        Raises
        ------
        GrillyError
            If they were unscaled since the last `update`.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._overflows:
            raise GrillyError(
                "unscale_: the gradients of this optimiser were unscaled since the last update()."
            )
        params = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not params:
            raise GrillyError(
                "unscale_: no parameter of this optimiser has a gradient; call backward() first."
            )
        with no_grad():
            *grads, overflow = unscale([p.grad for p in params], self._cell("scale", params[0]))
        for p, g in zip(params, grads, strict=True):
            p.grad = g
        self._overflows[id(optimizer)] = overflow

    def step(self, optimizer: Optimizer) -> None:
        """Let the optimiser step unless a gradient overflowed; unscales first if that was not done."""
        if not self._enabled:
            optimizer.step()
            return
        if id(optimizer) not in self._overflows:
            self.unscale_(optimizer)
        overflow = self._overflows[id(optimizer)]
        if optimizer._takes_skip() or current().sink is not None:
            optimizer.step_unless(overflow)
        elif overflow.item() == 0:
            optimizer.step()

    def update(self, new_scale: float | None = None) -> None:
        """Adapt the scale to what happened since the last update, or set it."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._set("scale", float(new_scale))
            self._overflows.clear()
            return
        if not self._overflows:
            raise GrillyError("update: no step was taken since the last update().")
        with no_grad():
            overflow = None
            for found in self._overflows.values():
                overflow = found if overflow is None else maximum(overflow, found)
            self._adapt(overflow)
        self._overflows.clear()

    def _adapt(self, overflow: Any) -> None:
        scale, clean, skipped = (self._cells[name] for name in ("scale", "clean", "skipped"))
        bad = overflow != 0.0
        due = clean + 1.0 >= float(self.growth_interval)
        grown = where(due, scale * self.growth_factor, scale)
        scale._value = where(bad, scale * self.backoff_factor, grown)._value
        clean._value = where(bad | due, 0.0, clean + 1.0)._value
        skipped._value = (skipped + overflow)._value

    def _cell(self, name: str, like: Tensor) -> Tensor:
        """Return a number of the state, on the device of the first tensor it met."""
        if not self._cells:
            with no_grad():
                self._cells = {
                    k: asarray(v, dtype=dtypes.float32, device=like.device) for k, v in self._start.items()
                }
        return self._cells[name]

    def _set(self, name: str, value: float) -> None:
        self._start[name] = value
        if self._cells:
            with no_grad():
                self._cells[name].fill_(value)

    def _get(self, name: str) -> float:
        return float(self._cells[name].item()) if self._cells else self._start[name]

    def get_scale(self) -> float:
        """Return the present scale, 1.0 if not enabled."""
        return self._get("scale") if self._enabled else 1.0

    def skipped_steps(self) -> int:
        """Return how many updates saw an overflow."""
        return int(self._get("skipped"))

    def state_dict(self) -> dict[str, Any]:
        """Return scale, settings and counters; empty if not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._get("scale"), "growth_factor": self.growth_factor, "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval, "_growth_tracker": int(self._get("clean")),
            "skipped": self.skipped_steps(),
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned, PyTorch's scaler's too.

        Raises
        ------
        ValueError
            If it comes from a scaler that was not enabled, and this one is.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise ValueError(
                "state_dict: it is empty, as of a scaler that is not enabled; nothing was loaded."
            )
        for name in ("growth_factor", "backoff_factor", "growth_interval"):
            setattr(self, name, state_dict[name])
        self._set("scale", float(state_dict["scale"]))
        self._set("clean", float(state_dict["_growth_tracker"]))
        self._set("skipped", float(state_dict.get("skipped", 0)))

    def captured_state(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors that a captured step reads and writes."""
        for name, cell in self._cells.items():
            yield f"scaler.{name}", cell
