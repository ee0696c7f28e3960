"""Low-rank adapters (LoRA; Hu et al. 2021): a model stays frozen while small updates of its layers are learnt."""

from __future__ import annotations

from grilly_core.lora.adapter import Adapter
from grilly_core.lora.arrays import load_checkpoint, save_checkpoint
from grilly_core.lora.attention import LoRAAttention, SplitAttention, split_attention
from grilly_core.lora.config import LoRAConfig
from grilly_core.lora.conv import LoRAConv
from grilly_core.lora.counting import calculate_lora_params
from grilly_core.lora.fused import LoRAMultiheadAttention
from grilly_core.lora.layer import LoRALayer
from grilly_core.lora.linear import LoRAEmbedding, LoRALinear, apply_lora_to_linear
from grilly_core.lora.model import LoRAModel, get_peft_model
from grilly_core.lora.saved import SavedModule

__all__ = [
    "Adapter", "LoRAAttention", "LoRAConfig", "LoRAConv", "LoRAEmbedding", "LoRALayer", "LoRALinear", "LoRAModel",
    "LoRAMultiheadAttention", "SavedModule", "SplitAttention", "apply_lora_to_linear", "calculate_lora_params",
    "get_peft_model", "load_checkpoint", "save_checkpoint", "split_attention",
]  # fmt: skip
