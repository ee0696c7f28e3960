"""Kinds of attention, caches, rotary positions, Fourier mixing: PyTorch or the definition is the oracle."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.peers.peer_modules import PLACES, compare, compare_gradients, host, leaves, need  # noqa: E402

import grilly_core as grilly  # noqa: E402
from grilly_core import nn  # noqa: E402
from grilly_core.errors import ShapeError, StateDictError  # noqa: E402

sdpa = torch.nn.functional.scaled_dot_product_attention


def turned(x, positions, base=10000.0, scaling=1.0, interleaved=False):
    """Rotation as products of complex numbers, (B, S, H, D) in PyTorch: the definition in RoFormer."""
    half = x.shape[-1] // 2
    angles = torch.as_tensor(np.asarray(positions, np.float64) / scaling)[..., None] * base ** (
        -torch.arange(half, dtype=torch.float64) / half
    )
    turns = torch.polar(torch.ones_like(angles), angles)
    turns = (turns if turns.ndim == 3 else turns[None])[:, :, None].to(
        torch.complex128 if x.dtype == torch.float64 else torch.complex64
    )
    if interleaved:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], half, 2)) * turns
        return torch.view_as_real(pairs).reshape(x.shape)
    pairs = torch.complex(x[..., :half], x[..., half:]) * turns
    return torch.cat([pairs.real, pairs.imag], -1)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("use_precomputed", [False, True])
def test_rotary_embedding(place, interleaved, use_precomputed):
    need(place)
    rng = np.random.default_rng(0)
    options = {"base": 500.0, "scaling": 2.0, "interleaved": interleaved}
    rope = nn.RotaryEmbedding(6, 16, use_precomputed=use_precomputed, **options)
    ids = np.array([[3, 0, 15, 7], [1, 2, 2, 9]])
    for given, positions in ((None, np.arange(4)), (ids[0], ids[0]), (ids, ids)):
        (a,), (b,) = leaves([rng.normal(size=(2, 4, 3, 6))], place)
        y, expected = rope(a, given), turned(b, positions, **options)
        np.testing.assert_allclose(host(y), host(expected), rtol=0, atol=PLACES[place][2])
        y.sum().backward()
        expected.sum().backward()
        compare_gradients([a], [b], PLACES[place][3])
        np.testing.assert_array_equal(
            host(rope(a.transpose(1, 2), given, heads_first=True).transpose(1, 2)), host(y)
        )
    np.testing.assert_array_equal(host(rope(a, offset=5)), host(rope(a, np.arange(5, 9))))


@pytest.mark.parametrize("device", ["cpu", "vulkan:0"])
@pytest.mark.parametrize("use_precomputed", [False, True])
def test_rotary_embedding_in_a_captured_step(device, use_precomputed):
    # the oracle is the same call outside of the capture
    need("cpu-float32" if device == "cpu" else "vulkan-float32")
    rope = nn.RotaryEmbedding(4, use_precomputed=use_precomputed)
    x = grilly.randn(1, 3, 2, 4).to(device)
    want = host(rope(x))
    step = grilly.capture(lambda t: rope(t))
    for _ in range(3):
        np.testing.assert_array_equal(host(step(x)), want)


def test_rotary_embedding_keeps_norms_and_depends_on_distance_only():
    rng = np.random.default_rng(1)
    rope = nn.RoPE(8)
    q, k = (grilly.asarray(rng.normal(size=(1, 1, 1, 8)), dtype="float64") for _ in range(2))
    at = lambda x, p: host(rope(x, [p])).ravel()  # noqa: E731
    np.testing.assert_allclose(np.linalg.norm(at(q, 300)), np.linalg.norm(host(q)), rtol=1e-12)
    np.testing.assert_allclose(at(q, 7) @ at(k, 3), at(q, 307) @ at(k, 303), rtol=1e-12)


def test_sinusoids():
    # the formula of Vaswani et al., written out for single elements
    for width in (6, 5):
        encoding = nn.PositionalEncoding(width, dropout=0.0, max_len=9)
        y = host(encoding(grilly.zeros((9, 1, width))))[:, 0]
        for p, i in ((0, 0), (3, 1), (8, width - 1)):
            angle = p / 10000 ** ((i - i % 2) / width)
            np.testing.assert_allclose(y[p, i], np.cos(angle) if i % 2 else np.sin(angle), atol=1e-6)
        first = nn.PositionalEncoding(width, dropout=0.0, max_len=9, batch_first=True)
        np.testing.assert_array_equal(host(first(grilly.zeros((1, 9, width))))[0], y)
    assert not encoding.state_dict()


class TorchGrouped(torch.nn.Module):
    """The same layer in PyTorch: projections, rotation, attention with groups."""

    def __init__(self, heads, groups, width, bias, positions, causal):
        super().__init__()
        self.q_proj = torch.nn.Linear(12, heads * width, bias)
        self.k_proj = torch.nn.Linear(12, groups * width, bias)
        self.v_proj = torch.nn.Linear(12, groups * width, bias)
        self.o_proj = torch.nn.Linear(heads * width, 12, bias)
        self.width, self.positions, self.causal = width, positions, causal

    def forward(self, x, mask=None):
        q, k, v = (p(x).unflatten(-1, (-1, self.width)) for p in (self.q_proj, self.k_proj, self.v_proj))
        if self.positions is not None:
            q, k = turned(q, self.positions), turned(k, self.positions)
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        y = sdpa(q, k, v, mask, is_causal=self.causal, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("rotary", [False, True])
def test_grouped_query_attention(place, groups, rotary):
    need(place)
    rng = np.random.default_rng(2)
    device, dtype, _, _ = PLACES[place]
    for bias, causal, head_dim in ((False, True, None), (True, False, 4)):
        width = head_dim or 3
        rope = nn.RotaryEmbedding(width + width % 2) if rotary and width % 2 == 0 else None
        theirs = TorchGrouped(4, groups, width, bias, np.arange(5) if rope else None, causal).to(
            getattr(torch, dtype)
        )
        ours = nn.GroupedQueryAttention(12, 4, groups, head_dim, bias=bias, rope=rope).to(dtype=dtype)
        assert ours.load_state_dict(theirs.state_dict()) == ([], [])
        ours.to(device)
        mask = None if causal else rng.random((5, 5)) > 0.3
        given = lambda library, xs, m=mask, c=causal: (  # noqa: E731
            [*xs, m, c] if library is grilly else [*xs, None if m is None else torch.from_numpy(m)]
        )
        compare(ours, theirs, [rng.normal(size=(2, 5, 12))], rng, place, given)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("pieces", [[7], [1] * 7, [3, 1, 2, 1]])
@pytest.mark.parametrize("max_length", [None, 7])
def test_decoding_with_a_cache_equals_the_whole_pass(place, pieces, max_length):
    # the oracle is the same layer on the whole text at once (features 6.12: to 1e-5)
    need(place)
    device, dtype, _, _ = PLACES[place]
    layer = nn.GroupedQueryAttention(8, 4, 2, 4, rope=nn.RotaryEmbedding(4)).to(dtype=dtype).to(device).eval()
    x = grilly.randn(2, 7, 8).to(dtype).to(device)
    cache, at, found = nn.KVCache(1, max_length), 0, []
    for n in pieces:
        found.append(host(layer(x[:, at : at + n], is_causal=True, cache=cache)))
        at += n
    np.testing.assert_allclose(np.concatenate(found, 1), host(layer(x, is_causal=True)), rtol=0, atol=1e-5)
    assert len(cache) == cache.position() == 7


def filled(rows=2, **options):
    rng = np.random.default_rng(3)
    k, v = (rng.normal(size=(rows, 1, 5, 2)).astype(np.float32) for _ in range(2))
    cache = nn.KVCache(2, **options)
    for layer in range(2):
        for at in range(5):
            cache.append(layer, k[:, :, at : at + 1] + layer, v[:, :, at : at + 1] - layer)
    return cache, k, v


def test_a_cache_holds_what_was_appended():
    # the oracle is NumPy's indexing
    cache, k, v = filled()
    for layer in range(2):
        a, b = cache.get(layer)
        np.testing.assert_array_equal(host(a), k + layer)
        np.testing.assert_array_equal(host(b), v - layer)
    cache.evict([4, 0, 2], layer=1)
    np.testing.assert_array_equal(host(cache.get(1)[0]), k[:, :, [4, 0, 2]] + 1)
    assert (cache.length(0), cache.length(1), cache.position(1)) == (5, 3, 5)
    cache.reorder([1, 1])
    np.testing.assert_array_equal(host(cache.get(0)[1]), v[[1, 1]])
    restored = nn.KVCache(2)
    restored.load_state_dict(cache.state_dict())
    for layer in range(2):
        np.testing.assert_array_equal(host(restored.get(layer)[0]), host(cache.get(layer)[0]))
        assert restored.position(layer) == cache.position(layer)
    cache.truncate(2)
    assert cache.position(0) == cache.length(0) == 2
    cache.append(0, k[:, :, :1], v[:, :, :1])
    joined = np.concatenate([k[[1, 1]][:, :, :2], k[:, :, :1]], axis=2)
    np.testing.assert_array_equal(host(cache.get(0)[0]), joined)
    cache.reset()
    assert len(cache) == 0


def test_earlier_results_stay_when_a_cache_goes_on():
    cache, k, v = filled()
    first, _ = cache.get(0)
    copied = copy.deepcopy(host(first))
    cache.append(0, k[:, :, :1], v[:, :, :1])
    cache.truncate(0)
    cache.append(0, k * 0, v)
    np.testing.assert_array_equal(host(first), copied)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("use_rope", [False, True])
def test_flash_attention(place, packed, use_rope):
    need(place)
    rng = np.random.default_rng(4)
    ours = nn.FlashAttention2(8, 2, use_rope)

    def theirs(q, k, v):
        q4, k4, v4 = (x.reshape(*x.shape[:2], 2, 4) for x in (q, k, v))
        if use_rope:
            q4, k4 = turned(q4, np.arange(5)), turned(k4, np.arange(5))
        y = sdpa(*(x.transpose(1, 2) for x in (q4, k4, v4)), is_causal=True)
        return y.transpose(1, 2).reshape(q.shape)

    arrays = [rng.normal(size=(2, 5, 8) if packed else (2, 5, 2, 4)) for _ in range(3)]
    compare(lambda *xs: ours(*xs, is_causal=True), theirs, arrays, rng, place)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_prosody_is_a_bias_of_the_scores(place, need_weights, masked):
    # the oracle is PyTorch's attention with the bias of the definition as a mask
    need(place)
    rng = np.random.default_rng(5)
    device, dtype, _, _ = PLACES[place]
    ours = nn.ProsodyModulatedAttention(8, 2, 3, prosody_strength=0.7).to(dtype=dtype)
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True).to(getattr(torch, dtype))
    ours.attention.load_state_dict(theirs.state_dict())
    weight = torch.from_numpy(host(ours.prosody_weight).copy()).requires_grad_()
    keep = rng.random((2, 1, 4, 5)) > 0.3
    keep[..., 0] = True
    q, k = rng.normal(size=(2, 4, 8)), rng.normal(size=(2, 5, 8))
    a, b = leaves([q, k, rng.normal(size=(2, 5, 3))], place)
    ours.to(device)
    y, weights = ours(a[0], a[1], a[1], a[2], keep if masked else None, need_weights=need_weights)
    bias = 0.7 * torch.einsum("bjp,hp->bhj", b[2], weight)[:, :, None].expand(2, 2, 4, 5)
    if masked:
        bias = bias.masked_fill(~torch.from_numpy(keep), -torch.inf)
    expected, known = theirs(b[0], b[1], b[1], attn_mask=bias.reshape(4, 4, 5), average_attn_weights=False)
    np.testing.assert_allclose(host(y), host(expected), rtol=0, atol=PLACES[place][2])
    assert (weights is None) is not need_weights
    if need_weights:
        np.testing.assert_allclose(host(weights), host(known), rtol=0, atol=PLACES[place][2])
    (y**2).sum().backward()
    (expected**2).sum().backward()
    compare_gradients([*a, ours.prosody_weight], [*b, weight], PLACES[place][3])


def test_prosody_of_zeros_or_of_the_whole_text_changes_nothing():
    layer = nn.ProsodyModulatedAttention(8, 2)
    x = grilly.randn(2, 4, 8)
    plain, _ = layer.attention(x, x, x)
    for prosody in (np.zeros((2, 4, 2), np.float32), np.ones((2, 2), np.float32)):
        np.testing.assert_allclose(host(layer(x, x, x, prosody)[0]), host(plain), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("shape", [(4, 6), (2, 5, 3)])
def test_fourier_mixing(place, shape):
    need(place)
    rng = np.random.default_rng(6)
    compare(nn.FNetMixing(), lambda x: torch.fft.fft2(x).real, [rng.normal(size=shape)], rng, place)


def test_errors_name_what_was_wrong():
    x = grilly.zeros((1, 3, 8))
    with pytest.raises(ShapeError, match="even"):
        nn.RotaryEmbedding(3)
    with pytest.raises(IndexError, match="max_seq_len=2"):
        nn.RotaryEmbedding(4, 2)(grilly.zeros((1, 3, 1, 4)))
    with pytest.raises(IndexError):
        host(nn.RotaryEmbedding(4, 2)(grilly.zeros((1, 1, 1, 4)), [2]))
    with pytest.raises(ShapeError, match="position_ids"):
        nn.RotaryEmbedding(4)(grilly.zeros((1, 3, 1, 4)), [0, 1])
    with pytest.raises(ShapeError, match="num_kv_heads"):
        nn.GroupedQueryAttention(8, 4, 3)
    with pytest.raises(ShapeError, match="FlashAttention2"):
        nn.FlashAttention2(6, 2)(x, x, x)
    with pytest.raises(ShapeError, match="prosody"):
        nn.ProsodyModulatedAttention(8, 2)(x, x, x, grilly.zeros((1, 3, 3)))
    with pytest.raises(ShapeError, match="max_length=4"):
        filled(max_length=4)
    with pytest.raises(ShapeError, match="layer 0 holds"):
        filled()[0].append(0, grilly.zeros((1, 1, 1, 2)), grilly.zeros((1, 1, 1, 2)))
    with pytest.raises(LookupError, match="layer 1"):
        nn.KVCache(2).get(1)
    with pytest.raises(IndexError, match="0 to 4"):
        filled()[0].evict([5])
    with pytest.raises(StateDictError, match="key, value and position"):
        nn.KVCache(1).load_state_dict({"0.key": x})
