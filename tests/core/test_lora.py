"""Layers with low-rank adapters: scale, merging, switching; the oracle is the formula with NumPy, or exact equality."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import lora, nn
from grilly_core.errors import ShapeError
from grilly_core.lora import LoRAConfig, LoRAConv, LoRAEmbedding, LoRALinear


@pytest.fixture
def rng():
    grilly.manual_seed(5)
    return np.random.default_rng(5)


def values(tensor):
    return tensor.detach().numpy(copy=True)


def randomise(layer, rng):
    """Fill all adapters with random numbers, so that updates are not zero."""
    for p in layer.lora_parameters():
        with grilly.no_grad():
            p.copy_(grilly.asarray(rng.normal(size=p.shape).astype(np.float32) * 0.3 + 0.1))


def linear(rng, **settings):
    layer = LoRALinear.around(nn.Linear(8, 8)).add_adapter(config=LoRAConfig(**settings))
    randomise(layer, rng)
    return layer, grilly.asarray(rng.normal(size=(5, 8)).astype(np.float32))


def embedding(rng, **settings):
    layer = LoRAEmbedding.around(nn.Embedding(11, 6)).add_adapter(config=LoRAConfig(**settings))
    randomise(layer, rng)
    return layer, grilly.asarray(rng.integers(0, 11, (4, 3)))


def conv(rng, **settings):
    base = nn.Conv2d(4, 6, 3, stride=2, padding=(2, 1), dilation=(1, 2), padding_mode="circular")
    layer = LoRAConv.around(base).add_adapter(config=LoRAConfig(**settings))
    randomise(layer, rng)
    return layer, grilly.asarray(rng.normal(size=(2, 4, 9, 9)).astype(np.float32))


def conv1d(rng, **settings):
    layer = LoRAConv.around(nn.Conv1d(3, 5, 4, padding="same")).add_adapter(config=LoRAConfig(**settings))
    randomise(layer, rng)
    return layer, grilly.asarray(rng.normal(size=(3, 9)).astype(np.float32))  # without a batch axis


KINDS = [linear, embedding, conv, conv1d]


@pytest.mark.parametrize(
    ("rank", "alpha", "stabilised", "scale"), [(4, 8, False, 2.0), (3, 4, False, 4 / 3), (4, 4, True, 2.0)]
)
def test_the_scale_is_alpha_over_rank_in_real_numbers(rng, rank, alpha, stabilised, scale):
    layer, x = linear(rng, rank=rank, alpha=alpha, use_rslora=stabilised)
    adapter = layer.adapters["default"]
    a, b = values(adapter.lora_A), values(adapter.lora_B)
    right = values(x) @ values(layer.base_layer.weight).T + scale * (values(x) @ a.T) @ b.T
    right += values(layer.base_layer.bias)
    assert values(layer(x)) == pytest.approx(right, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("init", ["kaiming", "gaussian", "zeros"])
def test_a_fresh_adapter_changes_nothing_and_only_it_learns(rng, init, dora):
    layer = LoRALinear.around(nn.Linear(8, 6)).add_adapter(
        config=LoRAConfig(rank=2, init_lora_weights=init, use_dora=dora)
    )
    x = grilly.asarray(rng.normal(size=(3, 8)).astype(np.float32))
    assert values(layer(x)) == pytest.approx(values(layer.base_layer(x)), abs=1e-6 if dora else 0.0)
    layer(x).sum().backward()
    wanted = {"adapters.default.lora_A", "adapters.default.lora_B"}
    wanted |= {"adapters.default.magnitude"} if dora else set()
    assert {n for n, p in layer.named_parameters() if p.grad is not None} == wanted
    assert init == "zeros" or values(layer.adapters["default"].lora_A).any()


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("make", KINDS)
def test_merging_keeps_the_output_and_unmerging_the_bits(rng, make, dora):
    layer, x = make(rng, rank=2, alpha=3, use_dora=dora)
    layer.eval()
    before = values(layer.base_layer.weight)
    base = values(layer.base_layer(x))
    output = values(layer(x))
    assert np.abs(output - base).max() > 1e-2
    layer.merge_weights()
    assert np.abs(values(layer.base_layer.weight) - before).max() > 1e-2
    assert values(layer(x)) == pytest.approx(output, rel=1e-5, abs=2e-6)
    with pytest.warns(UserWarning, match="merged already"):
        layer.merge_weights()
    assert values(layer(x)) == pytest.approx(output, rel=1e-5, abs=2e-6)
    layer.unmerge_weights()
    with pytest.warns(UserWarning, match="nothing is merged"):
        layer.unmerge_weights()
    assert np.array_equal(values(layer.base_layer.weight), before)
    assert np.array_equal(values(layer(x)), output)
    layer.disable_lora()
    assert np.array_equal(values(layer(x)), base)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision_comes_back_and_the_merged_weight_is_rounded_once(rng, kind):
    layer = LoRALinear.around(nn.Linear(16, 16).to(dtype=kind)).add_adapter(config=LoRAConfig(rank=4))
    with grilly.no_grad():
        layer.base_layer.weight.copy_(grilly.asarray(rng.uniform(-30, 30, (16, 16))).to(kind))
    randomise(layer, rng)
    before = values(layer.base_layer.weight.to("float64"))
    adapter = layer.adapters["default"]
    exact = before + 4 * values(adapter.lora_B).astype(np.float64) @ values(adapter.lora_A)
    for _ in range(20):
        layer.merge_weights()
        merged = layer.base_layer.weight
        right = grilly.asarray(exact.astype(np.float32)).to(kind)
        assert np.array_equal(values(merged.to("float32")), values(right.to("float32")))
        layer.unmerge_weights()
    assert np.array_equal(values(layer.base_layer.weight.to("float64")), before)
    assert layer(grilly.ones((2, 16), dtype=kind)).dtype.name == kind


@pytest.mark.parametrize("make", KINDS)
def test_the_weight_with_updates_is_what_merging_writes_and_gradients_flow_through_it(rng, make):
    layer, _ = make(rng, rank=2)
    weight = layer.weight
    weight.sum().backward()
    assert layer.adapters["default"].lora_B.grad.numpy().any()
    layer.merge_weights()
    assert np.array_equal(values(layer.base_layer.weight), values(weight))


def test_a_weight_that_another_layer_shares_does_not_change_there(rng):
    layer, _ = linear(rng, rank=2)
    head = nn.Linear(8, 8)
    head.weight = layer.base_layer.weight
    before = values(head.weight)
    layer.merge_weights()
    assert np.array_equal(values(head.weight), before)
    layer.unmerge_weights()
    assert layer.base_layer.weight is head.weight


def test_merged_layers_can_be_moved_and_copied(rng):
    layer, x = linear(rng, rank=2)
    before = values(layer.base_layer.weight)
    layer.merge_weights()
    twin = copy.deepcopy(layer)
    layer.double()
    layer.unmerge_weights()
    assert layer.base_layer.weight.dtype == grilly.float64
    assert np.array_equal(values(layer.base_layer.weight), before)
    twin.unmerge_weights()
    assert np.array_equal(values(twin.base_layer.weight), before)
    assert twin(x).dtype == grilly.float32


@pytest.mark.parametrize("make", KINDS)
def test_mixtures_add_up_and_merge(rng, make):
    layer, x = make(rng, rank=2)
    layer.eval()
    layer.attach("other", layer.make_adapter(LoRAConfig(rank=3, use_dora=True)))
    randomise(layer, rng)
    base = values(layer.base_layer(x))
    alone = {name: values(layer.set_active({name: 1.0})(x)) - base for name in ("default", "other")}
    mixed = values(layer.set_active({"default": 0.25, "other": -2.0})(x))
    right = base + 0.25 * alone["default"] - 2.0 * alone["other"]
    assert mixed == pytest.approx(right, rel=1e-4, abs=2e-5)
    layer.merge_weights()
    assert values(layer(x)) == pytest.approx(mixed, rel=1e-4, abs=2e-5)


def test_while_merged_adapters_stay_as_they_are(rng):
    layer, x = linear(rng, rank=2)
    layer.merge_weights()
    content = layer.state_dict()
    for act in (
        lambda: layer.set_active({}),
        lambda: layer.add_adapter("more"),
        lambda: layer.delete_adapter("default"),
        lambda: layer.load_state_dict(content),
        lambda: layer.reset_lora_parameters(),
    ):
        with pytest.raises(RuntimeError, match="unmerge_weights"):
            act()
    layer.disable_lora()
    assert not layer.merged
    assert np.array_equal(values(layer(x)), values(layer.base_layer(x)))


def test_nan_is_not_merged(rng):
    layer, _ = linear(rng, rank=2)
    with grilly.no_grad():
        layer.adapters["default"].lora_A.fill_(float("nan"))
    before = values(layer.base_layer.weight)
    with pytest.raises(ValueError, match="'default' holds NaN"):
        layer.merge_weights()
    assert not layer.merged
    assert np.array_equal(values(layer.base_layer.weight), before)


def test_disabled_layers_do_not_merge_and_unknown_names_are_refused(rng):
    layer, _ = linear(rng, rank=2)
    layer.disable_lora()
    with pytest.raises(RuntimeError, match="enable_lora"):
        layer.merge_weights()
    with pytest.raises(ValueError, match=r"called \['x'\]; there are \['default'\]"):
        layer.set_active({"x": 1.0})


def test_dropout_acts_on_the_adapter_alone_and_in_training_alone(rng):
    layer, x = linear(rng, rank=2, dropout=0.5)
    base = values(layer.base_layer(x))
    layer.eval()
    still = values(layer(x))
    layer.train()
    grilly.manual_seed(0)
    noisy = [values(layer(x)) for _ in range(400)]
    assert np.abs(noisy[0] - noisy[1]).max() > 1e-2
    error = np.abs(np.mean(noisy, axis=0) - still) / np.std(noisy, axis=0)
    assert error.max() < 5 / np.sqrt(400)  # the mean is the output without dropout
    layer.disable_lora()
    assert np.array_equal(values(layer(x)), base)


def test_grouped_convolutions_train_but_do_not_merge(rng):
    layer = LoRAConv(nn.Conv2d(4, 6, 3, groups=2), rank=4)
    randomise(layer, rng)
    x = grilly.asarray(rng.normal(size=(1, 4, 5, 5)).astype(np.float32))
    assert np.abs(values(layer(x)) - values(layer.base_layer(x))).max() > 1e-2
    with pytest.raises(ValueError, match="groups=2"):
        layer.merge_weights()
    assert not layer.merged
    with pytest.raises(ValueError, match="divisible by groups=2"):
        LoRAConv(nn.Conv2d(4, 6, 3, groups=2), rank=3)


def test_a_low_rank_target_is_recovered(rng):
    target = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 8)) * 0.3
    layer = LoRALinear(8, 8, rank=2, base_weights=rng.normal(size=(8, 8)).astype(np.float32))
    before = values(layer.base_layer.weight)
    x = grilly.asarray(rng.normal(size=(64, 8)).astype(np.float32))
    y = grilly.asarray((values(x) @ (before + target).T).astype(np.float32))
    optimizer = grilly.optim.Adam([p for p in layer.parameters() if p.requires_grad], lr=0.02)
    for _ in range(400):
        optimizer.zero_grad()
        loss = ((layer(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-3
    assert np.array_equal(values(layer.base_layer.weight), before)


def test_counts_and_arrays():
    layer = LoRALinear(768, 768, rank=8)
    assert layer.num_trainable_params() == 12288
    assert layer.num_total_params() == 768 * 768 + 12288
    assert LoRALinear(5, 3, rank=2, bias=True).num_trainable_params() == 2 * 8 + 3
    assert LoRALinear(5, 3)(np.ones((2, 5), np.float32)).shape == (2, 3)
    assert LoRAEmbedding(5, 3)(np.array([1, 2])).shape == (2, 3)


def test_the_memory_that_training_takes():
    found = lora.calculate_lora_params(10**9, 10, 1000, 500, rank=4, dtype="float16")
    assert found["lora_params"] == 60_000
    assert found["trainable_ratio"] == pytest.approx(6e-5)
    assert found["base_memory_gb"] == pytest.approx(2.0)
    assert found["total_training_memory_gb"] == pytest.approx(2.0 + 4 * 4 * 6e-5)
    with pytest.raises(ShapeError, match="rank"):
        lora.calculate_lora_params(10, 1, 1, 1, 0)


def test_wrong_settings_are_refused():
    for wrong in ({"rank": 0}, {"rank": -1}, {"rank": True}, {"dropout": 1.0}, {"bias": "some"}, {"alpha": "8"},
                  {"init_lora_weights": "eye"}, {"target_modules": []}, {"target_modules": "("},
                  {"rank_pattern": {"x": 0}}):  # fmt: skip
        with pytest.raises(ValueError, match=next(iter(wrong)).removesuffix("_pattern")):
            LoRAConfig(**wrong)
    with pytest.raises(ValueError, match="rank: expected a positive integer; received 0"):
        LoRALinear(4, 4, rank=0)
    with pytest.raises(ShapeError, match="base_weights"):
        LoRALinear(4, 4, base_weights=np.ones((3, 4)))
    with pytest.raises(ShapeError, match="expected a weight"):
        lora.apply_lora_to_linear(np.ones(3))
    with pytest.raises(ValueError, match="max_norm"):
        LoRAEmbedding.around(nn.Embedding(3, 4, max_norm=1.0))


def test_settings_are_kept_in_a_file(tmp_path):
    config = LoRAConfig(rank=4, target_modules={"b", "a"}, rank_pattern={"a": 2}, use_dora=True)
    assert LoRAConfig.load(config.save(tmp_path / "lora.json")) == config
    assert config.for_module("x.a").rank == 2
    assert config.for_module("x.ba").rank == 4
    with pytest.raises(ValueError, match="unknown settings"):
        LoRAConfig.from_dict({"r": 3})


def test_split_attention_keeps_rotary_positions():
    grilly.manual_seed(0)
    rope = grilly.nn.RotaryEmbedding(4)
    attention = grilly.nn.MultiheadAttention(8, 2, batch_first=True, rope=rope)
    x = grilly.randn(2, 5, 8)
    expected, _ = attention(x, x, x)
    found, _ = grilly.lora.SplitAttention(attention)(x, x, x)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), atol=1e-6)
