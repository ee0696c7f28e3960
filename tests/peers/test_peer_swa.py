"""PyTorch as the oracle of averaged weights."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import grilly_core as grilly  # noqa: E402
from grilly_core import nn  # noqa: E402
from grilly_core.optim import swa_utils  # noqa: E402

RULES = {
    "default": lambda s: {},
    "swa": lambda s: {"avg_fn": s.get_swa_avg_fn()},
    "swa-lists": lambda s: {"multi_avg_fn": s.get_swa_multi_avg_fn()},
    "ema": lambda s: {"avg_fn": s.get_ema_avg_fn(0.8)},
    "ema-lists": lambda s: {"multi_avg_fn": s.get_ema_multi_avg_fn(0.7)},
    "ema-buffers": lambda s: {"multi_avg_fn": s.get_ema_multi_avg_fn(0.7), "use_buffers": True},
    "own": lambda s: {"avg_fn": lambda a, c, n: a + (c - a) / (n + 3)},
}


def models():
    made = [m.Sequential(m.Linear(3, 4), m.BatchNorm1d(4), m.Linear(4, 2)) for m in (nn, torch.nn)]
    made[0].load_state_dict(made[1].state_dict())
    return made


def assert_equal(ours, theirs):
    mine, other = ours.state_dict(), theirs.state_dict()
    assert list(mine) == list(other)
    for key, value in mine.items():
        np.testing.assert_allclose(value.numpy(), other[key].numpy(), rtol=2e-6, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("name", RULES)
def test_averages_equal_torch(name):
    ours, theirs = models()
    a = swa_utils.AveragedModel(ours, **RULES[name](swa_utils))
    b = torch.optim.swa_utils.AveragedModel(theirs, **RULES[name](torch.optim.swa_utils))
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.normal(size=(5, 3)).astype(np.float32)
        ours(grilly.asarray(x)), theirs(torch.from_numpy(x))  # moves the statistics
        with grilly.no_grad(), torch.no_grad():
            for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
                step = rng.normal(size=p.shape).astype(np.float32)
                p.add_(grilly.asarray(step)), q.add_(torch.from_numpy(step))
        a.update_parameters(ours), b.update_parameters(theirs)
        assert_equal(a, b)
    x = rng.normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(
        a.eval()(grilly.asarray(x)).detach().numpy(),
        b.eval()(torch.from_numpy(x)).detach().numpy(),
        rtol=1e-4,
        atol=1e-5,
    )
    a.load_state_dict(b.state_dict())


def test_update_bn_equals_torch():
    ours, theirs = models()
    rng = np.random.default_rng(1)
    batches = [rng.normal(size=(n, 3)).astype(np.float32) for n in (6, 6, 3)]
    for model, module, make in (
        (ours, swa_utils, grilly.asarray),
        (theirs, torch.optim.swa_utils, torch.from_numpy),
    ):
        model.eval()
        module.update_bn([(make(x), None) for x in batches], model)
        assert not model.training and model[1].momentum == 0.1
    assert_equal(ours, theirs)
