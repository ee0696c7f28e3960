"""What the groups of methods share: running an op by name, and the two spellings of an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grilly_core.dtypes import DType
from grilly_core.opspec import Handle

if TYPE_CHECKING:
    from grilly_core.buffer import View
    from grilly_core.tensor import Tensor

__all__ = ["Methods", "ValuesIndices", "axis_of", "run", "sizes_of"]

_H: Final[dict[str, Handle]] = {}


def run(name: str, *tensors: Any, **attrs: Any) -> Tensor:
    """Run the op of that name."""
    handle = _H.get(name)
    if handle is None:
        handle = _H[name] = Handle(name)
    result: Tensor = handle(*tensors, **attrs)
    return result


def axis_of(dim: Any, axis: Any) -> Any:
    """The one of the two names that was given."""
    if dim is not None and axis is not None:
        raise TypeError("give either dim or axis, not both.")
    chosen = dim if axis is None else axis
    return tuple(chosen) if isinstance(chosen, list) else chosen


def sizes_of(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """Accept sizes one by one or as a sequence."""
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        shape = tuple(shape[0])
    return tuple(int(n) for n in shape)


class ValuesIndices(NamedTuple):
    """Values and where they were found."""

    values: Tensor
    indices: Tensor


class Methods:
    """A group of methods; `Tensor` has what the groups rely on."""

    __slots__ = ()

    if TYPE_CHECKING:
        _value: View

        @property
        def shape(self) -> tuple[int, ...]: ...  # noqa: D102 - for the type checker
        @property
        def dtype(self) -> DType: ...  # noqa: D102 - for the type checker
        @property
        def ndim(self) -> int: ...  # noqa: D102 - for the type checker
        @property
        def device(self) -> Any: ...  # noqa: D102 - for the type checker

        def _assign(self, new: Tensor, what: str = "") -> Tensor: ...
        def __getitem__(self, key: Any) -> Tensor: ...
        def detach(self) -> Tensor: ...  # noqa: D102 - for the type checker
