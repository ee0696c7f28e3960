"""Adam whose rate follows an affect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grilly_core.optim.adam import Adam
from grilly_core.optim.optimizer import Group

__all__ = ["AffectAdam"]


class AffectAdam(Adam):
    """Adam with the rate ``lr (1 + kappa (arousal - ½) + kappa_valence valence)``; with both 0 it is `Adam`.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
    lr : float
    betas : (float, float)
    eps : float
    weight_decay : float
    amsgrad : bool
    kappa : float
        How much arousal raises the rate, from -2 to 2.
    kappa_valence : float
        How much valence raises the rate, from -1 to 1.
    maximize : bool

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p = grilly.nn.Parameter(grilly.tensor([1.0]))
    >>> opt = grilly.optim.AffectAdam([p], lr=0.1, kappa=1.0)
    >>> opt.set_affect(valence=0.0, arousal=1.0)
    >>> (p * 3.0).sum().backward()
    >>> opt.step()
    >>> round(p.item(), 4)
    0.85
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        kappa: float = 0.0,
        kappa_valence: float = 0.0,
        maximize: bool = False,
    ) -> None:
        self._affect = {
            "kappa": kappa, "kappa_valence": kappa_valence, "valence": 0.0, "arousal": 0.5,
        }  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group: a dict with ``"params"`` and, where they differ from the defaults, settings."""
        self.defaults.update(self._affect)
        super().add_param_group(param_group)

    def _check_group(self, group: Group) -> None:
        super()._check_group(group)
        if not 0.5 * abs(group["kappa"]) + abs(group["kappa_valence"]) <= 1.0:
            raise ValueError(
                "kappa, kappa_valence: |kappa| / 2 + |kappa_valence| must be at most 1, or the rate could be negative; "
                f"received {group['kappa']} and {group['kappa_valence']}."
            )

    def set_affect(self, valence: float, arousal: float) -> None:
        """Say what is felt from the next step on, captured ones included.

        Parameters
        ----------
        valence : float
            From -1 (bad) to 1 (good).
        arousal : float
            From 0 (calm) to 1 (excited); one half changes nothing.
        """
        if not (-1.0 <= valence <= 1.0 and 0.0 <= arousal <= 1.0):
            raise ValueError(
                f"set_affect: valence goes from -1 to 1, arousal from 0 to 1; received {valence} and {arousal}."
            )
        for group in self.param_groups:
            group["valence"], group["arousal"] = float(valence), float(arousal)

    def _wanted_rate(self, group: Group) -> float:
        felt = group["kappa"] * (group["arousal"] - 0.5) + group["kappa_valence"] * group["valence"]
        return float(group["lr"]) * (1.0 + float(felt))
