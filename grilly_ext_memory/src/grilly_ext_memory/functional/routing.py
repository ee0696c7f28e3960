"""What keeps experts evenly busy, and a router's logits small."""

from __future__ import annotations

from typing import Any

import grilly_core as grilly
from grilly_core.apply import as_tensor
from grilly_core.errors import ShapeError
from grilly_core.tensor import Tensor

__all__ = ["load_balance_loss", "router_z_loss"]


def load_balance_loss(probabilities: Any, experts: Any) -> Tensor:
    """``E sum_i f_i P_i`` (Switch Transformer, Fedus et al. 2022, equations 4 to 6), 1 where all is even.

    f_i is the share of choices that fell on expert i, P_i the mean of its probabilities. Gradients flow through P.
    The paper adds 0.01 times this to a network's loss.

    Parameters
    ----------
    probabilities : array_like, (B, E)
    experts : array_like of int, (B,) or (B, k)
        What was chosen, before capacities.

    Examples
    --------
    >>> from grilly_ext_memory.functional.routing import load_balance_loss
    >>> load_balance_loss([[0.5, 0.5], [0.5, 0.5]], [0, 1]).item()
    1.0
    """
    p = as_tensor(probabilities)
    chosen = as_tensor(experts).to(p.device)
    if p.ndim != 2 or chosen.ndim not in (1, 2) or chosen.shape[0] != p.shape[0]:
        raise ShapeError(
            "load_balance_loss: expected probabilities (B, E) and experts (B,) or (B, k); received "
            f"{tuple(p.shape)} and {tuple(chosen.shape)}."
        )
    if not chosen.dtype.is_integer:
        raise TypeError(f"load_balance_loss: experts must be whole numbers; received {chosen.dtype.name}.")
    counts = chosen_counts(chosen.reshape(-1), p.shape[1]).to(p.dtype)
    rows, width = p.shape
    # No rows lose nothing: a mean of them would be NaN and spread to the whole loss.
    return (counts * p.sum(0)).sum() * (width / max(rows * chosen.numel(), 1))


def chosen_counts(chosen: Tensor, experts: int) -> Tensor:
    """Return how often each expert was chosen, int32."""
    numbers = grilly.arange(experts, dtype=chosen.dtype, device=chosen.device)
    return (chosen.unsqueeze(1) == numbers).to("int32").sum(0)


def router_z_loss(logits: Any) -> Tensor:
    """``mean_b (log sum_i exp x_bi)^2``, which keeps logits small (ST-MoE, Zoph et al. 2022, equation 5).

    The paper adds 0.001 times this to a network's loss.

    Parameters
    ----------
    logits : array_like, (B, E)

    Examples
    --------
    >>> from grilly_ext_memory.functional.routing import router_z_loss
    >>> router_z_loss([[0.0], [2.0]]).item()
    2.0
    """
    x = as_tensor(logits)
    if x.ndim != 2:
        raise ShapeError(f"router_z_loss: expected logits (B, E); received shape {tuple(x.shape)}.")
    total: Tensor = (x.logsumexp(-1) ** 2).sum() / max(x.shape[0], 1)
    return total
