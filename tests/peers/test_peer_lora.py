"""peft and PyTorch as oracles: adapter files open on either side, and outputs, merged weights and gradients agree."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")
stats = pytest.importorskip("scipy.stats")
safetensors = pytest.importorskip("safetensors.numpy")

from tests.peers.peer_modules import PLACES, need  # noqa: E402

import grilly_core as grilly  # noqa: E402
from grilly_core import nn  # noqa: E402
from grilly_core.lora import LoRAConfig, LoRAModel  # noqa: E402


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def dense(n):
    return n.Sequential(
        n.Linear(6, 8), n.GELU(), n.Sequential(n.Linear(8, 8), n.LayerNorm(8)), n.Linear(8, 3)
    )


def table(n):
    return n.Sequential(n.Embedding(11, 6, padding_idx=0), n.Linear(6, 5, bias=False))


def filters(n):
    return n.Sequential(
        n.Conv2d(2, 4, 3, padding=(1, 0), stride=(1, 2)), n.ReLU(), n.Conv2d(4, 6, 2, groups=2, bias=False),
        n.Flatten(), n.Linear(48, 3),
    )  # fmt: skip


def lines(n):
    return n.Sequential(n.Conv1d(2, 4, 3, padding="same"), n.Conv1d(4, 3, 2))


def attention(n):
    return n.Sequential(n.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True), n.Linear(8, 3))


SHAPES = {attention: (2, 5, 8), dense: (4, 6), table: (3, 4), filters: (2, 2, 5, 8), lines: (2, 2, 7)}
CASES = {
    "dense": (dense, {"target_modules": ["0", "2.0", "3"]}),
    "dense-rslora": (dense, {"target_modules": r".*0", "use_rslora": True}),
    "dense-dora": (dense, {"target_modules": ["0", "3"], "use_dora": True}),
    "dense-all": (dense, {"target_modules": "all-linear"}),
    "dense-patterns": (
        dense,
        {"target_modules": ["0", "3"], "rank_pattern": {"3": 3}, "alpha_pattern": {"0": 5}},
    ),
    "dense-copies": (dense, {"target_modules": ["0"], "modules_to_save": ["1", "3"]}),
    "dense-bias": (dense, {"target_modules": ["0"], "bias": "lora_only"}),
    "dense-biases": (dense, {"target_modules": ["0"], "bias": "all"}),
    "table": (table, {"target_modules": ["0", "1"]}),
    "table-dora": (table, {"target_modules": ["0"], "use_dora": True}),
    "filters": (filters, {"target_modules": ["0", "4"]}),
    "filters-dora": (filters, {"target_modules": ["0"], "use_dora": True}),
    "filters-groups": (filters, {"target_modules": ["2"]}),
    "lines-dora": (lines, {"target_modules": ["0", "1"], "use_dora": True}),
}
MARKS = [pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning"),
         pytest.mark.filterwarnings("ignore:LoRA adapter added to ConvNd layer with groups:UserWarning")]  # fmt: skip
pytestmark = MARKS


def pair(make, rng, dtype):
    """Return the same model of either library, and the input."""
    theirs = make(torch.nn).to(getattr(torch, dtype))
    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(torch.from_numpy(rng.normal(size=tuple(p.shape))))
    ours = make(nn).to(dtype=dtype)
    ours.load_state_dict(theirs.state_dict())
    shape = SHAPES[make]
    x = rng.integers(0, 11, shape) if make is table else rng.normal(size=shape).astype(dtype)
    return ours, theirs, x


def randomise(parameters, rng):
    for p in parameters:
        if p.requires_grad:
            noise = rng.normal(size=tuple(p.shape)) * 0.3 + 0.1
            if isinstance(p, torch.Tensor):
                with torch.no_grad():
                    p.copy_(torch.from_numpy(noise))
            else:
                with grilly.no_grad():
                    p.copy_(grilly.asarray(noise).to(p.device, p.dtype))


def entered(x, device="cpu"):
    """Return an array as a tensor of ours with the array's own dtype."""
    return grilly.asarray(x, dtype=str(x.dtype), device=device)


def agree(ours, theirs, atol):
    right = theirs.detach().numpy()
    scale = max(1.0, float(np.abs(right).max()))
    assert np.abs(ours.detach().numpy() - right).max() <= atol * scale


