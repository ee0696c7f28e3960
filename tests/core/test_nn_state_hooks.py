"""Extra state and hooks round state dicts, as PyTorch documents them."""

from __future__ import annotations

import pytest

import grilly
from grilly import nn


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(grilly.ones(2))
        self.count = 0

    def get_extra_state(self):
        return {"count": self.count}

    def set_extra_state(self, state):
        self.count = state["count"]


def test_extra_state_goes_along():
    model = nn.Sequential(nn.Linear(2, 2), Counter())
    model[1].count = 7
    saved = model.state_dict()
    assert saved["1._extra_state"] == {"count": 7}
    other = nn.Sequential(nn.Linear(2, 2), Counter())
    assert other.load_state_dict(saved) == ([], [])
    assert other[1].count == 7
    del saved["1._extra_state"]
    with pytest.raises(grilly.StateDictError, match="1._extra_state: missing"):
        other.load_state_dict(saved)
    assert other.load_state_dict(saved, strict=False).missing_keys == ["1._extra_state"]


def test_a_module_without_extra_state_says_what_to_override():
    with pytest.raises(NotImplementedError, match="override get_extra_state"):
        nn.Linear(1, 1).get_extra_state()


def test_hooks_around_saving():
    seen = []
    model = nn.Sequential(nn.Linear(1, 1))
    model[0].register_state_dict_pre_hook(lambda module, prefix, keep_vars: seen.append((prefix, keep_vars)))
    handle = model[0].register_state_dict_post_hook(
        lambda module, state, prefix, meta: state.update({prefix + "scale": 3})
    )
    assert model.state_dict(prefix="net.")["net.0.scale"] == 3
    assert seen == [("net.0.", False)]
    handle.remove()
    assert "0.scale" not in model.state_dict()


def test_a_hook_renames_old_keys():
    model = nn.Sequential(nn.Linear(1, 1))

    def rename(module, state, prefix, meta, strict, missing, unexpected, errors):
        if prefix + "kernel" in state:
            state[prefix + "weight"] = state.pop(prefix + "kernel")

    model[0].register_load_state_dict_pre_hook(rename)
    old = {"0.kernel": grilly.full((1, 1), 5.0), "0.bias": grilly.zeros(1)}
    told = []
    model.register_load_state_dict_post_hook(lambda module, keys: told.append(keys))
    model.load_state_dict(old)
    assert model[0].weight.item() == 5.0
    assert "0.kernel" in old
    assert told == [([], [])]


def test_an_error_that_a_hook_adds_stops_the_load():
    model = nn.Linear(1, 1)
    before = model.weight.item()
    model.register_load_state_dict_pre_hook(lambda *a: a[-1].append("weight: written by an older release"))
    with pytest.raises(grilly.StateDictError, match="older release"):
        model.load_state_dict({"weight": grilly.full((1, 1), 9.0), "bias": grilly.zeros(1)})
    assert model.weight.item() == before
