"""How much adapters hold and what training them takes."""

from __future__ import annotations

from typing import Any

from grilly_core.dtypes import as_dtype
from grilly_core.nn.linear import positive

__all__ = ["calculate_lora_params"]


def calculate_lora_params(
    model_params: int,
    num_lora_layers: int,
    in_features: int,
    out_features: int,
    rank: int,
    dtype: Any = "float32",
) -> dict[str, float]:
    """Return the size of adapters on equal dense layers, and of the memory that training them needs.

    Parameters
    ----------
    model_params : int
        Numbers in the frozen model.
    num_lora_layers, in_features, out_features, rank : int
    dtype : DType
        Of the frozen model. Adapters are taken as float32, and Adam keeps two more numbers for each of theirs.

    Returns
    -------
    dict
        ``base_params``, ``lora_params``, ``trainable_ratio`` (adapters to base), and in GB (10**9 bytes)
        ``base_memory_gb``, ``lora_memory_gb``, ``optimizer_memory_gb`` and ``total_training_memory_gb`` (with the
        adapters' gradients, without activations).

    Examples
    --------
    >>> from grilly_core.lora import calculate_lora_params
    >>> calculate_lora_params(1_000_000, 2, 768, 768, rank=8)["lora_params"]
    24576
    """
    positive(
        model_params=model_params, num_lora_layers=num_lora_layers, in_features=in_features, out_features=out_features,
        rank=rank,
    )  # fmt: skip
    learnt = num_lora_layers * rank * (in_features + out_features)
    base, adapters = model_params * as_dtype(dtype).itemsize / 1e9, 4 * learnt / 1e9
    return {
        "base_params": model_params,
        "lora_params": learnt,
        "trainable_ratio": learnt / model_params,
        "base_memory_gb": base,
        "lora_memory_gb": adapters,
        "optimizer_memory_gb": 2 * adapters,
        "total_training_memory_gb": base + 4 * adapters,
    }
