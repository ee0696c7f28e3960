"""Decoding against Hugging Face's: the same filters, the same greedy texts and the same beams, on PyTorch's logits."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from tests.peers.peer_modules import PLACES, host, need  # noqa: E402
from transformers.generation import logits_process as peers  # noqa: E402

import grilly  # noqa: E402
from grilly import nn  # noqa: E402
from grilly.decoding import beam_search, filter_logits, generate, greedy, sample, stream  # noqa: E402

VOCABULARY = 19


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), temperature=st.sampled_from([1.0, 0.5, 2.0]),
    top_k=st.sampled_from([None, 1, 5, 40]), top_p=st.sampled_from([None, 0.1, 0.7, 0.95]),
    min_p=st.sampled_from([None, 0.05, 0.5]), penalty=st.sampled_from([1.0, 1.3, 0.8]),
)  # fmt: skip
def test_filters_equal_hugging_face(seed, temperature, top_k, top_p, min_p, penalty):
    rng = np.random.default_rng(seed)
    logits, ids = 3 * rng.normal(size=(3, VOCABULARY)), rng.integers(0, VOCABULARY, (3, 4))
    chain = [peers.RepetitionPenaltyLogitsProcessor(penalty)] if penalty != 1 else []
    chain += [peers.TemperatureLogitsWarper(temperature)] if temperature != 1 else []
    chain += [peers.TopKLogitsWarper(top_k)] if top_k else []
    chain += [peers.TopPLogitsWarper(top_p)] if top_p else []
    chain += [peers.MinPLogitsWarper(min_p)] if min_p else []
    want = torch.from_numpy(logits)
    for process in chain:
        want = process(torch.from_numpy(ids), want)
    got = filter_logits(
        grilly.asarray(logits, dtype="float64"), ids, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
        repetition_penalty=penalty,
    )  # fmt: skip
    np.testing.assert_allclose(host(got), want.numpy(), rtol=1e-5)


@pytest.mark.parametrize("place", PLACES)
def test_draws_follow_the_probabilities(place):
    # the oracle is the distribution itself: counts of 20,000 draws lie within five deviations
    need(place)
    logits = np.array([0.0, 1.0, 2.0, -1.0, 0.5], np.float32)
    p = np.exp(logits / 0.8)
    p[3] = 0.0
    p /= p.sum()
    many = grilly.asarray(np.tile(logits, (20_000, 1)), device=PLACES[place][0])
    ids = sample(many, temperature=0.8, top_k=4, rng=grilly.Generator(1))
    assert ids.device == many.device
    counts = np.bincount(ids.numpy(), minlength=5)
    assert counts[3] == 0
    assert (np.abs(counts - 20_000 * p) <= 5 * np.sqrt(20_000 * p * (1 - p)) + 1e-9).all()


def test_draws_never_leave_the_allowed_tokens_and_cold_ones_are_greedy():
    logits = np.full((1000, 7), -80.0)
    logits[:, 2] = 80.0
    assert (sample(logits, rng=grilly.Generator(0)).numpy() == 2).all()
    logits = np.random.default_rng(0).normal(size=(50, 7))
    np.testing.assert_array_equal(sample(logits, temperature=0.0).numpy(), logits.argmax(-1))
    np.testing.assert_array_equal(sample(logits, temperature=1e-6).numpy(), logits.argmax(-1))
    np.testing.assert_array_equal(greedy(logits).numpy(), logits.argmax(-1))
    assert greedy(np.zeros((2, 3))).tolist() == [0, 0]


def test_modules_are_the_functions():
    logits = grilly.randn(4, 3, 6)
    np.testing.assert_array_equal(nn.GreedyDecoder(6)(logits).numpy(), host(logits).argmax(-1))
    first, second = (nn.SampleDecoder(6, 0.7, top_p=0.9, seed=5) for _ in range(2))
    drawn = first(logits).numpy()
    np.testing.assert_array_equal(second(logits).numpy(), drawn)
    want = sample(logits, temperature=0.7, top_p=0.9, rng=grilly.Generator(5))
    np.testing.assert_array_equal(want.numpy(), drawn)
    assert any((first(logits).numpy() != drawn).any() for _ in range(5))


@pytest.fixture(scope="module")
def peer():
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=64, n_embd=16, n_layer=2, n_head=2, initializer_range=0.6,
        bos_token_id=None, eos_token_id=None, pad_token_id=1,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config).eval()


def model_of(peer):
    """The peer as a model of ours: same logits, so that nothing but the decoding can differ."""
    return lambda ids: grilly.asarray(peer(torch.tensor(ids.tolist())).logits.detach().numpy())


def prompts(seed, rows=3):
    return np.random.default_rng(seed).integers(1, VOCABULARY, (rows, 4))


def theirs(peer, ids, **options):
    batch = torch.from_numpy(ids)
    with torch.no_grad():
        return peer.generate(batch, attention_mask=torch.ones_like(batch), pad_token_id=1, **options)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("penalty", [1.0, 1.5])
@pytest.mark.parametrize("stops", [[], [3], [5, 11]])
def test_greedy_texts_equal_hugging_face(peer, seed, penalty, stops):
    ids = prompts(seed)
    want = theirs(
        peer, ids, max_new_tokens=12, do_sample=False, repetition_penalty=penalty, eos_token_id=stops or None
    )
    got = generate(model_of(peer), ids, 12, repetition_penalty=penalty, stop_ids=stops, pad_id=1)
    np.testing.assert_array_equal(got.numpy(), want.numpy())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("beams", [1, 2, 4])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"length_penalty": 2.0},
        {"length_penalty": 0.0, "early_stopping": True},
        {"repetition_penalty": 1.4},
    ],
)
@pytest.mark.parametrize("stops", [[], [3], [5, 11]])
def test_beams_equal_hugging_face(peer, seed, beams, options, stops):
    if beams == 1:
        options = {}  # there it is greedy search, which refuses them, or has a penalty on logits
    ids = prompts(seed)
    more = {"num_return_sequences": beams, "output_scores": True} if beams > 1 else {}
    want = theirs(
        peer, ids, max_new_tokens=8, do_sample=False, num_beams=beams, eos_token_id=stops or None,
        return_dict_in_generate=True, **more, **options,
    )  # fmt: skip
    got = beam_search(
        model_of(peer),
        ids,
        8,
        num_beams=beams,
        num_return_sequences=beams,
        stop_ids=stops,
        pad_id=1,
        **options,
    )
    known = want.sequences.numpy().reshape(3, beams, -1)
    if beams > 1:
        np.testing.assert_allclose(
            host(got.scores), want.sequences_scores.numpy().reshape(3, beams), rtol=1e-4
        )
        known = known[..., : got.sequences.shape[-1]]
    np.testing.assert_array_equal(got.sequences.numpy(), known)


def test_the_best_beam_is_the_best_text_of_all():
    # the oracle is enumeration: with as many beams as texts of length n - 1, nothing is lost
    table = np.random.default_rng(3).normal(size=(3, 3)).astype(np.float32) * 2
    log_p = table - np.log(np.exp(table).sum(-1, keepdims=True))
    texts = [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]
    score = lambda t: sum(log_p[x, y] for x, y in zip((0, *t), t, strict=False)) / 3  # noqa: E731
    best = max(texts, key=score)
    found = beam_search(lambda ids: grilly.asarray(table[ids.numpy()]), [0], 3, num_beams=9)
    assert tuple(found.sequences.tolist()[0][1:]) == best
    np.testing.assert_allclose(found.scores.tolist()[0], score(best), rtol=1e-5)
    module = nn.BeamSearchDecoder(9)(lambda ids: grilly.asarray(table[ids.numpy()]), [0], 3)
    assert module.sequences.tolist() == found.sequences.tolist()


class Small(nn.Module):
    """A model with rotary positions that takes a cache."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, 16)
        self.layers = nn.ModuleList(
            [nn.GroupedQueryAttention(16, 4, 2, rope=nn.RotaryEmbedding(4)) for _ in range(2)]
        )
        self.head = nn.Linear(16, VOCABULARY)

    def forward(self, ids, cache=None):
        x = self.tokens(ids)
        for i, layer in enumerate(self.layers):
            x = x + layer(x, is_causal=True, cache=cache, layer=i)
        return self.head(x)


