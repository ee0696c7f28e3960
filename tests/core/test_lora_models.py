"""Models with adapters: what is adapted, switched, merged, saved and refused. Exact equality is the oracle."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys

import numpy as np
import pytest

import grilly_core as grilly
from grilly.demos.digits import build_model
from grilly_core import nn
from grilly_core.errors import FileFormatError, StateDictError
from grilly_core.lora import LoRAConfig, LoRAModel, get_peft_model


@pytest.fixture
def rng():
    grilly.manual_seed(7)
    return np.random.default_rng(7)


def values(tensor):
    return tensor.detach().numpy(copy=True)


def images(rng):
    return grilly.asarray(rng.normal(size=(3, 1, 8, 8)).astype(np.float32))


def randomise(model, rng, name="default"):
    for layer in model.lora_layers().values():
        if name in layer.adapters:
            for p in layer.adapters[name].parameters():
                with grilly.no_grad():
                    p.copy_(grilly.asarray(rng.normal(size=p.shape).astype(np.float32) * 0.1 + 0.05))


class Net(nn.Module):
    """Layers in a list, a tuple and a dict, one of them used twice, and a table."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 4)
        self.blocks = [nn.Linear(4, 4), (nn.ReLU(), nn.Linear(4, 4))]
        self.more = {"q_proj": nn.Linear(4, 4)}
        self.again = self.more["q_proj"]
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 3)

    def forward(self, ids):
        x = self.blocks[0](self.table(ids))
        for layer in self.blocks[1]:
            x = layer(x)
        return self.head(self.norm(self.again(self.more["q_proj"](x))))


EVERY = ["table", "blocks.0", "blocks.1.1", "more.q_proj"]


def test_a_small_rank_trains_two_percent_of_the_digits_model(rng):
    model = LoRAModel(build_model(), LoRAConfig(rank=1, target_modules=["3", "7"]))
    learnt, total = model.get_nb_trainable_parameters()
    base = sum(p.numel() for p in build_model().parameters())
    assert learnt == (32 * 9 + 64) + (256 + 10)
    assert total == base + learnt
    assert learnt <= 0.04 * base  # the whole model has but 21,000 numbers
    model = LoRAModel(build_model(), LoRAConfig(rank=1, target_modules=["3"]))
    assert model.get_nb_trainable_parameters()[0] <= 0.02 * base


def test_training_the_digits_model_moves_the_adapters_alone(rng):
    model = LoRAModel(build_model(), LoRAConfig(rank=2, target_modules=["0", "3", "7"]))
    before = {n: values(t) for n, t in model.state_dict().items()}
    x, y = images(rng), grilly.asarray([1, 5, 7])
    optimizer = grilly.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = grilly.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    changed = {n for n, t in model.state_dict().items() if not np.array_equal(values(t), before[n])}
    assert changed == {n for n in before if ".lora_" in n}


@pytest.mark.parametrize("dora", [False, True])
def test_the_digits_model_merges_and_comes_back(rng, dora):
    model = LoRAModel(build_model(), LoRAConfig(rank=2, target_modules=r"[037]", use_dora=dora)).eval()
    randomise(model, rng)
    x = images(rng)
    before = {n: values(t) for n, t in model.state_dict().items()}
    output = values(model(x))
    with model.disable_adapter():
        base = values(model(x))
    assert np.abs(output - base).max() > 1e-2
    model.merge_weights()
    assert values(model(x)) == pytest.approx(output, rel=1e-6, abs=1e-6 * float(np.abs(output).max()))
    with pytest.warns(UserWarning, match="merged already"):
        model.merge_weights()
    with model.disable_adapter():
        assert np.array_equal(values(model(x)), base)
    assert model.merged
    model.unmerge_weights()
    with pytest.warns(UserWarning, match="nothing is merged"):
        model.unmerge_weights()
    assert np.array_equal(values(model(x)), output)
    assert all(np.array_equal(values(t), before[n]) for n, t in model.state_dict().items())


def test_layers_in_containers_and_layers_used_twice_are_adapted(rng):
    net = Net()
    ids = grilly.asarray(rng.integers(0, 9, (2, 5)))
    base = values(net(ids))
    model = LoRAModel(net, LoRAConfig(rank=2, target_modules=EVERY))
    assert list(model.lora_layers()) == EVERY
    assert net.again is net.more["q_proj"] is model.get_layer("more.q_proj")
    assert np.array_equal(values(model(ids)), base)
    randomise(model, rng)
    output = values(model(ids))
    merged = model.merge_and_unload()
    assert merged is net
    assert [type(m).__name__ for m in net.modules() if "LoRA" in type(m).__name__] == []
    assert isinstance(net.again, nn.Linear)
    assert values(net(ids)) == pytest.approx(output, rel=1e-5, abs=1e-5)
    fresh = Net()
    fresh.load_state_dict(net.state_dict())
    assert np.array_equal(values(fresh(ids)), values(net(ids)))


