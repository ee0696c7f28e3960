"""A small GPT, written once for both libraries: PyTorch's weights give its logits and its loss curve."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.peers.peer_modules import host, need  # noqa: E402

import grilly  # noqa: E402

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 23, 12, 32, 4, 2
DEVICES = {"cpu": "cpu-float32", "vulkan:0": "vulkan-float32"}


def gpt(library):
    """The model with a library's modules, in the shape of GPT-2: normalised first, tied to its embedding."""
    nn = library.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.mlp = nn.Sequential(
                nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH)
            )

        def forward(self, x):
            n, t, c = x.shape
            q, k, v = (
                y.reshape(n, t, HEADS, c // HEADS).transpose(1, 2)
                for y in self.c_attn(self.ln_1(x)).chunk(3, dim=-1)
            )
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.c_proj(y.transpose(1, 2).reshape(n, t, c))
            return x + self.mlp(self.ln_2(x))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
            self.h = nn.ModuleList([Block() for _ in range(LAYERS)])
            self.ln_f = nn.LayerNorm(WIDTH)
            self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
            self.lm_head.weight = self.wte.weight

        def forward(self, ids):
            x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
            for block in self.h:
                x = block(x)
            return self.lm_head(self.ln_f(x))

    return GPT()


def encoder(library):
    """The same kind of model out of the library's own transformer layers."""
    nn = library.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
            layer = nn.TransformerEncoderLayer(
                WIDTH, HEADS, 2 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            self.body = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
            self.head = nn.Linear(WIDTH, VOCABULARY)

        def forward(self, ids):
            x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
            mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], device=x.device)
            return self.head(self.body(x, mask=mask, is_causal=True))

    return Model()


def pair(make, device):
    """Return both models with PyTorch's first values (embeddings of GPT-2's size)."""
    torch.manual_seed(0)
    theirs = make(torch)
    with torch.no_grad():
        for module in theirs.modules():
            if isinstance(module, torch.nn.Embedding):
                module.weight.mul_(0.1)
    ours = make(grilly)
    assert ours.load_state_dict(theirs.state_dict()) == ([], [])
    assert list(ours.state_dict()) == list(theirs.state_dict())
    return ours.to(device), theirs


def texts(count):
    """Batches of sequences in which each token follows from the one before, but for some noise."""
    rng = np.random.default_rng(1)
    for _ in range(count):
        ids = np.cumsum(rng.choice([3, 3, 3, 5], (4, LENGTH + 1)), axis=1) + rng.integers(
            0, VOCABULARY, (4, 1)
        )
        yield ids % VOCABULARY


def loss_of(library, model, ids):
    logits = model(ids[:, :-1])
    return library.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", [gpt, encoder])
def test_logits_equal_torch(make, device):
    need(DEVICES[device])
    ours, theirs = pair(make, device)
    (ids,) = texts(1)
    a = ours(grilly.asarray(ids[:, :-1], device=device))
    b = theirs(torch.from_numpy(ids[:, :-1]))
    np.testing.assert_allclose(host(a), host(b), rtol=0, atol=1e-4)
    assert np.abs(host(b)).max() > 0.1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", [gpt, encoder])
def test_loss_curve_equals_torch(make, device):
    need(DEVICES[device])
    ours, theirs = pair(make, device)
    mine = grilly.optim.AdamW(ours.parameters(), lr=3e-3, weight_decay=0.1)
    other = torch.optim.AdamW(theirs.parameters(), lr=3e-3, weight_decay=0.1)
    curves = []
    for ids in texts(20):
        a = loss_of(grilly, ours, grilly.asarray(ids, device=device))
        b = loss_of(torch, theirs, torch.from_numpy(ids))
        for loss, optimizer in ((a, mine), (b, other)):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        curves.append((a.item(), b.item()))
    got, want = np.array(curves).T
    np.testing.assert_allclose(got, want, rtol=1e-4)
    assert want[-1] < 0.7 * want[0]  # there was something to learn