@pytest.mark.parametrize("place", ["cpu-float32", "vulkan-float32"])
def test_a_cache_changes_no_text(place):
    # the oracle is the same model without the cache
    need(place)
    grilly.manual_seed(0)
    model = Small().to(PLACES[place][0]).eval()
    ids = grilly.asarray(prompts(0), device=PLACES[place][0])
    plain = generate(model, ids, 8)
    assert plain.device == ids.device and plain.shape == (3, 12)
    np.testing.assert_array_equal(generate(model, ids, 8, cache=nn.KVCache(2)).numpy(), plain.numpy())
    options = {"num_beams": 3, "num_return_sequences": 3}
    a, b = (beam_search(model, ids, 8, cache=c, **options) for c in (None, nn.KVCache(2)))
    np.testing.assert_array_equal(a.sequences.numpy(), b.sequences.numpy())
    np.testing.assert_allclose(host(a.scores), host(b.scores), rtol=1e-4)
    drawn = [
        generate(model, ids, 8, do_sample=True, top_p=0.9, cache=c, rng=grilly.Generator(2)).numpy()
        for c in (None, nn.KVCache(2))
    ]
    np.testing.assert_array_equal(*drawn)


def test_streaming_yields_what_generate_returns_token_by_token(peer):
    ids = prompts(1, rows=1)[0]
    calls = []
    model = lambda x: (calls.append(1), model_of(peer)(x))[1]  # noqa: E731
    tokens = stream(model, ids, 6)
    first = next(tokens)
    assert len(calls) == 1 and first.shape == ()
    whole = [*ids.tolist(), first.item(), *(t.item() for t in tokens)]
    assert generate(model_of(peer), ids, 6).tolist() == whole