def test_unloading_gives_the_model_back(rng):
    net = Net()
    ids = grilly.asarray(rng.integers(0, 9, (2, 5)))
    base, names = values(net(ids)), list(net.state_dict())
    model = LoRAModel(net, LoRAConfig(rank=2, target_modules=EVERY, modules_to_save=["head"]))
    randomise(model, rng)
    model.merge_weights()
    assert list(model.unload().state_dict()) == names
    assert np.array_equal(values(net(ids)), base)


def test_names_are_suffixes_or_one_regular_expression():
    def adapted(**settings):
        return list(LoRAModel(Net(), LoRAConfig(rank=2, **settings)).lora_layers())

    assert adapted(target_modules=["q_proj", "head"]) == ["more.q_proj", "head"]
    assert adapted(target_modules=r"blocks\.(0|1\.1)") == ["blocks.0", "blocks.1.1"]
    linear = ["blocks.0", "blocks.1.1", "more.q_proj", "head"]
    assert adapted(target_modules="all-linear") == linear
    assert adapted(target_modules="all-linear", exclude_modules=["head"]) == linear[:-1]
    assert adapted(target_modules="all-linear", modules_to_save=["head"]) == linear[:-1]
    model = LoRAModel(
        Net(),
        LoRAConfig(
            2, 8, target_modules="all-linear", rank_pattern={"q_proj": 4}, alpha_pattern={r"blocks\..*": 1}
        ),
    )
    found = {
        n: (a.adapters["default"].rank, a.adapters["default"].scaling) for n, a in model.lora_layers().items()
    }
    assert found == {"blocks.0": (2, 0.5), "blocks.1.1": (2, 0.5), "more.q_proj": (4, 2.0), "head": (2, 4.0)}


def test_names_that_match_nothing_are_refused_and_the_model_is_untouched():
    net = Net()
    for config, wanted in (
        (LoRAConfig(target_modules=["nope"]), r"nothing is called \('nope',\).*'blocks.0'"),
        (LoRAConfig(target_modules=r"nope.*"), "nothing is called 'nope"),
        (LoRAConfig(target_modules=["norm"]), "'norm' is a LayerNorm"),
        (LoRAConfig(target_modules=["head"], modules_to_save=["nope"]), "modules_to_save: nothing is called"),
    ):
        with pytest.raises(ValueError, match=wanted):
            get_peft_model(net, config)
    assert all(p.requires_grad for p in net.parameters())
    assert type(net.head) is nn.Linear
    with pytest.warns(UserWarning, match=r"nothing called \['nope'\]"):
        get_peft_model(net, LoRAConfig(target_modules=["head", "nope"]))


def test_switching_and_mixing(rng):
    model = LoRAModel(build_model(), LoRAConfig(rank=2, target_modules=["3", "7"]), "a").eval()
    model.add_adapter("b", LoRAConfig(rank=3, target_modules=["0", "7"], use_rslora=True))
    for name in "ab":
        randomise(model, rng, name)
    x = images(rng)
    seen = {name: values(model.set_adapter(name)(x)) for name in ("a", "b", "a")}
    assert np.abs(seen["a"] - seen["b"]).max() > 1e-2
    assert np.array_equal(values(model.mix({"b": 1.0})(x)), seen["b"])
    learnt = {n for n, p in model.named_parameters() if p.requires_grad}
    assert learnt == {n for n, _ in model.named_parameters() if ".adapters.b." in n}
    mixed = values(model.mix({"a": 0.3, "b": 0.7})(x))
    model.merge_weights()
    assert values(model(x)) == pytest.approx(mixed, rel=1e-5, abs=1e-5)
    with pytest.raises(RuntimeError, match="unmerge_weights"):
        model.set_adapter("a")
    model.unmerge_weights()
    layer = model.get_layer("7")
    head = values(layer.base_layer.weight).astype(np.float64)
    for name, share in (("a", 0.3), ("b", 0.7)):
        part = layer.adapters[name]
        head += share * part.scaling * values(part.lora_B) @ values(part.lora_A)
    assert values(layer.weight) == pytest.approx(head, rel=1e-5, abs=1e-6)
    assert np.array_equal(values(model.set_adapter(["a", "b"]).get_layer("3").weight),
                          values(model.set_adapter("a").get_layer("3").weight))  # fmt: skip
    model.delete_adapter("a")
    assert model.active_adapters == {}
    with pytest.raises(ValueError, match=r"called \['a'\]"):
        model.set_adapter("a")


