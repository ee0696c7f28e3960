"""Settings that hold for a context: one immutable `State` in one context variable, read once per op.

Environment variables are read when they are used, never at import.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, cast

__all__ = [
    "FallbackPolicy",
    "Policy",
    "State",
    "autocast",
    "cache_dir",
    "current",
    "deterministic",
    "enable_grad",
    "fallback",
    "fallback_policy",
    "is_autocast_enabled",
    "is_grad_enabled",
    "matmul_precision",
    "no_grad",
    "overriding",
    "set_grad_enabled",
]

FallbackPolicy = Literal["warn", "allow", "error"]
_FALLBACKS: Final = ("warn", "allow", "error")
_HALVES: Final = {"bfloat16": "bf16", "float16": "f16", "bf16": "bf16", "f16": "f16", "half": "f16"}
_PRECISIONS: Final = ("highest", "high", "medium")


@dataclass(frozen=True, eq=False, slots=True)
class Policy:
    """The settings that a plan may depend on; interned by identity, so that it can be part of a plan's key."""

    deterministic: bool = True
    matmul_precision: str = "highest"
    autocast: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """Everything the hot path asks of its context."""

    grad: bool = True
    policy: Policy = Policy()
    sink: Any = None
    fallback: FallbackPolicy | None = None
    profiler: Any = None


_policies: dict[tuple[bool, str, str], Policy] = {(True, "highest", ""): State().policy}
_INITIAL: Final = State(policy=_policies[(True, "highest", "")])
_state: Final[ContextVar[State]] = ContextVar("grilly_state", default=_INITIAL)
current = _state.get


@contextmanager
def overriding(**changes: Any) -> Iterator[State]:
    """Replace fields of the state inside a ``with`` block."""
    token = _state.set(replace(_state.get(), **changes))
    try:
        yield _state.get()
    finally:
        _state.reset(token)


class set_grad_enabled:
    """Turn the recording of gradients on or off, as a context manager or a decorator.

    Parameters
    ----------
    mode : bool
        Whether operations record a graph.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> with grilly.no_grad():
    ...     grilly.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        self._mode = mode
        self._tokens: list[Any] = []

    def __enter__(self) -> None:
        self._tokens.append(_state.set(replace(_state.get(), grad=self._mode)))

    def __exit__(self, *exc: object) -> None:
        _state.reset(self._tokens.pop())

    def __call__(self, function: Any) -> Any:
        """Wrap `function` so that it runs in this mode."""
        import functools

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with set_grad_enabled(self._mode):
                return function(*args, **kwargs)

        return wrapper


def no_grad(function: Any = None) -> Any:
    """Stop recording gradients: ``with no_grad():``, ``@no_grad`` or ``@no_grad()``."""
    return set_grad_enabled(False) if function is None else set_grad_enabled(False)(function)


def enable_grad(function: Any = None) -> Any:
    """Record gradients again inside `no_grad`; same forms."""
    return set_grad_enabled(True) if function is None else set_grad_enabled(True)(function)


def is_grad_enabled() -> bool:
    """Whether operations record gradients here."""
    return _state.get().grad


@contextmanager
def _with_policy(**changes: Any) -> Iterator[None]:
    base = _state.get().policy
    key = (
        changes.get("deterministic", base.deterministic),
        changes.get("matmul_precision", base.matmul_precision),
        changes.get("autocast", base.autocast),
    )
    policy = _policies.setdefault(key, Policy(*key))
    with overriding(policy=policy):
        yield


@contextmanager
def deterministic(mode: bool = True) -> Iterator[None]:
    """Promise (default) or give up bit-equal results from run to run, inside a ``with`` block.

    Parameters
    ----------
    mode : bool
        False allows kernels that trade reproducible bits for speed, such as floating-point atomics.
    """
    with _with_policy(deterministic=bool(mode)):
        yield


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Choose how exact f32 matrix products are, inside a ``with`` block.

    Other than the default only makes large products faster, on devices that multiply bfloat16 matrices in hardware; all
    sums are in float32, and elsewhere every product is as with ``"highest"``. Small products, and those with an
    activation fused to them, may always be exact. The products inside of attention count as such, but are never made
    with less than ``"high"``, and their gradients are exact for heads wider than 64.

    Parameters
    ----------
    precision : {"highest", "high", "medium"}
        ``"highest"`` (default) multiplies in float32. ``"high"`` splits every factor into two bfloat16 numbers and adds
        three products of these, with a relative error of about 2e-5 at most: much better than TF32. ``"medium"`` rounds
        factors to bfloat16, with a relative error of about 4e-3 for each.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> with grilly.matmul_precision("high"):
    ...     (grilly.ones((2, 2)) @ grilly.ones((2, 2))).tolist()
    [[2.0, 2.0], [2.0, 2.0]]
    """
    if precision not in _PRECISIONS:
        raise ValueError(f"precision: expected one of {_PRECISIONS}; received {precision!r}.")
    with _with_policy(matmul_precision=precision):
        yield


