"""Layers of random shapes and options, with PyTorch as the oracle: outputs, gradients, state dicts and looks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from tests.peers import peer_functions, peer_plain  # noqa: E402, F401 - they register what they draw
from tests.peers.peer_layers import LAYERS  # noqa: E402
from tests.peers.peer_modules import compare, need, paired  # noqa: E402

from grilly_core import nn  # noqa: E402

#: PyTorch keeps a sixth as a float32 in gradients of float64.
INEXACT = {"Hardsigmoid": 1e-8, "f.hardsigmoid": 1e-8}


def check(name, place, data):
    """Draw a layer and inputs of which PyTorch says that they fit, and compare."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), label="seed"))
    make, arrays, form = LAYERS[name](data.draw, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of what it does itself
        ours, theirs = paired(make, rng, place)
        # ours show how losses are reduced, PyTorch's do not
        assert repr(ours) == repr(theirs) or name.startswith("ours-") or "Loss" in name
        compare(ours, theirs, arrays, rng, place, form, INEXACT.get(name, 0.0))
        ours.eval(), theirs.eval()
        compare(ours, theirs, arrays, rng, place, form, INEXACT.get(name, 0.0))


@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_layer_equals_torch(name, data):
    check(name, "cpu-float32", data)


@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_layer_in_float64_equals_torch(name, data):
    check(name, "cpu-float64", data)


@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_layer_on_vulkan_equals_torch(name, data):
    need("vulkan-float32")
    check(name, "vulkan-float32", data)


@pytest.mark.parametrize(
    "name", ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Bilinear", "EmbeddingBag"]
)
def test_first_values_equal_torch(name):
    make = {
        "ConvTranspose1d": lambda n: n.ConvTranspose1d(8, 32, 5, groups=2),
        "ConvTranspose2d": lambda n: n.ConvTranspose2d(8, 32, 5),
        "ConvTranspose3d": lambda n: n.ConvTranspose3d(8, 32, 3),
        "Bilinear": lambda n: n.Bilinear(20, 20, 200),
        "EmbeddingBag": lambda n: n.EmbeddingBag(200, 50),
    }[name]
    for p, q in zip(make(nn).parameters(), make(torch.nn).parameters(), strict=True):
        p, q = p.detach().numpy(), q.detach().numpy()
        assert p.shape == q.shape
        np.testing.assert_allclose(p.std(), q.std(), rtol=8 / p.size**0.5)


def test_gradients_by_frequency_of_a_bag():
    # PyTorch divides by the count of another id (ids 4, 4, 4, 5: a third for 5), so the oracle is the definition
    bags = nn.EmbeddingBag(6, 1, scale_grad_by_freq=True, mode="sum")
    bags(np.array([[4, 4, 4, 5]])).sum().backward()
    np.testing.assert_allclose(bags.weight.grad.numpy().ravel(), [0, 0, 0, 0, 1, 1], rtol=1e-6)