def test_modules_to_save_are_trained_in_copies(rng):
    net = Net()
    ids = grilly.asarray(rng.integers(0, 9, (2, 5)))
    base = values(net(ids))
    model = LoRAModel(net, LoRAConfig(rank=2, target_modules=["q_proj"], modules_to_save=["head", "norm"]))
    model(ids).sum().backward()
    assert {n.split(".")[-1] for n, p in net.head.named_parameters() if p.grad is not None} == {
        "weight",
        "bias",
    }
    with grilly.no_grad():
        net.head.current.bias.add_(1.0)
    assert values(model(ids)) == pytest.approx(base + 1.0, abs=1e-6)
    with model.disable_adapter():
        assert np.array_equal(values(model(ids)), base)
    model.add_adapter("b", LoRAConfig(rank=2, target_modules=["q_proj"]))
    assert np.array_equal(values(model(ids)), base)
    model.add_adapter("c", LoRAConfig(rank=2, target_modules=["q_proj"], modules_to_save=["head"]))
    with pytest.raises(ValueError, match="copies do not mix"):
        model.mix({"default": 1.0, "c": 1.0})
    model.set_adapter("default")
    assert values(model.merge_and_unload()(ids)) == pytest.approx(base + 1.0, abs=1e-6)


def test_a_copy_holds_what_is_inside(rng):
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    model = LoRAModel(net, LoRAConfig(2, target_modules="all-linear", modules_to_save=["1", "1.0"]))
    assert list(model.lora_layers()) == ["0"]
    assert list(model.saved_modules()) == ["1"]
    model(grilly.ones((1, 4))).sum().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize(
    ("kind", "learnt"), [("none", set()), ("lora_only", {"3"}), ("all", {"0", "3", "7"})]
)
def test_biases_are_trained_as_asked(rng, kind, learnt):
    model = LoRAModel(build_model(), LoRAConfig(rank=2, target_modules=["3"], bias=kind))
    found = {n.split(".")[1] for n, p in model.named_parameters() if n.endswith("bias") and p.requires_grad}
    assert found == learnt
    if kind != "none":
        with pytest.raises(ValueError, match="first adapter"):
            model.add_adapter("b", LoRAConfig(rank=2, target_modules=["3"], bias=kind))


SETTINGS = {
    "plain": {"target_modules": EVERY},
    "dora": {"target_modules": EVERY, "use_dora": True, "use_rslora": True},
    "biases": {"target_modules": r"blocks\.(0|1\.1)", "bias": "all"},
    "copies": {"target_modules": ["q_proj"], "modules_to_save": ["head"], "rank_pattern": {"q_proj": 3}},
}