@contextmanager
def autocast(dtype: Any = "bfloat16", *, enabled: bool = True) -> Iterator[None]:
    """Run matrix products and the like in a half type, and what needs the range in float32; also a decorator.

    Each op has a class: ``lower`` (products, convolutions, attention) takes its float32 inputs in `dtype`, ``f32``
    (exponentials, softmax, norms, losses, sums) takes half inputs in float32, all others promote as usual. The casts
    are recorded, so gradients arrive in the parameters' own type. Float64 is left alone. Put the forward pass and the
    loss inside, `backward` outside; with float16 use `grilly.amp.GradScaler` too.

    Parameters
    ----------
    dtype : str or DType
        ``bfloat16`` (default) or ``float16``.
    enabled : bool
        False turns it off inside an outer one.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> a = grilly.ones(2, 2)
    >>> with grilly.autocast("float16"):
    ...     (a @ a).dtype.name, grilly.functional.softmax(a @ a, -1).dtype.name
    ('float16', 'float32')
    """
    name = _HALVES.get(getattr(dtype, "name", str(dtype).removeprefix("torch.")))
    if name is None:
        raise ValueError(f"dtype: expected 'bfloat16' or 'float16'; received {dtype!r}.")
    with _with_policy(autocast=name if enabled else ""):
        yield


def is_autocast_enabled() -> bool:
    """Whether `autocast` is in force here."""
    return bool(_state.get().policy.autocast)


def _checked_policy(policy: str, source: str) -> FallbackPolicy:
    if policy not in _FALLBACKS:
        raise ValueError(f"{source}: expected one of {_FALLBACKS}; received {policy!r}.")
    return cast(FallbackPolicy, policy)


@contextmanager
def fallback(policy: FallbackPolicy) -> Iterator[None]:
    """Set what happens when a device lacks an op, inside a ``with`` block.

    Parameters
    ----------
    policy : {"warn", "allow", "error"}
        Run it on the CPU with one warning per op and reason, silently (still counted), or raise.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> with grilly.fallback("error"):
    ...     total = grilly.asarray([1.0, 2.0]).sum()
    """
    with overriding(fallback=_checked_policy(policy, "policy")):
        yield


def fallback_policy() -> FallbackPolicy:
    """Return the policy in force: the innermost `fallback`, else ``GRILLY_FALLBACK``, else ``"warn"``."""
    chosen = _state.get().fallback
    if chosen is not None:
        return chosen
    return _checked_policy(os.environ.get("GRILLY_FALLBACK", "warn"), "GRILLY_FALLBACK")


def cache_dir() -> Path | None:
    """Return the folder for caches, created for this user only, or None if none can be written.

    ``GRILLY_CACHE_DIR`` names it; by default it lies in the user's cache folder.
    """
    base = os.environ.get("GRILLY_CACHE_DIR")
    try:
        folder = (
            Path(base)
            if base
            else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "grilly"
        )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK) else None