def test_a_batch_stops_early_and_is_filled_up():
    count = lambda ids: grilly.functional.one_hot((ids + 1) % 7, 7).to(grilly.float32)  # noqa: E731
    assert generate(count, [[1], [4]], 9, stop_ids=5).tolist() == [[1, 2, 3, 4, 5], [4, 5, 5, 5, 5]]
    assert generate(count, [[1], [4]], 9, stop_ids=[5], pad_id=0).tolist() == [
        [1, 2, 3, 4, 5],
        [4, 5, 0, 0, 0],
    ]


def test_errors_name_what_was_wrong():
    count = lambda ids: grilly.functional.one_hot(ids, 7).to(grilly.float32)  # noqa: E731
    for name, value in (
        ("temperature", -1.0),
        ("top_k", 0),
        ("top_p", 1.5),
        ("min_p", -0.1),
        ("repetition_penalty", 0),
    ):
        with pytest.raises(ValueError, match=name):
            sample(np.zeros(3), [0], **{name: value})
    with pytest.raises(TypeError, match="ids"):
        sample(np.zeros(3), repetition_penalty=1.2)
    with pytest.raises(ValueError, match="do_sample=True"):
        generate(count, [1], top_k=3)
    with pytest.raises(ValueError, match="max_new_tokens"):
        stream(count, [1], 0)
    with pytest.raises(ValueError, match="NaN"):
        greedy(np.array([np.nan, 1.0]))
    with pytest.raises(grilly.ShapeError, match="input_ids"):
        generate(count, np.zeros((1, 0), np.int64))
    with pytest.raises(grilly.ShapeError, match="expected logits"):
        generate(lambda ids: grilly.zeros((1, 7)), [1])
    with pytest.raises(ValueError, match="num_return_sequences"):
        beam_search(count, [1], num_beams=2, num_return_sequences=3)
    with pytest.raises(grilly.ShapeError, match="vocab_size=3"):
        nn.GreedyDecoder(3)(grilly.zeros((1, 4)))
