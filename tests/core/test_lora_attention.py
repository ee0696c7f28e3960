"""Attention with adapters: unchanged at first, like the projections' formulas later, and merged bit for bit back."""

from __future__ import annotations

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import nn
from grilly_core.errors import ShapeError
from grilly_core.lora import LoRAAttention, LoRAConfig, LoRAModel, SplitAttention, split_attention


@pytest.fixture
def rng():
    grilly.manual_seed(11)
    return np.random.default_rng(11)


def values(tensor):
    return tensor.detach().numpy(copy=True)


def tensor(rng, *shape):
    return grilly.asarray(rng.normal(size=shape).astype(np.float32))


OPTIONS = {
    "plain": {},
    "no bias": {"bias": False},
    "other widths": {"kdim": 6, "vdim": 4},
    "extra keys": {"add_bias_kv": True, "add_zero_attn": True},
}


@pytest.mark.parametrize("which", OPTIONS)
def test_split_attention_computes_the_same(rng, which):
    base = nn.MultiheadAttention(8, 2, batch_first=True, **OPTIONS[which])
    for p in base.parameters():
        with grilly.no_grad():
            p.copy_(tensor(rng, *p.shape))
    q, k, v = tensor(rng, 2, 5, 8), tensor(rng, 2, 7, base.kdim), tensor(rng, 2, 7, base.vdim)
    split = SplitAttention(base)
    for found, right in zip(split(q, k, v), base(q, k, v), strict=True):
        assert values(found) == pytest.approx(values(right), rel=1e-5, abs=1e-5)
    assert sum(p.numel() for p in split.parameters()) == sum(p.numel() for p in base.parameters())
    assert all(p.requires_grad for p in split.parameters())
    split.reset_parameters()
    assert all(not values(p).any() for n, p in split.named_parameters() if n.endswith("proj.bias"))


def test_adapters_at_the_chosen_projections(rng):
    qkv, out = rng.normal(size=(3, 8, 8)).astype(np.float32), rng.normal(size=(8, 8)).astype(np.float32)
    layer = LoRAAttention(
        8, 2, rank=2, alpha=3, qkv_weights=qkv, out_weights=out, apply_lora_to=["q", "v", "out"]
    )
    x = tensor(rng, 2, 5, 8)
    base = nn.MultiheadAttention(8, 2, batch_first=True)
    base.load_state_dict({
        "in_proj_weight": qkv.reshape(24, 8), "in_proj_bias": np.zeros(24), "out_proj.weight": out,
        "out_proj.bias": np.zeros(8),
    })  # fmt: skip
    assert values(layer(x, x, x)[0]) == pytest.approx(values(base(x, x, x)[0]), rel=1e-5, abs=1e-5)
    assert list(layer.projections) == ["q", "v", "out"]
    assert {n for n, p in layer.named_parameters() if p.requires_grad} == {
        f"attention.{n}.adapters.default.lora_{m}" for n in ("q_proj", "v_proj", "out_proj") for m in "AB"
    }
    for p in layer.parameters():
        if p.requires_grad:
            with grilly.no_grad():
                p.copy_(tensor(rng, *p.shape))
    changed = qkv.copy()
    for i, role in ((0, "q"), (2, "v")):
        part = layer.projections[role].adapters["default"]
        changed[i] += 1.5 * values(part.lora_B) @ values(part.lora_A)
    part = layer.projections["out"].adapters["default"]
    moved = out + 1.5 * values(part.lora_B) @ values(part.lora_A)
    base.load_state_dict(
        {**base.state_dict(), "in_proj_weight": changed.reshape(24, 8), "out_proj.weight": moved}
    )
    output, plain = values(layer(x, x, x)[0]), values(base(x, x, x)[0])
    assert output == pytest.approx(plain, rel=1e-4, abs=1e-4 * float(np.abs(plain).max()))
    layer.merge_weights()
    assert values(layer(x, x, x)[0]) == pytest.approx(output, rel=1e-4, abs=1e-4 * float(np.abs(plain).max()))
    layer.unmerge_weights()
    assert np.array_equal(values(layer(x, x, x)[0]), output)
    layer.disable_lora()
    assert np.array_equal(values(layer.projections["q"].weight), qkv[0])
    layer.enable_lora()
    assert np.array_equal(values(layer(x, x, x)[0]), output)


