"""Adapters in NumPy files (features 11.7); the oracle is the adapted model that was saved, bit for bit."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import lora, nn


def base():
    grilly.manual_seed(0)
    return nn.Sequential(nn.Embedding(7, 6), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).eval()


def adapted(**settings):
    names = settings.pop("target_modules", ["0", "1", "3"])
    model = lora.LoRAModel(base(), lora.LoRAConfig(2, 8, target_modules=names, **settings))
    rng = np.random.default_rng(1)
    with grilly.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.copy_(grilly.asarray(rng.normal(size=p.shape), dtype="float32"))
    return model.eval()


IDS = np.arange(7, dtype=np.int32)


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"bias": "lora_only"}, {"use_dora": True, "target_modules": ["1"]}, {"use_rslora": True},
        {"rank_pattern": {"3": 1}, "alpha_pattern": {"1": 2}},
    ],
)  # fmt: skip
def test_an_adapter_comes_back(tmp_path, settings):
    model = adapted(**settings)
    lora.save_checkpoint(model, tmp_path / "a", metadata={"base": "small", "epoch": 3})
    again, metadata = lora.load_checkpoint(base(), tmp_path / "a", "other")
    assert again(IDS).tolist() == model(IDS).tolist() != base()(IDS).tolist()
    assert metadata == {"base": "small", "epoch": 3}
    assert list(again.active_adapters) == ["other"]
    assert again.get_nb_trainable_parameters() == model.get_nb_trainable_parameters()


def test_the_layout(tmp_path):
    """Names and contents as the feature list gives them, readable without pickle."""
    model = adapted(bias="lora_only", target_modules=["1"])
    lora.save_checkpoint(model, tmp_path)
    with np.load(tmp_path / "adapters.npz", allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    assert {k: v.shape for k, v in arrays.items()} == {"1_lora_A": (2, 6), "1_lora_B": (5, 2), "1_bias": (5,)}
    layer = model.get_layer("1").adapters["default"]
    np.testing.assert_array_equal(arrays["1_lora_A"], layer.lora_A.detach().numpy())
    head = json.loads((tmp_path / "metadata.json").read_text())
    assert head["layers"] == {"1": {"in_features": 6, "out_features": 5, "rank": 2, "alpha": 8}}
    assert lora.LoRAConfig.load(tmp_path / "config.json") == model.configs["default"]


@pytest.mark.parametrize("kind", ["truncated", "pickled", "foreign", "no config", "missing", "shape"])
def test_damaged_files_leave_the_model_untouched(tmp_path, kind):
    lora.save_checkpoint(adapted(), tmp_path)
    path = tmp_path / "adapters.npz"
    error = grilly.errors.FileFormatError
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[:-40])
    elif kind == "pickled":
        path.write_bytes(pickle.dumps({"1_lora_A": np.ones(3)}))
    elif kind == "foreign":
        (tmp_path / "metadata.json").write_text('{"format": "other"}')
    elif kind == "no config":
        (tmp_path / "config.json").unlink()
    else:
        error = grilly.errors.StateDictError
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        if kind == "missing":
            del arrays["1_lora_A"]
        else:
            arrays["1_lora_A"] = np.ones((2, 7), np.float32)
        np.savez(path, **arrays)
    model = base()
    before = repr(model)
    with pytest.raises(error):
        lora.load_checkpoint(model, tmp_path)
    assert repr(model) == before and all(p.requires_grad for p in model.parameters())


def test_what_the_layout_has_no_place_for_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no place"):
        lora.save_checkpoint(adapted(bias="all"), tmp_path)
    with pytest.raises(ValueError, match="no adapter"):
        lora.save_checkpoint(adapted(), tmp_path, "none")


@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_without_weights_is_gone_back_through(need_weights):
    """`Module.backward` of an output that is a tensor and None; the oracle is the tape."""
    grilly.manual_seed(0)
    layer = nn.MultiheadAttention(4, 2)
    x = grilly.randn(3, 2, 4).requires_grad_()
    _, weights = layer(x, x, x, need_weights=need_weights)
    assert (weights is None) is not need_weights
    g = grilly.randn(3, 2, 4)
    (want,) = grilly.grad((layer(x, x, x, need_weights=need_weights)[0] * g).sum(), x)
    layer(x, x, x, need_weights=need_weights)
    got = layer.backward((g, None))
    assert sum(t.detach().numpy() for t in (got if isinstance(got, tuple) else (got,))) == pytest.approx(
        want.numpy() * (3 if isinstance(got, tuple) else 1), rel=1e-5, abs=1e-6
    )
    if not need_weights:
        layer(x, x, x, need_weights=False)
        layer.backward(g)
        with pytest.raises(grilly.errors.AutogradError, match="no forward"):
            layer.backward(g)
        layer(x, x, x, need_weights=False)
        with pytest.raises(grilly.errors.AutogradError, match="1 outputs"):
            layer.backward((g, g))