def same_gradients(ours, theirs, x, atol, device):
    """Compare outputs and the gradients of everything that is trained, by the order in which both list it."""
    y, right = ours(entered(x, device)), theirs(torch.from_numpy(x))
    agree(y, right, atol)
    (y * y).sum().backward()
    (right * right).sum().backward()
    found = {_short(n): p.grad for n, p in ours.named_parameters() if p.requires_grad}
    wanted = {_short(n): p.grad for n, p in theirs.named_parameters() if p.requires_grad}
    assert set(found) == set(wanted)
    for name, g in wanted.items():
        agree(found[name].reshape(tuple(g.shape)), g, 10 * atol)


def _short(name):
    """Return the layer and the role of a parameter, which both libraries spell differently."""
    for part in ("base_model.model.", "model.", ".default", ".adapters", ".copies", ".modules_to_save", ".weight",
                 "embedding_"):  # fmt: skip
        name = name.replace(part, "")
    return name.replace("lora_magnitude_vector", "magnitude")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", CASES)
def test_peft_opens_our_file(rng, tmp_path, case, place):
    need(place)
    device, dtype, atol, _ = PLACES[place]
    make, settings = CASES[case]
    ours, theirs, x = pair(make, rng, dtype)
    model = LoRAModel(ours, LoRAConfig(rank=2, alpha=3, **settings)).to(device)
    randomise(model.parameters(), rng)
    folder = model.save_pretrained(tmp_path)
    loaded = peft.PeftModel.from_pretrained(
        theirs, str(folder), is_trainable=True, autocast_adapter_dtype=False
    )
    same_gradients(model, loaded, x, atol, device)
    if case != "filters-groups":
        model.merge_weights()
        loaded.merge_adapter()
        agree(model(entered(x, device)), loaded(torch.from_numpy(x)), 2 * atol)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", CASES)
def test_we_open_pefts_file(rng, tmp_path, case, place):
    need(place)
    device, dtype, atol, _ = PLACES[place]
    make, settings = CASES[case]
    ours, theirs, x = pair(make, rng, dtype)
    config = peft.LoraConfig(r=2, lora_alpha=3, **settings)
    model = peft.get_peft_model(theirs, config, autocast_adapter_dtype=False)
    randomise(model.parameters(), rng)
    model.save_pretrained(tmp_path)
    loaded = LoRAModel.from_pretrained(ours.to(device), tmp_path)
    same_gradients(loaded, model, x, atol, device)


def test_mixtures_are_pefts_concatenations(rng, tmp_path):
    ours, theirs, x = pair(dense, rng, "float64")
    model = LoRAModel(ours, LoRAConfig(rank=2, alpha=3, target_modules=["0", "3"]), "a")
    randomise(model.parameters(), rng)
    model.add_adapter("b", LoRAConfig(rank=3, target_modules=["0", "3"], use_rslora=True))
    randomise(model.parameters(), rng)
    folders = {name: str(model.save_pretrained(tmp_path / name, name)) for name in "ab"}
    right = peft.PeftModel.from_pretrained(theirs, folders["a"], "a", autocast_adapter_dtype=False)
    right.load_adapter(folders["b"], "b", autocast_adapter_dtype=False)
    right.add_weighted_adapter(["a", "b"], [0.3, 0.7], "both", combination_type="cat")
    right.set_adapter("both")
    agree(model.mix({"a": 0.3, "b": 0.7})(entered(x)), right(torch.from_numpy(x)), 1e-9)


def test_counts_are_pefts(rng):
    for make, settings in CASES.values():
        ours, theirs, _ = pair(make, rng, "float32")
        model = LoRAModel(ours, LoRAConfig(rank=2, **settings))
        right = peft.get_peft_model(theirs, peft.LoraConfig(r=2, **settings))
        assert model.get_nb_trainable_parameters() == right.get_nb_trainable_parameters()


def test_first_values_have_pefts_distribution(rng):
    grilly.manual_seed(0)
    torch.manual_seed(0)
    for ours, theirs in (("kaiming", True), ("gaussian", "gaussian")):
        model = LoRAModel(
            nn.Sequential(nn.Linear(400, 300)), LoRAConfig(16, target_modules=["0"], init_lora_weights=ours)
        )
        config = peft.LoraConfig(r=16, target_modules=["0"], init_lora_weights=theirs)
        right = peft.get_peft_model(torch.nn.Sequential(torch.nn.Linear(400, 300)), config)
        a = model.get_layer("0").adapters["default"].lora_A.detach().numpy()
        b = right.base_model.model[0].lora_A["default"].weight.detach().numpy()
        assert stats.ks_2samp(a.ravel(), b.ravel()).pvalue > 1e-3


