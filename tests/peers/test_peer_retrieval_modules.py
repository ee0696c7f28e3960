"""The classifier against scikit-learn, the router against transformers and PyTorch, functions against FAISS."""

from __future__ import annotations

import faiss
import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from transformers.models.switch_transformers.modeling_switch_transformers import (
    load_balancing_loss_func,
    router_z_loss_func,
)

import grilly
from grilly_ext_memory.functional import search as functions
from grilly_ext_memory.index.faiss_layout import codes_of
from grilly_ext_memory.index.flat import IndexFlat
from grilly_ext_memory.nn.neighbours import KNNClassifier
from grilly_ext_memory.nn.routing import ExpertRouter

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("k", [1, 5, 12])
@pytest.mark.parametrize("weights", ["uniform", "distance", lambda d: np.exp(-d)])
@pytest.mark.parametrize(("ours", "theirs"), [("l2", "euclidean"), ("l1", "manhattan"), ("cosine", "cosine")])
def test_votes_are_those_of_scikit_learn(k, weights, ours, theirs):
    """Random rows have no equal distances, so both see the same neighbours; some queries are rows (distance 0)."""
    x, y = RNG.normal(size=(300, 6)).astype(np.float32), RNG.integers(4, size=300) * 3 - 2
    q = np.concatenate([RNG.normal(size=(80, 6)).astype(np.float32), x[:5]])
    mine = KNNClassifier(k, ours, weights).fit(x, y)
    peer = KNeighborsClassifier(k, weights=weights, metric=theirs, algorithm="brute").fit(x, y)
    np.testing.assert_array_equal(mine.classes, peer.classes_)
    near = slice(None) if ours != "cosine" else slice(80)  # there a row's distance to itself is not quite 0
    np.testing.assert_allclose(mine.predict_proba(q)[near], peer.predict_proba(q)[near], rtol=1e-4, atol=1e-5)
    if weights == "uniform":  # equal votes are common: both take the lower class
        np.testing.assert_array_equal(mine.predict(q), peer.predict(q))


def test_digits_as_scikit_learn():
    digits = load_digits()
    train, test = slice(0, 1200), slice(1200, None)
    mine = KNNClassifier(3, index=IndexFlat(64)).fit(digits.data[train], digits.target[train])
    peer = KNeighborsClassifier(3).fit(digits.data[train], digits.target[train])
    want = peer.score(digits.data[test], digits.target[test])
    assert (
        abs(mine.score(digits.data[test], digits.target[test]) - want) < 0.005
    )  # equal distances are ordered otherwise


def test_router_losses_and_gradients():
    """Switch's losses as transformers has them; the whole router written in PyTorch for its gradients."""
    x, w = RNG.normal(size=(20, 5)), RNG.normal(size=(4, 5))
    router = ExpertRouter(5, 4, temperature=0.7).double()
    router.load_state_dict({"weight": w})
    found = router(grilly.asarray(x, dtype="float64"))
    rows, weight = torch.tensor(x), torch.tensor(w, requires_grad=True)
    logits = rows @ weight.T / 0.7
    probabilities = logits.softmax(-1)
    gates, experts = probabilities.max(-1)
    balance = load_balancing_loss_func(probabilities[None], experts[None])
    z = router_z_loss_func(logits[None])
    np.testing.assert_allclose(found.balance_loss.item(), balance.item(), rtol=1e-6)
    np.testing.assert_allclose(found.z_loss.item(), z.item(), rtol=1e-6)
    np.testing.assert_array_equal(found.experts.numpy()[:, 0], experts.numpy())
    (found.gates.sum() + 0.3 * found.balance_loss + 0.1 * found.z_loss).backward()
    (gates.sum() + 0.3 * balance + 0.1 * z).backward()
    np.testing.assert_allclose(router.weight.grad.numpy(), weight.grad.numpy(), rtol=1e-5, atol=1e-8)


def test_functions_against_faiss_and_torch():
    """Distances of PyTorch's cdist, codes and lists of FAISS with the same codewords and centroids."""
    x, q = RNG.normal(size=(200, 6)).astype(np.float32), RNG.normal(size=(9, 6)).astype(np.float32)
    want = torch.cdist(torch.tensor(q), torch.tensor(x))
    distances = functions.faiss_distance(q, x)
    np.testing.assert_allclose(distances.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)
    values, indices = want.topk(7, largest=False)
    found = functions.faiss_topk(distances, 7)
    np.testing.assert_array_equal(found.indices.numpy(), indices.numpy())
    np.testing.assert_allclose(found.values.numpy(), values.numpy(), rtol=1e-4, atol=1e-5)
    books = RNG.normal(size=(3, 16, 2)).astype(np.float32)
    peer = faiss.ProductQuantizer(6, 3, 4)
    faiss.copy_array_to_vector(books.ravel(), peer.centroids)
    codes = functions.faiss_quantize(x, books, nbits=4)
    np.testing.assert_array_equal(codes_of(peer.compute_codes(x), 3, 4), codes.codes.numpy())
    np.testing.assert_array_equal(peer.decode(peer.compute_codes(x)), codes.quantized.numpy())
    flat = faiss.IndexFlatL2(6)
    flat.add(x[:11])
    np.testing.assert_array_equal(functions.faiss_ivf_filter(x, x[:11]).numpy(), flat.search(x, 1)[1][:, 0])
