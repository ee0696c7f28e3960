"""PyTorch's choices between implementations of one rule.

There is one implementation here: a step is one op for all tensors of a group, on a device that has a kernel for it one
launch, and it can always be captured. So `foreach`, `fused` and `capturable` are granted whatever they say, and change
no result. Steps are not recorded for gradients, so `differentiable` is refused.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CHOICES", "check_choices"]

#: Settings by which PyTorch chooses; a state dict that has them loads without.
CHOICES: Final = frozenset(["capturable", "differentiable", "foreach", "fused"])


def check_choices(
    foreach: bool | None = None,
    fused: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
) -> None:
    """Raise for what cannot be granted.

    Raises
    ------
    ValueError
        If `differentiable` is true, or `foreach` and `fused` both are, as in PyTorch.
    TypeError
        If `foreach` or `fused` is neither a bool nor None, or `capturable` no bool.
    """
    for name, value in (("foreach", foreach), ("fused", fused), ("capturable", capturable)):
        if not (isinstance(value, bool) or (value is None and name != "capturable")):
            raise TypeError(f"{name}: expected a bool; received {value!r}.")
    if differentiable:
        raise ValueError(
            "differentiable=True: a step is not recorded, so no gradient flows through it; write the update with "
            "tensor operations instead."
        )
    if foreach and fused:
        raise ValueError("foreach and fused: give at most one of them as True.")