def test_training_follows_pefts(rng, tmp_path):
    ours, theirs, x = pair(dense, rng, "float64")
    model = LoRAModel(ours, LoRAConfig(rank=2, target_modules=["0", "3"], use_dora=True))
    randomise(model.parameters(), rng)
    folder = model.save_pretrained(tmp_path)
    right = peft.PeftModel.from_pretrained(
        theirs, str(folder), is_trainable=True, autocast_adapter_dtype=False
    )
    steps = grilly.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    right_steps = torch.optim.Adam([p for p in right.parameters() if p.requires_grad], lr=1e-2)
    for _ in range(20):
        steps.zero_grad()
        right_steps.zero_grad()
        loss, wanted = (model(entered(x)) ** 2).mean(), (right(torch.from_numpy(x)) ** 2).mean()
        loss.backward()
        wanted.backward()
        steps.step()
        right_steps.step()
        assert loss.item() == pytest.approx(wanted.item(), rel=1e-8)


@pytest.mark.parametrize("place", PLACES)
def test_fused_projections_have_updated_weights(rng, place):
    """Oracle: PyTorch's layer with the weights ``W + scaling * B @ A``. peft 0.21 adds that of `out_proj` twice."""
    need(place)
    device, dtype, atol, _ = PLACES[place]
    ours, theirs, x = pair(attention, rng, dtype)
    model = LoRAModel(ours, LoRAConfig(rank=2, alpha=3, target_modules=["self_attn"])).to(device)
    randomise(model.parameters(), rng)
    cells = {n: [torch.tensor(p.detach().numpy(), requires_grad=True) for p in (m.adapters["default"].lora_A,
             m.adapters["default"].lora_B)] for n, m in model.lora_layers().items()}  # fmt: skip
    weights = dict(theirs.named_parameters())
    for name, weight in (("0.self_attn", "in_proj_weight"), ("0.self_attn.base_layer.out_proj", "weight")):
        a, b = cells[name]
        key = f"{name}.{weight}".replace("base_layer.", "")
        weights[key] = weights[key].detach() + 1.5 * b @ a
    right = torch.func.functional_call(theirs, weights, torch.from_numpy(x))
    y = model(entered(x, device))
    agree(y, right, atol)
    (y * y).sum().backward()
    (right * right).sum().backward()
    for name, layer in model.lora_layers().items():
        for p, q in zip(layer.lora_parameters(), cells[name], strict=True):
            agree(p.grad, q.grad, 10 * atol)
    model.merge_weights()
    agree(model(entered(x, device)), right, 2 * atol)


@pytest.mark.parametrize("bias", ["none", "lora_only", "all"])
def test_files_of_fused_projections_are_pefts(rng, tmp_path, bias):
    """The same names and shapes, and each reads the other's file."""
    ours, theirs, _ = pair(attention, rng, "float32")
    settings = {"target_modules": ["self_attn", "1"], "bias": bias}
    model = LoRAModel(ours, LoRAConfig(rank=2, alpha=3, **settings))
    right = peft.get_peft_model(theirs, peft.LoraConfig(r=2, lora_alpha=3, **settings))
    assert model.get_nb_trainable_parameters() == right.get_nb_trainable_parameters()
    randomise(model.parameters(), rng)
    model.save_pretrained(tmp_path / "ours")
    right.save_pretrained(tmp_path / "theirs")
    names = [safetensors.load_file(tmp_path / f / "adapter_model.safetensors") for f in ("ours", "theirs")]
    assert {k: v.shape for k, v in names[0].items()} == {k: v.shape for k, v in names[1].items()}
    LoRAModel.from_pretrained(attention(nn), tmp_path / "theirs")
    loaded = peft.PeftModel.from_pretrained(attention(torch.nn), str(tmp_path / "ours"))
    state = peft.get_peft_model_state_dict(loaded)
    for key, value in names[0].items():
        assert (state[key].numpy() == value).all()
