"""Transformer layers and stacks against PyTorch's: its state dict loads, outputs and all gradients agree."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.peers.peer_modules import compare, host, need, paired  # noqa: E402

import grilly_core as grilly  # noqa: E402
from grilly_core import nn  # noqa: E402
from grilly_core.errors import ShapeError  # noqa: E402

#: Every option that changes the computation is off its default at least once.
OPTIONS = {
    "plain": {},
    "norm-first": {"norm_first": True, "activation": "gelu"},
    "batch-first": {"batch_first": True, "layer_norm_eps": 0.1},
    "no-bias": {"bias": False, "norm_first": True, "batch_first": True},
}
PLACES = ["cpu-float32", "cpu-float64", "vulkan-float32"]
CAUSAL = np.triu(np.ones((4, 4), bool), 1)
PADDING = np.array([[False] * 4, [False, False, False, True]])


class Called:
    """A module called with masks, which `compare` does not know of."""

    def __init__(self, module, **given):
        self.module, self.given = module, given
        self.named_parameters, self.parameters = module.named_parameters, module.parameters

    def __call__(self, *args):
        return self.module(*args, **self.given)


def same(make, place, arrays, seed, **given):
    need(place)
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nested tensors, and of masks of two kinds
        ours, theirs = paired(make, rng, place)
        peers = {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
        for mode in ("train", "eval"):
            getattr(ours, mode)(), getattr(theirs, mode)()
            ours.zero_grad(), theirs.zero_grad()
            compare(Called(ours, **given), Called(theirs, **peers), arrays(rng), rng, place)


def shaped(options, *lengths):
    """Inputs (L, 2, 8) or (2, L, 8) for each length."""
    return lambda rng: [
        rng.normal(size=(2, n, 8) if options.get("batch_first") else (n, 2, 8)) for n in lengths
    ]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", OPTIONS)
def test_encoder_layer(name, place):
    options = OPTIONS[name]
    make = lambda m: m.TransformerEncoderLayer(8, 2, 12, dropout=0.0, **options)  # noqa: E731
    same(make, place, shaped(options, 4), 0)
    same(make, place, shaped(options, 4), 1, src_mask=CAUSAL, is_causal=True)
    same(make, place, shaped(options, 4), 2, src_mask=CAUSAL, src_key_padding_mask=PADDING)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", OPTIONS)
def test_decoder_layer(name, place):
    options = OPTIONS[name]
    make = lambda m: m.TransformerDecoderLayer(8, 2, 12, dropout=0.0, **options)  # noqa: E731
    same(make, place, shaped(options, 4, 3), 0)
    same(
        make,
        place,
        shaped(options, 4, 4),
        1,
        tgt_mask=CAUSAL,
        tgt_is_causal=True,
        memory_key_padding_mask=PADDING,
    )
    given = {"memory_mask": CAUSAL, "memory_is_causal": True, "tgt_key_padding_mask": PADDING}
    same(make, place, shaped(options, 4, 4), 2, **given)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("norm", [False, True])
def test_stacks(norm, place):
    def encoder(m):
        layer = m.TransformerEncoderLayer(8, 2, 12, dropout=0.0)
        return m.TransformerEncoder(layer, 2, m.LayerNorm(8) if norm else None)

    def decoder(m):
        layer = m.TransformerDecoderLayer(8, 2, 12, dropout=0.0)
        return m.TransformerDecoder(layer, 2, m.LayerNorm(8) if norm else None)

    # In evaluation PyTorch's encoder writes zeros where the padding is: there is none here.
    same(encoder, place, shaped({}, 4), 0, mask=CAUSAL)
    same(decoder, place, shaped({}, 4, 4), 1, tgt_mask=CAUSAL, memory_key_padding_mask=PADDING)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", OPTIONS)
def test_transformer(name, place):
    options = OPTIONS[name]
    make = lambda m: m.Transformer(8, 2, 1, 2, 12, dropout=0.0, **options)  # noqa: E731
    same(
        make,
        place,
        shaped(options, 4, 4),
        0,
        tgt_mask=CAUSAL,
        src_mask=CAUSAL,
        memory_key_padding_mask=PADDING,
    )


def test_inputs_without_a_batch():
    make = lambda m: m.Transformer(8, 2, 1, 1, 12, dropout=0.0)  # noqa: E731
    same(make, "cpu-float64", lambda rng: [rng.normal(size=(4, 8)), rng.normal(size=(3, 8))], 0)


def test_causal_alone_is_the_causal_mask():
    # the oracle is the same model with the mask written out, as PyTorch asks for it
    model = nn.Transformer(8, 2, 2, 2, 12, dropout=0.0)
    src, tgt = grilly.randn(4, 2, 8), grilly.randn(4, 2, 8)
    mask = model.generate_square_subsequent_mask(4)
    np.testing.assert_array_equal(host(mask), torch.nn.Transformer.generate_square_subsequent_mask(4).numpy())
    a = model(src, tgt, src_is_causal=True, tgt_is_causal=True, memory_is_causal=True)
    b = model(src, tgt, src_mask=mask, tgt_mask=mask, memory_mask=mask)
    np.testing.assert_allclose(host(a), host(b), rtol=1e-5, atol=1e-5)


def test_the_layers_of_a_transformer_start_different_and_those_of_a_stack_alike():
    # as in PyTorch: stacks copy their layer, Transformer draws all matrices again
    first, second = nn.Transformer(8, 2, 2, 2, 12).encoder.layers
    assert (host(first.linear1.weight) != host(second.linear1.weight)).any()
    first, second = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12), 2).layers
    np.testing.assert_array_equal(host(first.linear1.weight), host(second.linear1.weight))
    assert first.linear1.weight is not second.linear1.weight


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_activations_by_name_and_by_function(activation):
    function = getattr(torch.nn.functional, activation)
    ours = nn.TransformerEncoderLayer(8, 2, 12, 0.0, activation)
    theirs = torch.nn.TransformerEncoderLayer(8, 2, 12, 0.0, function)
    ours.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).normal(size=(4, 2, 8)).astype(np.float32)
    np.testing.assert_allclose(host(ours(x)), host(theirs(torch.from_numpy(x))), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch_first", [False, True])
def test_rotary_positions_reach_queries_and_keys(batch_first):
    # the oracle is the layer written out around the function, whose turns are tested against their definition
    layer = nn.TransformerEncoderLayer(8, 2, 12, 0.0, norm_first=True, batch_first=batch_first, use_rope=True)
    x = grilly.randn(2, 5, 8)
    q, k, v = layer.self_attn._projected(*[layer.norm1(x)] * 3)
    rope = nn.RotaryEmbedding(4)
    q, k, v = (y.reshape(2, 5, 2, 4) for y in (q, k, v))
    q, k = rope(q), rope(k)
    y = nn.functional.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
    y = x + layer.self_attn.out_proj(y.transpose(1, 2).reshape(2, 5, 8))
    want = y + layer.linear2(nn.functional.relu(layer.linear1(layer.norm2(y))))
    got = layer(x if batch_first else x.transpose(0, 1), is_causal=True)
    np.testing.assert_allclose(
        host(got if batch_first else got.transpose(0, 1)), host(want), rtol=1e-5, atol=1e-5
    )
    decoder = nn.TransformerDecoderLayer(8, 2, 12, 0.0, use_rope=True)
    plain = nn.TransformerDecoderLayer(8, 2, 12, 0.0)
    plain.load_state_dict(decoder.state_dict())
    assert (host(decoder(x, x)) != host(plain(x, x))).any()


@pytest.mark.parametrize("form", ["batch-first", "batch-second", "no-batch"])
def test_prosody_is_the_bias_of_the_definition(form):
    # the oracle is PyTorch's layer with the bias as a mask
    ours = nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=form == "batch-first", use_prosody=True)
    theirs = torch.nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=form == "batch-first")
    state = {k: v for k, v in ours.state_dict().items() if k != "prosody_weight"}
    theirs.load_state_dict({k: torch.tensor(host(v)) for k, v in state.items()})
    rng = np.random.default_rng(0)
    shape = {"batch-first": (3, 5, 8), "batch-second": (5, 3, 8), "no-batch": (5, 8)}[form]
    x, prosody = rng.normal(size=shape).astype(np.float32), rng.normal(size=(3, 5, 2)).astype(np.float32)
    prosody = prosody[0] if form == "no-batch" else prosody
    bias = 0.3 * np.einsum("bjp,hp->bhj", prosody.reshape(-1, 5, 2), host(ours.prosody_weight))
    mask = np.repeat(bias.reshape(-1, 1, 5), 5, axis=1)
    encoder = nn.TransformerEncoder(ours, 1)
    p = grilly.asarray(prosody).requires_grad_()
    y = encoder(grilly.asarray(x), prosody=p)
    want = theirs(torch.from_numpy(x), src_mask=torch.from_numpy(mask))
    np.testing.assert_allclose(host(y), host(want), rtol=1e-4, atol=1e-5)
    (y**2).sum().backward()
    assert host(p.grad).any() and host(encoder.layers[0].prosody_weight.grad).any()
    assert ours(grilly.asarray(x)).shape == shape  # without it the layer is plain
    with pytest.raises(TypeError, match="use_prosody"):
        nn.TransformerEncoderLayer(8, 2, 12)(grilly.asarray(x), prosody=prosody)


def test_dropout_acts_in_training_only():
    # the oracle is the definition: with p = 1 only the residual path is left
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=1.0, norm_first=True)
    x = grilly.randn(4, 2, 8)
    np.testing.assert_array_equal(host(layer(x)), host(x))
    assert (host(layer.eval()(x)) != host(x)).any()


def test_errors_name_what_was_wrong():
    model = nn.Transformer(8, 2, 1, 1, 12)
    with pytest.raises(ValueError, match="activation"):
        nn.TransformerEncoderLayer(8, 2, activation="softplus")
    with pytest.raises(ShapeError, match="d_model=8"):
        model(grilly.zeros((3, 2, 8)), grilly.zeros((3, 2, 7)))
    with pytest.raises(ShapeError, match="same batch"):
        model(grilly.zeros((3, 2, 8)), grilly.zeros((3, 1, 8)))
    with pytest.raises(ShapeError, match="3 axes"):
        model(grilly.zeros((3, 2, 8)), grilly.zeros((3, 8)))
    with pytest.raises(ShapeError, match="num_layers"):
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 0)
