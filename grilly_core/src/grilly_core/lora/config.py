"""`LoRAConfig`: which layers of a model get adapters, and of what kind."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Self

from grilly_core.atomic import atomic_write
from grilly_core.errors import FileFormatError

__all__ = ["LoRAConfig"]

_BIASES: Final = ("none", "all", "lora_only")
_INITS: Final = ("kaiming", "gaussian", "random", "zeros")


@dataclass(frozen=True)
class LoRAConfig:
    """Settings of one adapter.

    Parameters
    ----------
    rank : int
        Rank of the updates.
    alpha : float
        Updates are scaled by ``alpha / rank``.
    dropout : float
        Share of the adapters' inputs that is dropped in training.
    target_modules : str or sequence of str
        Names of layers: each stands for itself and for whatever ends with ``.name``. A single string is a regular
        expression that must match the whole name, or ``"all-linear"``.
    bias : {"none", "all", "lora_only"}
        Which biases of the model are trained too. They are trained where they are, so that a model takes one adapter
        with biases, and disabling adapters does not bring the old ones back.
    init_lora_weights : {"kaiming", "gaussian", "random", "zeros"}
        First values: A from Kaiming's uniform distribution or from a Gaussian with deviation ``1 / rank``, and B zero,
        so that the model starts unchanged; both random; both zero, for values that are loaded later.
    modules_to_save : sequence of str, optional
        Names of modules that are trained whole, in a copy that belongs to the adapter.
    use_rslora : bool
        Scale by ``alpha / sqrt(rank)`` instead (rank-stabilised; Kalajdzievski 2023).
    use_dora : bool
        Learn the length of each weight vector apart from its direction (DoRA; Liu et al. 2024).
    rank_pattern, alpha_pattern : mapping of str to number, optional
        Other ranks and alphas for layers whose name ends with, or matches, the key.
    exclude_modules : str or sequence of str, optional
        Layers to leave out, named like `target_modules`.

    Examples
    --------
    >>> from grilly_core.lora import LoRAConfig
    >>> LoRAConfig(rank=4, alpha=8).scaling
    2.0
    """

    rank: int = 8
    alpha: float = 16
    dropout: float = 0.0
    target_modules: str | Sequence[str] = ("q_proj", "v_proj")
    bias: str = "none"
    init_lora_weights: str = "kaiming"
    modules_to_save: Sequence[str] | None = None
    use_rslora: bool = False
    use_dora: bool = False
    rank_pattern: Mapping[str, int] = field(default_factory=dict)
    alpha_pattern: Mapping[str, float] = field(default_factory=dict)
    exclude_modules: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Check every value."""
        for rank in (self.rank, *self.rank_pattern.values()):
            if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
                raise ValueError(f"rank: expected a positive integer; received {rank!r}.")
        for alpha in (self.alpha, *self.alpha_pattern.values()):
            if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not math.isfinite(alpha):
                raise ValueError(f"alpha: expected a finite number; received {alpha!r}.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout: expected a share in [0, 1); received {self.dropout!r}.")
        if self.bias not in _BIASES:
            raise ValueError(f"bias: expected one of {_BIASES}; received {self.bias!r}.")
        if self.init_lora_weights not in _INITS:
            raise ValueError(
                f"init_lora_weights: expected one of {_INITS}; received {self.init_lora_weights!r}."
            )
        if not self.target_modules:
            raise ValueError("target_modules: name at least one layer, or give a regular expression.")
        for name in ("target_modules", "modules_to_save", "exclude_modules"):
            self._check_names(name)

    def _check_names(self, name: str) -> None:
        value = getattr(self, name)
        if value is None:
            return
        if isinstance(value, str):
            if name == "modules_to_save":
                raise TypeError(f"modules_to_save: expected a sequence of names; received {value!r}.")
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"{name}: {value!r} is not a regular expression: {error}.") from None
            return
        names = sorted(value) if isinstance(value, set | frozenset) else list(value)
        if not all(isinstance(n, str) for n in names):
            raise TypeError(f"{name}: expected names; received {value!r}.")
        object.__setattr__(self, name, tuple(names))

    @property
    def scaling(self) -> float:
        """The factor of updates of layers that no pattern names."""
        return self.alpha / (math.sqrt(self.rank) if self.use_rslora else self.rank)

    def for_module(self, name: str) -> LoRAConfig:
        """Return the settings of the layer `name`, with the patterns applied."""
        return replace(
            self,
            rank=_by_pattern(self.rank_pattern, name, self.rank),
            alpha=_by_pattern(self.alpha_pattern, name, self.alpha),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON has them."""
        content = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {k: dict(v) if isinstance(v, Mapping) else v for k, v in content.items()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the settings that `to_dict` returned."""
        unknown = sorted(set(content) - {f.name for f in fields(cls)})
        if unknown:
            raise ValueError(f"LoRAConfig: unknown settings {unknown}.")
        return cls(**content)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the settings to a JSON file; see `load`."""
        with atomic_write(path) as file:
            file.write(json.dumps(self.to_dict(), indent=2, sort_keys=True).encode())
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read settings that `save` wrote."""
        try:
            content = json.loads(Path(path).read_bytes())
        except ValueError as error:
            raise FileFormatError(f"{path}: not a JSON file: {error}.") from error
        if not isinstance(content, dict):
            raise FileFormatError(f"{path}: expected a JSON object; found {type(content).__name__}.")
        return cls.from_dict(content)


def _by_pattern(patterns: Mapping[str, Any], name: str, usual: Any) -> Any:
    for pattern, value in patterns.items():
        if re.fullmatch(rf"(.*\.)?({pattern})", name):
            return value
    return usual
