"""`Adapter`: the pair of small matrices that one layer learns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grilly_core.nn import init
from grilly_core.nn.linear import Dropout
from grilly_core.nn.module import Module
from grilly_core.nn.parameter import Parameter
from grilly_core.ops.creation import zeros
from grilly_core.random import Generator

if TYPE_CHECKING:
    from grilly_core.device import Device
    from grilly_core.dtypes import DType
    from grilly_core.lora.config import LoRAConfig
    from grilly_core.tensor import Tensor

__all__ = ["Adapter"]


class Adapter(Module):
    """Matrices A and B of one layer under one name, and with DoRA the lengths of the weight vectors.

    Attributes
    ----------
    lora_A, lora_B : Parameter
    magnitude : Parameter or None
    scaling : float
        The factor of the update.
    """

    lora_A: Parameter
    lora_B: Parameter
    magnitude: Parameter | None

    def __init__(
        self,
        config: LoRAConfig,
        shapes: tuple[tuple[int, ...], tuple[int, ...]],
        device: Device,
        dtype: DType,
    ) -> None:
        super().__init__()
        self.rank = config.rank
        self.alpha = config.alpha
        self.use_dora = config.use_dora
        self.scaling = config.scaling
        self.init_weights = config.init_lora_weights
        self.dropout = Dropout(config.dropout)
        self.lora_A = Parameter(zeros(shapes[0], device=device, dtype=dtype))
        self.lora_B = Parameter(zeros(shapes[1], device=device, dtype=dtype))
        self.register_parameter("magnitude", None)

    def reset(self, lookup: bool, rng: Generator | None = None) -> None:
        """Draw the first values; `lookup` is whether A is a table, which starts at zero instead of B."""
        first, second = (self.lora_B, self.lora_A) if lookup else (self.lora_A, self.lora_B)
        init.zeros_(first)
        init.zeros_(second)
        if self.init_weights == "zeros":
            return
        if lookup:
            init.normal_(first, rng=rng)
        elif self.init_weights == "gaussian":
            init.normal_(first, std=1.0 / self.rank, rng=rng)
        else:
            init.kaiming_uniform_(first, a=math.sqrt(5), rng=rng)
        if self.init_weights == "random":
            init.normal_(second, std=1.0 / self.rank, rng=rng)

    def learn_lengths(self, lengths: Tensor) -> None:
        """Start DoRA's magnitudes at the lengths that the weight vectors have."""
        self.magnitude = Parameter(lengths.detach())

    def extra_repr(self) -> str:
        """Rank, scale and kind."""
        return f"rank={self.rank}, scaling={self.scaling:g}" + (", dora" if self.use_dora else "")
