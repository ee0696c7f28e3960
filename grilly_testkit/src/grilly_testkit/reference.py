"""The reference device: every primitive is its NumPy oracle, at full width, and there are no fused kernels.

It is the slowest device and the definition of right: the conformance kit runs each op here in float64 and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from grilly_core import registry
from grilly_core.dtypes import ALL
from grilly_core.plugins import loader

__all__ = ["ReferenceBackend", "reference_device"]


@dataclass(frozen=True)
class _Info:
    name: str = "NumPy oracles"
    kind: str = "cpu"
    memory: int = 0


class _Runtime:
    """Host memory; kernels come from the ops themselves."""

    host_mapped = True
    stream = None

    def alloc(self, nbytes: int) -> Any:
        return np.empty(nbytes, np.uint8)

    def free(self, handle: Any) -> None:
        return None

    def copy_in(self, handle: Any, offset: int, data: memoryview) -> None:
        handle[offset : offset + len(data)] = np.frombuffer(data, np.uint8)

    def copy_out(self, handle: Any, offset: int, out: memoryview) -> None:
        np.frombuffer(out, np.uint8)[:] = handle[offset : offset + len(out)]

    def copy(self, dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int) -> None:
        dst[dst_offset : dst_offset + nbytes] = src[src_offset : src_offset + nbytes]

    def synchronize(self) -> None:
        return None

    def register_kernels(self, kernels: Any) -> None:
        for name, op in registry.specs().items():
            if op.kind in ("primitive", "host") and op.reference_rule is not None:
                kernels.add(name, _kernel(op.reference_rule), dtypes={d.code for d in ALL})


def _kernel(rule: Callable[..., Any]) -> Callable[..., None]:
    """Wrap an oracle as a kernel."""

    def run(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        results = rule(*[None if v is None else v.array for v in ins], **attrs)
        with np.errstate(all="ignore"):
            for out, value in zip(outs, results if isinstance(results, tuple) else (results,), strict=True):
                out.array[...] = value

    return run


class ReferenceBackend:
    """Lists one device, ``reference:0``."""

    name = "reference"
    grilly_abi = 1

    def devices(self) -> list[_Info]:
        """List the one device."""
        return [_Info()]

    def open(self, index: int) -> _Runtime:
        """Return its runtime."""
        return _Runtime()


@contextmanager
def reference_device() -> Iterator[str]:
    """Make ``reference:0`` available inside a ``with`` block, and yield its name."""
    if "reference" not in loader.backend_names():
        loader.add_backend(ReferenceBackend())
    yield "reference:0"