def test_other_attention_is_wrapped_where_it_keeps_its_projections(rng):
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))
            self.wo = nn.Linear(4, 4)

        def forward(self, x):
            scores = self.query(x) @ self.key(x).transpose(-1, -2)
            return self.wo(scores.softmax(-1) @ self.value(x))

    base = Plain()
    x = tensor(rng, 3, 4)
    before = values(base(x))
    layer = LoRAAttention.around(base, LoRAConfig(2, use_dora=True), ["q", "k", "v", "out"])
    assert values(layer(x)) == pytest.approx(before, abs=1e-6)
    layer(x).sum().backward()
    assert all(p.grad is not None for p in layer.parameters() if p.requires_grad)
    with pytest.raises(ValueError, match="Linear keeps no dense layer for 'q'"):
        LoRAAttention.around(nn.Linear(2, 2))


def test_a_transformer_layer_takes_adapters_at_its_projections(rng):
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = tensor(rng, 2, 5, 8)
    before = values(model(x))
    adapted = LoRAModel(
        split_attention(model), LoRAConfig(2, target_modules=["q_proj", "out_proj", "linear1"])
    )
    assert list(adapted.lora_layers()) == ["self_attn.out_proj", "self_attn.q_proj", "linear1"]
    assert values(adapted(x)) == pytest.approx(before, rel=1e-5, abs=1e-5)
    adapted.train()
    adapted(x).sum().backward()
    assert all(p.grad is not None for p in adapted.parameters() if p.requires_grad)


def test_one_weight_for_all_projections_takes_an_adapter(rng):
    """Several at once, merged and brought back bit for bit, and taken out again."""
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    attention, projection = model.self_attn, model.self_attn.out_proj
    x = tensor(rng, 2, 5, 8)
    before, weight = values(model(x)), values(attention.in_proj_weight)
    adapted = LoRAModel(model, LoRAConfig(2, target_modules=["self_attn", "out_proj"]))
    names = ["self_attn", "self_attn.base_layer.out_proj"]
    assert list(adapted.lora_layers()) == names
    assert np.array_equal(values(adapted(x)), before)
    for layer in adapted.lora_layers().values():
        cell = layer.adapters["default"].lora_B
        with grilly.no_grad():
            cell.copy_(tensor(rng, *cell.shape))
    adapted.add_adapter("other", LoRAConfig(1, target_modules="all-linear"))
    assert list(adapted.lora_layers()) == [*names, "linear1", "linear2"]
    adapted.set_adapter("default")
    output = values(adapted(x))
    assert not np.allclose(output, before)
    adapted(x).sum().backward()
    assert all((p.grad is not None) == p.requires_grad for p in adapted.parameters())
    adapted.merge_weights()
    assert values(adapted(x)) == pytest.approx(output, rel=1e-5, abs=1e-5)
    adapted.unmerge_weights()
    assert np.array_equal(values(attention.in_proj_weight), weight)
    with adapted.disable_adapter():
        assert np.array_equal(values(adapted(x)), before)
    plain = adapted.unload()
    assert plain.self_attn is attention and attention.out_proj is projection
    assert np.array_equal(values(plain(x)), before)


def test_what_one_weight_for_all_projections_cannot_have():
    def adapted(config, **sizes):
        return LoRAModel(nn.Sequential(nn.MultiheadAttention(8, 2, **sizes)), config)

    with pytest.raises(ValueError, match="split_attention"):
        adapted(LoRAConfig(2, target_modules=["0"], use_dora=True))
    with pytest.raises(ValueError, match="split_attention"):
        adapted(LoRAConfig(2, target_modules=["0"]), kdim=4)
    with pytest.warns(UserWarning, match="dropout"):
        adapted(LoRAConfig(2, dropout=0.1, target_modules=["0"]))


def test_wrong_arguments_are_refused():
    for wrong in ([], "qv", ["q", "x"]):
        with pytest.raises(ValueError, match="apply_lora_to"):
            LoRAAttention(8, 2, apply_lora_to=wrong)
    with pytest.raises(ShapeError, match="qkv_weights"):
        LoRAAttention(8, 2, qkv_weights=np.ones((8, 8)))
    with pytest.raises(ShapeError, match="out_weights"):
        LoRAAttention(8, 2, out_weights=np.ones((8, 7)))
    with pytest.raises(ValueError, match="rank"):
        LoRAAttention(8, 2, rank=0)