@pytest.mark.parametrize("which", SETTINGS)
def test_an_adapter_comes_back_from_its_files(rng, tmp_path, which):
    net = Net()
    twin = copy.deepcopy(net)
    ids = grilly.asarray(rng.integers(0, 9, (2, 5)))
    model = LoRAModel(net, LoRAConfig(rank=2, **SETTINGS[which]))
    for p in model.parameters():
        if p.requires_grad:
            with grilly.no_grad():
                p.copy_(grilly.asarray(rng.normal(size=p.shape).astype(np.float32) * 0.2 + 0.05))
    folder = model.save_pretrained(tmp_path / "adapter")
    assert sorted(p.name for p in folder.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    loaded = LoRAModel.from_pretrained(twin, folder, "back")
    assert np.array_equal(values(loaded(ids)), values(model(ids)))
    assert loaded.configs["back"] == model.configs["default"]
    learnt = {n.replace(".back", ".default") for n, p in loaded.named_parameters() if p.requires_grad}
    assert learnt == {n for n, p in model.named_parameters() if p.requires_grad}


def test_a_convolution_comes_back_in_a_new_process(rng, tmp_path):
    model = LoRAModel(build_model(), LoRAConfig(rank=2, target_modules=["0", "3", "7"], use_dora=True)).eval()
    base = grilly.io.save_file(model.model.state_dict(), tmp_path / "all.safetensors")
    plain = {
        k.replace(".base_layer", ""): v for k, v in grilly.io.load_file(base).items() if ".adapters" not in k
    }
    grilly.io.save_file(plain, tmp_path / "base.safetensors")
    randomise(model, rng)
    folder = model.save_pretrained(tmp_path / "adapter")
    x = images(rng)
    grilly.io.save_file({"x": x, "y": model(x)}, tmp_path / "case.safetensors")
    script = f"""
import grilly, numpy as np
from grilly.demos.digits import build_model
model = build_model()
model.load_state_dict(grilly.io.load_file({str(tmp_path / "base.safetensors")!r}))
case = grilly.io.load_file({str(tmp_path / "case.safetensors")!r})
loaded = grilly.lora.LoRAModel.from_pretrained(model, {str(folder)!r}).eval()
print(np.array_equal(loaded(case["x"]).detach().numpy(), case["y"].numpy()))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_the_names_in_a_file_are_pefts(rng, tmp_path):
    model = LoRAModel(Net(), LoRAConfig(2, 4, target_modules=["table", "q_proj"], use_dora=True))
    tensors = grilly.io.load_file(model.save_pretrained(tmp_path) / "adapter_model.safetensors")
    assert {n: tuple(t.shape) for n, t in tensors.items()} == {
        "base_model.model.more.q_proj.lora_A.weight": (2, 4),
        "base_model.model.more.q_proj.lora_B.weight": (4, 2),
        "base_model.model.more.q_proj.lora_magnitude_vector": (4,),
        "base_model.model.table.lora_embedding_A": (2, 9),
        "base_model.model.table.lora_embedding_B": (4, 2),
        "base_model.model.table.lora_magnitude_vector": (4,),
    }
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (settings["peft_type"], settings["r"], settings["lora_alpha"]) == ("LORA", 2, 4)


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def rename(folder, change):
    path = folder / "adapter_model.safetensors"
    tensors = {k: values(t) for k, t in grilly.io.load_file(path).items()}
    grilly.io.save_file({change(k): t for k, t in tensors.items()}, path)


DAMAGE = {
    "cut": (lambda f: (f / "adapter_model.safetensors").write_bytes(b"\x40"), FileFormatError, "truncated"),
    "not json": (lambda f: (f / "adapter_config.json").write_text("{"), FileFormatError, "not a JSON"),
    "a list": (lambda f: (f / "adapter_config.json").write_text("[]"), FileFormatError, "JSON object"),
    "another kind": (lambda f: edit(f / "adapter_config.json", lambda c: c.update(peft_type="IA3")),
                     FileFormatError, "'IA3'"),
    "unknown setting": (lambda f: edit(f / "adapter_config.json", lambda c: c.update(lora_bias=True)),
                        FileFormatError, "lora_bias"),
    "rank 0": (lambda f: edit(f / "adapter_config.json", lambda c: c.update(r=0)), FileFormatError, "rank"),
    "no rank": (lambda f: edit(f / "adapter_config.json", lambda c: c.pop("r")), FileFormatError, "'r' and"),
    "other rank": (lambda f: edit(f / "adapter_config.json", lambda c: c.update(r=3)), StateDictError,
                   r"needs shape \(3, 4\), the file has \(2, 4\)"),
    "foreign prefix": (lambda f: rename(f, lambda k: f"transformer.{k}"), StateDictError, "unexpected"),
    "a pickle": (lambda f: (f / "adapter_model.safetensors").rename(f / "adapter_model.bin"), FileFormatError,
                 "never loaded"),
    "other names": (lambda f: edit(f / "adapter_config.json", lambda c: c.update(target_modules=["x"])),
                    ValueError, "nothing is called"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_and_foreign_files_leave_the_model_untouched(rng, tmp_path, kind):
    damage, error, wanted = DAMAGE[kind]
    folder = LoRAModel(Net(), LoRAConfig(2, target_modules=["q_proj", "head"])).save_pretrained(
        tmp_path / "a"
    )
    damage(folder)
    net = Net()
    before = {n: values(t) for n, t in net.state_dict().items()}
    with pytest.raises(error, match=wanted):
        LoRAModel.from_pretrained(net, folder)
    assert list(net.state_dict()) == list(before)
    assert all(np.array_equal(values(t), before[n]) for n, t in net.state_dict().items())
    assert all(p.requires_grad for p in net.parameters())
    model = LoRAModel(net, LoRAConfig(2, target_modules=["q_proj"]), "first")
    names = list(model.state_dict())
    with pytest.raises(error, match=wanted):
        model.load_adapter(folder, "second")
    assert list(model.state_dict()) == names
    assert model.active_adapters == {"first": 1.0}


def test_keys_without_weight_or_prefix_are_understood(rng, tmp_path):
    model = LoRAModel(Net(), LoRAConfig(2, target_modules=["q_proj"]))
    randomise(model, rng)
    folder = model.save_pretrained(tmp_path)
    twin = Net()
    twin.load_state_dict({re.sub(r"\.base_layer", "", k): v for k, v in model.model.state_dict().items()
                          if ".adapters" not in k})  # fmt: skip
    rename(folder, lambda k: k.removesuffix(".weight"))
    ids = grilly.asarray([[1, 2]])
    right = values(model(ids))
    assert np.array_equal(values(LoRAModel.from_pretrained(copy.deepcopy(twin), folder)(ids)), right)
    rename(folder, lambda k: k.removeprefix("base_model.model."))
    assert np.array_equal(values(LoRAModel.from_pretrained(twin, folder)(ids)), right)


def test_wrong_uses_are_refused(rng, capsys):
    model = LoRAModel(Net(), LoRAConfig(2, target_modules=["q_proj"]))
    model.print_trainable_parameters()
    assert capsys.readouterr().out.startswith("trainable params: 16 || all params: ")
    for act, wanted in (
        (lambda: model.add_adapter("default", LoRAConfig(target_modules=["head"])), "already"),
        (lambda: model.add_adapter("a.b", LoRAConfig(target_modules=["head"])), "without dots"),
        (lambda: model.set_adapter("x"), "there are"),
        (lambda: model.delete_adapter("x"), "there are"),
        (lambda: model.save_pretrained("x", "x"), "there are"),
        (lambda: model.mix({}).save_pretrained("x"), "name an adapter"),
        (
            lambda: model.add_adapter("c", LoRAConfig(target_modules=["x"], modules_to_save=["q_proj"])),
            "adapters already",
        ),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=wanted):
            act()
    with pytest.raises(TypeError, match="LoRAConfig"):
        model.add_adapter("b", {"r": 2})
    with pytest.raises(KeyError, match="more.q_proj"):
        model.get_layer("head")
    assert model.head is model.model.head
    with pytest.raises(AttributeError):
        model.nothing  # noqa: B018
    model.set_adapter("default").disable_adapters()
    with pytest.raises(RuntimeError, match="enable_adapters"):
        model.merge_weights()
    model.enable_adapters()
    with grilly.no_grad():
        model.get_layer("more.q_proj").adapters["default"].lora_A.fill_(float("nan"))
    with pytest.raises(ValueError, match="NaN"):
        model.merge_weights()
    assert not model.merged


def test_layers_keep_their_modes(rng):
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    net[1].eval()
    model = LoRAModel(net, LoRAConfig(2, target_modules=["0"], modules_to_save=["1"]))
    assert model.training and net[2].training and net[0].adapters["default"].training
    assert not net[1].training and not net[1].current.training
    model.eval()
    assert not net[0].adapters["default"].training


def test_a_captured_step_trains_like_an_ordinary_one(rng):
    start = LoRAModel(build_model(), LoRAConfig(2, target_modules=["3", "7"], use_dora=True))
    randomise(start, rng)
    x, y = images(rng), grilly.asarray([1, 5, 7])
    found = []
    for captured in (False, True):
        model = copy.deepcopy(start)
        optimizer = grilly.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-3)

        def step(x, y, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = grilly.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = grilly.capture(step, state=(model, optimizer)) if captured else step
        found.append([run(x, y).item() for _ in range(6)])
    assert found[1] == pytest.approx(found[0], rel=1e-6)
    assert found[0][-1] < found[0][0]


def test_half_precision_files_load(rng, tmp_path):
    model = LoRAModel(Net().bfloat16(), LoRAConfig(2, target_modules=["q_proj"]))
    randomise(model, rng)
    model.bfloat16()
    folder = model.save_pretrained(tmp_path)
    stored = grilly.io.load_file(folder / "adapter_model.safetensors")
    assert {t.dtype.name for t in stored.values()} == {"bfloat16"}
    part = LoRAModel.from_pretrained(Net(), folder).get_layer("more.q_proj").adapters["default"]
    assert part.lora_A.dtype == grilly.float32
    right = model.get_layer("more.q_proj").adapters["default"].lora_A.to("float32")
    assert np.array_equal(values(part.lora_A), values(right))


def test_copies_and_pickles_keep_the_adapters(rng):
    import pickle

    model = LoRAModel(Net(), LoRAConfig(2, target_modules=EVERY, modules_to_save=["head"]))
    randomise(model, rng)
    ids = grilly.asarray([[1, 2]])
    right = values(model(ids))
    assert np.array_equal(values(copy.deepcopy(model)(ids)), right)
    assert np.array_equal(values(pickle.loads(pickle.dumps(model))(ids)), right)
