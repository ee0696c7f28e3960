"""`SavedModule`: a module that adapters train whole, each in a copy of its own."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from grilly_core.nn.module import Module

__all__ = ["SavedModule"]


class SavedModule(Module):
    """The frozen original of a module, and a trained copy for each adapter that asked for one."""

    original: Module

    def __init__(self, original: Module) -> None:
        super().__init__()
        self.original = original
        self.training = original.training
        self.copies: dict[str, Module] = {}
        self._active: str | None = None
        self._enabled = True

    def copied(self) -> Module:
        """Return a fresh copy of the original; `attach` takes it."""
        return copy.deepcopy(self.original).requires_grad_(False)

    def attach(self, name: str, module: Module) -> None:
        """Add the copy of an adapter; it is not active yet."""
        self.copies[name] = module

    def set_active(self, weights: Mapping[str, float]) -> None:
        """Train and use the copy of the active adapter that has one; others are frozen."""
        self._active = next((name for name in weights if name in self.copies), None)
        for name, module in self.copies.items():
            module.requires_grad_(name == self._active)

    def delete_adapter(self, name: str) -> None:
        """Forget a copy."""
        self.copies.pop(name, None)
        if self._active == name:
            self._active = None

    def enable(self, enabled: bool) -> None:
        """Use the active copy, or with False the original."""
        self._enabled = enabled

    @property
    def current(self) -> Module:
        """The module that is used."""
        return self.copies[self._active] if self._enabled and self._active is not None else self.original

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module that is used."""
        return self.current(*args, **kwargs)
