"""What a module registers, saves, loads, hooks and goes back through."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import nn
from grilly_core.errors import AutogradError, StateDictError


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.rest = [nn.Linear(3, 3), {"a": (nn.ReLU(), nn.Linear(3, 1))}]
        self.scale = nn.Parameter(grilly.ones(1))
        self.register_buffer("count", grilly.tensor(0))
        self.register_buffer("scratch", grilly.zeros(2), persistent=False)

    def forward(self, x):
        x = self.rest[0](self.first(x))
        for layer in self.rest[1]["a"]:
            x = layer(x)
        return x * self.scale


def test_modules_in_lists_tuples_and_dicts_are_registered():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [
        "scale", "first.weight", "first.bias", "rest.0.weight", "rest.0.bias", "rest.1.a.1.weight", "rest.1.a.1.bias",
    ]  # fmt: skip
    assert [n for n, _ in net.named_modules()] == ["", "first", "rest.0", "rest.1.a.0", "rest.1.a.1"]
    assert [n for n, _ in net.named_children()] == ["first", "rest.0", "rest.1.a.0", "rest.1.a.1"]
    assert net.get_submodule("rest.1.a.1") is net.rest[1]["a"][1]
    assert net.get_parameter("rest.0.bias") is net.rest[0].bias
    assert net.get_buffer("count") is net.count
    net.rest.append(nn.Linear(1, 1))  # containers are read when asked, so later changes count
    assert "rest.2.weight" in net.state_dict()


def test_a_container_that_holds_itself_ends():
    net = nn.Module()
    net.items = [nn.ReLU()]
    net.items.append(net.items)
    assert len(list(net.modules())) == 2


def test_attributes_before_super_init_and_reassignment():
    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)
            super().__init__()

    assert len(list(Early().parameters())) == 2
    net = nn.Module()
    net.x = nn.Linear(1, 1)
    net.x = nn.ReLU()
    assert list(net.parameters()) == []
    del net.x
    assert list(net.children()) == [] and not hasattr(net, "x")
    net.p = nn.Parameter(grilly.ones(1))
    net.p = None
    assert net.p is None and list(net.parameters()) == []
    net.p = nn.Parameter(grilly.ones(2))
    assert [n for n, _ in net.named_parameters()] == ["p"]


def test_a_registered_name_keeps_its_kind():
    net = Net()
    with pytest.raises(TypeError, match="registered parameter"):
        net.scale = grilly.ones(1)
    with pytest.raises(TypeError, match="registered buffer"):
        net.count = [1]
    net.count = grilly.tensor(5)
    assert net.state_dict()["count"].item() == 5
    with pytest.raises(KeyError, match="dots"):
        net.register_buffer("a.b", grilly.ones(1))
    with pytest.raises(KeyError, match="already"):
        net.register_parameter("forward", None)


def test_buffers_and_persistence():
    net = Net()
    assert [n for n, _ in net.named_buffers()] == ["count", "scratch"]
    assert "scratch" not in net.state_dict() and "count" in net.state_dict()


def test_shared_parameter_is_listed_once_and_saved_under_both_names():
    net = nn.Module()
    net.a = nn.Linear(2, 2, bias=False)
    net.b = nn.Linear(2, 2, bias=False)
    net.b.weight = net.a.weight
    assert [n for n, _ in net.named_parameters()] == ["a.weight"]
    assert [n for n, _ in net.named_parameters(remove_duplicate=False)] == ["a.weight", "b.weight"]
    assert list(net.state_dict()) == ["a.weight", "b.weight"]


def test_state_dict_is_a_snapshot():
    net = nn.Linear(2, 2)
    saved = net.state_dict()
    before = saved["weight"].tolist()
    opt = grilly.optim.SGD(net.parameters(), lr=1.0, momentum=0.9)
    for _ in range(3):
        net(grilly.ones((1, 2))).sum().backward()
        opt.step()
    assert saved["weight"].tolist() == before != net.weight.tolist()
    net.load_state_dict(saved)
    assert net.weight.tolist() == before


def test_round_trip_changes_what_forward_computes():
    a, b, x = Net(), Net(), grilly.ones((1, 2))
    assert a(x).item() != b(x).item()
    assert b.load_state_dict(a.state_dict()) == ([], [])
    assert a(x).item() == b(x).item()


def test_strict_names_and_reports():
    net = nn.Linear(2, 2)
    with pytest.raises(StateDictError, match=r"(?s)bias: missing.*extra: unexpected"):
        net.load_state_dict({"weight": np.ones((2, 2)), "extra": np.ones(1)})
    report = net.load_state_dict({"weight": np.ones((2, 2)), "extra": np.ones(1)}, strict=False)
    assert report.missing_keys == ["bias"] and report.unexpected_keys == ["extra"]
    assert net.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("strict", [True, False])
def test_shapes_that_do_not_fit_load_nothing(strict):
    """OPT-04: a shape mismatch is an error, strict or not, that names the key and both shapes."""
    net = nn.Conv2d(64, 32, 1)
    before = net.bias.tolist(), net.weight.tolist()
    state = nn.Conv2d(64, 1, 1).state_dict()
    with pytest.raises(StateDictError, match=r"weight: .*\(32, 64, 1, 1\).*\(1, 64, 1, 1\)"):
        net.load_state_dict({"bias": np.zeros(32), "weight": state["weight"]}, strict=strict)
    assert (net.bias.tolist(), net.weight.tolist()) == before


def test_train_eval_zero_grad_and_freezing():
    net = Net()
    assert net.eval() is net and not net.rest[1]["a"][0].training
    net.train()
    net(grilly.ones((1, 2))).sum().backward()
    net.zero_grad(set_to_none=False)
    assert net.scale.grad.tolist() == [0.0]
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.requires_grad_(False)
    assert not net(grilly.ones((1, 2))).requires_grad


def test_to_keeps_the_objects_and_their_gradients():
    net = nn.BatchNorm1d(2)
    weight = net.weight
    net(grilly.rand(4, 2)).sum().backward()
    net.double()
    assert net.weight is weight and weight.dtype is grilly.float64 and weight.grad.dtype is grilly.float64
    assert net.running_mean.dtype is grilly.float64 and net.num_batches_tracked.dtype is grilly.int32
    with pytest.raises(TypeError, match="floating"):
        net.to("int32")


def test_apply_visits_children_first():
    seen = []
    nn.Sequential(nn.ReLU(), nn.Tanh()).apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["ReLU", "Tanh", "Sequential"]


def test_repr_is_a_tree():
    text = repr(nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU())))
    assert text == (
        "Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (1): Sequential(\n    (0): ReLU()\n  )\n)"
    )


def test_forward_hooks_in_order_and_removal():
    layer, calls = nn.Identity(), []
    layer.register_forward_pre_hook(lambda m, args: calls.append("pre"))
    layer.register_forward_pre_hook(lambda m, args: (args[0] + 1,), prepend=True)
    handle = layer.register_forward_hook(lambda m, args, out: out * 10)
    assert layer(grilly.tensor(1.0)).item() == 20.0 and calls == ["pre"]
    handle.remove()
    assert layer(grilly.tensor(1.0)).item() == 2.0
    with layer.register_forward_hook(lambda m, args, kwargs, out: out - 1, with_kwargs=True):
        assert layer(grilly.tensor(1.0)).item() == 1.0


def test_backward_hooks_see_and_change_gradients():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    seen = {}

    def hook(module, grad_input, grad_output):
        seen["hook"] = (grad_input[0].tolist(), grad_output[0].tolist())
        return (grad_input[0] * 2.0,)

    model[1].register_full_backward_hook(hook)
    model[1].register_full_backward_pre_hook(lambda m, g: (g[0] * 3.0,))
    model.load_state_dict({"0.weight": np.eye(2)})
    x = grilly.tensor([[1.0, 2.0]], requires_grad=True)
    model(x).sum().backward()
    assert seen["hook"] == ([[3.0, 3.0]], [[3.0, 3.0]])
    assert x.grad.tolist() == [[6.0, 6.0]]


def test_backward_hook_without_input_gradients():
    layer, seen = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].tolist())))
    layer(grilly.ones((1, 2))).sum().backward()
    assert seen == [((None,), [[1.0]])]


def test_explicit_backward_equals_the_tape():
    net, x = Net(), np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    g = np.ones((4, 1), np.float32)
    a = grilly.asarray(x).requires_grad_()
    net(a).backward(grilly.asarray(g))
    want = {n: p.grad.tolist() for n, p in net.named_parameters()}
    net.zero_grad()
    net(x)
    gx = net.backward(g)
    assert gx.tolist() == a.grad.tolist()
    assert {n: p.grad.tolist() for n, p in net.named_parameters()} == want


def test_explicit_backward_chains_by_hand_without_counting_twice():
    enc, dec = nn.Linear(2, 2), nn.Linear(2, 1)
    x = grilly.ones((1, 2))
    dec(enc(x)).backward(grilly.ones((1, 1)))
    want = enc.weight.grad.tolist()
    enc.zero_grad(), dec.zero_grad()
    dec(enc(x))
    enc.backward(dec.backward(grilly.ones((1, 1))))
    assert enc.weight.grad.tolist() == want


def test_explicit_backward_needs_a_kept_output():
    layer, x, g = nn.Linear(1, 1), grilly.ones((1, 1)), grilly.ones((1, 1))
    for spoil in (
        lambda: None,
        lambda: (layer(x), layer.backward(g)),
        lambda: (layer(x), layer.eval(), layer.train()),
        lambda: grilly.no_grad(lambda: layer(x))(),
        lambda: (layer(x), grilly.no_grad(lambda: layer(x))()),
    ):
        spoil()
        with pytest.raises(AutogradError, match="no forward pass"):
            layer.backward(g)
    outer = nn.Sequential(layer)
    outer(x)
    with pytest.raises(AutogradError, match="no forward pass"):
        layer.backward(g)  # only the outermost call keeps its output
    outer.backward(g)


def test_an_error_in_forward_leaves_the_next_call_outermost():
    layer = nn.Linear(2, 1)
    with pytest.raises(ValueError, match="linear"):
        layer(grilly.ones((1, 3)))
    layer(grilly.ones((1, 2)))
    layer.backward(grilly.ones((1, 1)))


def test_deepcopy_and_pickle_are_independent():
    net = Net()
    twin = copy.deepcopy(net)
    with grilly.no_grad():
        net.scale.fill_(7.0)
    net.count.fill_(3)
    assert twin.scale.item() == 1.0 and twin.count.item() == 0
    assert twin.rest[0] is not net.rest[0] and twin.scale.requires_grad
    loaded = pickle.loads(pickle.dumps(net))
    x = grilly.ones((2, 2))
    assert loaded(x).tolist() == net(x).tolist() and loaded.count.item() == 3


def test_containers():
    layers = nn.ModuleList([nn.ReLU()])
    layers.append(nn.Tanh()).insert(0, nn.Identity())
    assert [type(m).__name__ for m in layers] == ["Identity", "ReLU", "Tanh"]
    del layers[1]
    assert len(layers[1:]) == 1 and [n for n, _ in layers.named_children()] == ["0", "1"]
    with pytest.raises(TypeError, match="expected a Module"):
        layers.append(3)
    seq = nn.Sequential({"a": nn.Linear(1, 1), "b": nn.ReLU()})
    assert list(seq.state_dict()) == ["a.weight", "a.bias"] and len(seq[1:]) == 1
    seq.append(nn.Tanh())
    assert len(seq) == 3 and isinstance(seq[-1], nn.Tanh)
    heads = nn.ModuleDict({"x": nn.ReLU()})
    heads["y"] = nn.Tanh()
    assert list(heads) == ["x", "y"] and heads.pop("x") and len(heads) == 1
    with pytest.raises(KeyError):
        heads["keys"] = nn.ReLU()
    assert [n for n, _ in nn.ParameterList([grilly.ones(1)]).named_parameters()] == ["0"]
    assert [n for n, _ in nn.ParameterDict({"w": grilly.ones(1)}).named_parameters()] == ["w"]


def test_parameter_is_a_cell_of_its_own():
    source = grilly.ones(2)
    p = nn.Parameter(source)
    with grilly.no_grad():
        p.fill_(3.0)
    assert source.tolist() == [1.0, 1.0] and p.tolist() == [3.0, 3.0]
    with pytest.raises(TypeError, match="requires_grad=False"):
        nn.Parameter(grilly.tensor([1]))
    assert not nn.Parameter(grilly.tensor([1]), requires_grad=False).requires_grad


def test_arrays_enter_a_module_as_tensors():
    class Flat(nn.Module):
        def forward(self, x):
            return x.flatten(1)

    assert Flat()(np.ones((2, 3, 4), np.float32)).shape == (2, 12)
    assert Flat().eval()(np.ones((2, 3, 4))).shape == (2, 12)


def test_modules_that_share_a_seed_differ_and_a_seed_repeats():
    grilly.manual_seed(3)
    a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    grilly.manual_seed(3)
    c = nn.Linear(4, 4)
    assert a.weight.tolist() != b.weight.tolist() and a.weight.tolist() == c.weight.tolist()


def test_arguments_are_checked():
    for make, message in (
        (lambda: nn.Linear(0, 2), "in_features"),
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "groups"),
        (lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"), "stride 1"),
        (lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror"), "padding_mode"),
        (lambda: nn.Conv1d(3, 4, (3, 3)), "kernel_size"),
        (lambda: nn.Dropout(1.5), "p must"),
        (lambda: nn.MSELoss("avg"), "reduction"),
        (lambda: nn.GroupNorm(2, 3), "divide"),
        (lambda: nn.MaxPool2d(2, padding=2)(grilly.ones((1, 1, 4, 4))), "half"),
        (lambda: nn.MSELoss()(grilly.ones(2), grilly.ones(3)), "one shape"),
        (lambda: nn.CrossEntropyLoss()(grilly.ones((2, 3)), grilly.tensor([0])), "target"),
        (lambda: nn.Linear(2, 2)(grilly.ones((2, 3))), r"\(2, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
