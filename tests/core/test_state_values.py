"""What stands in a state dict in place of a tensor is named with its key, and nothing is loaded."""

from __future__ import annotations

import pytest

import grilly_core as grilly
from grilly_core import nn
from grilly_core.errors import StateDictError


@pytest.mark.parametrize("value", ["foo", None, object(), {"a": 1}])
@pytest.mark.parametrize("key", ["0.weight", "1.num_batches_tracked"])
def test_what_is_no_tensor_is_named(key, value):
    """Oracle: the weights before."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    before = {name: t.tolist() for name, t in model.state_dict().items()}
    given = {name: grilly.ones_like(t) for name, t in model.state_dict().items()}
    with pytest.raises(StateDictError, match=f"{key}: expected a tensor; received {type(value).__name__}"):
        model.load_state_dict({**given, key: value})
    assert {name: t.tolist() for name, t in model.state_dict().items()} == before
