"""Recurrent layers and packed sequences, with PyTorch as the oracle: outputs, states and all gradients."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from tests.peers.peer_modules import PLACES, compare, flat, host, need, paired  # noqa: E402

import grilly_core as grilly  # noqa: E402
from grilly_core import nn  # noqa: E402
from grilly_core.errors import ShapeError  # noqa: E402

# PyTorch says which of its own implementations it takes.
pytestmark = pytest.mark.filterwarnings(
    "ignore:LSTM with projections is not supported with oneDNN:UserWarning"
)

KINDS = ("RNN", "LSTM", "GRU")
CPU = ("cpu-float32", "cpu-float64")


@st.composite
def layers(draw):
    """Sizes, options and a seed of a recurrent layer with an input."""
    options = {
        "num_layers": draw(st.integers(1, 3)), "bias": draw(st.booleans()), "batch_first": draw(st.booleans()),
        "bidirectional": draw(st.booleans()),
    }  # fmt: skip
    sizes = {name: draw(st.integers(1, 6)) for name in ("steps", "batch", "inputs")}
    return options, sizes, draw(st.integers(2, 7)), draw(st.integers(0, 2**32 - 1))


def made(kind, sizes, hidden, options):
    options = dict(options)
    projected = options.pop("projected", False) and kind == "LSTM"
    if projected:
        options["proj_size"] = hidden - 1
    return lambda n: getattr(n, kind)(sizes["inputs"], hidden, **options)


def inputs(kind, sizes, hidden, options, rng, with_state):
    shape = [sizes["steps"], sizes["batch"], sizes["inputs"]]
    if options["batch_first"]:
        shape[:2] = shape[1::-1]
    arrays = [rng.normal(size=shape)]
    if with_state:
        count = options["num_layers"] * (2 if options["bidirectional"] else 1)
        width = hidden - 1 if options.get("projected") and kind == "LSTM" else hidden
        arrays += [rng.normal(size=(count, sizes["batch"], width))]
        arrays += [rng.normal(size=(count, sizes["batch"], hidden))] if kind == "LSTM" else []
    return arrays


def call(library, tensors):
    x, *state = tensors
    return (x, tuple(state)) if len(state) == 2 else (x, *state)


def check(kind, place, case, projected, with_state):
    options, sizes, hidden, seed = case
    rng = np.random.default_rng(seed)
    options = {**options, "projected": projected}
    ours, theirs = paired(made(kind, sizes, hidden, options), rng, place)
    compare(ours, theirs, inputs(kind, sizes, hidden, options, rng, with_state), rng, place, call)


@pytest.mark.parametrize("place", CPU)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12, deadline=None)
@given(case=layers(), projected=st.booleans(), with_state=st.booleans())
def test_layers_equal_torch(kind, place, case, projected, with_state):
    check(kind, place, case, projected, with_state)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=3, deadline=None)
@given(case=layers(), projected=st.booleans())
def test_layers_on_vulkan_equal_torch(kind, case, projected):
    need("vulkan-float32")
    check(kind, "vulkan-float32", case, projected, True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [3, 40])
def test_a_batch_that_fills_blocks_of_the_kernels(kind, rows):
    rng = np.random.default_rng(1)
    ours, theirs = paired(lambda n: getattr(n, kind)(5, 1000), rng, "cpu-float32", 0.03)
    compare(ours, theirs, [rng.normal(size=(3, rows, 5))], rng, "cpu-float32")


@pytest.mark.parametrize("place", ["cpu-float32", "cpu-float64", "vulkan-float32"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "LSTM-projected", "GRU"])
@pytest.mark.parametrize("lengths", [[5, 3, 3, 1], [2, 5, 1, 4]])
def test_packed_sequences_equal_torch(kind, bidirectional, lengths, place):
    need(place)
    rng = np.random.default_rng(3)
    options = {"proj_size": 2} if kind == "LSTM-projected" else {}
    name = kind.partition("-")[0]
    ours, theirs = paired(
        lambda n: getattr(n, name)(3, 4, num_layers=2, bidirectional=bidirectional, **options), rng, place
    )
    count = 4 if bidirectional else 2
    arrays = [rng.normal(size=(6, 4, 3)), rng.normal(size=(count, 4, 2 if options else 4))]
    arrays += [rng.normal(size=(count, 4, 4))] if name == "LSTM" else []

    def packed(library, tensors):
        utils = library.nn.utils.rnn
        x, *state = tensors
        first = utils.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return (first, tuple(state)) if len(state) == 2 else (first, *state)

    def padded(module, utils):
        def run(*args):
            y, state = module(*args)
            return utils.pad_packed_sequence(y, padding_value=0.5, total_length=6), state

        run.named_parameters, run.parameters = module.named_parameters, module.parameters
        return run

    compare(padded(ours, nn.utils.rnn), padded(theirs, torch.nn.utils.rnn), arrays, rng, place, packed)


@pytest.mark.parametrize("place", CPU)
@pytest.mark.parametrize("kind", KINDS)
def test_input_without_batch_equals_torch(kind, place):
    rng = np.random.default_rng(4)
    ours, theirs = paired(lambda n: getattr(n, kind)(3, 4, bidirectional=True), rng, place)
    arrays = [rng.normal(size=(5, 3)), rng.normal(size=(2, 4)), rng.normal(size=(2, 4))]
    compare(ours, theirs, arrays if kind == "LSTM" else arrays[:2], rng, place, call)


@pytest.mark.parametrize("place", list(PLACES))
@pytest.mark.parametrize("kind", ["RNNCell", "RNNCell-relu", "LSTMCell", "GRUCell"])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_cells_equal_torch(kind, place, batch):
    need(place)
    name, _, activation = kind.partition("-")
    options = {"nonlinearity": activation} if activation else {}
    rng = np.random.default_rng(5)
    for bias in (True, False):
        ours, theirs = paired(lambda n, b=bias: getattr(n, name)(3, 4, bias=b, **options), rng, place)
        arrays = [rng.normal(size=(*batch, 3)), rng.normal(size=(*batch, 4)), rng.normal(size=(*batch, 4))]
        arrays = arrays if name == "LSTMCell" else arrays[:2]
        compare(ours, theirs, arrays[:1], rng, place, call)
        compare(
            *paired(lambda n, b=bias: getattr(n, name)(3, 4, bias=b, **options), rng, place),
            arrays,
            rng,
            place,
            call,
        )


def test_relu_layers_equal_torch():
    rng = np.random.default_rng(6)
    ours, theirs = paired(lambda n: n.RNN(3, 4, num_layers=2, nonlinearity="relu"), rng, "cpu-float64")
    compare(ours, theirs, [rng.normal(size=(5, 2, 3))], rng, "cpu-float64")


def test_gradients_of_gradients_equal_torch():
    rng = np.random.default_rng(7)
    for kind in KINDS:
        ours, theirs = paired(lambda n, k=kind: getattr(n, k)(3, 4), rng, "cpu-float64")
        x = rng.normal(size=(4, 2, 3))
        a, b = grilly.asarray(x, dtype="float64").requires_grad_(), torch.from_numpy(x).requires_grad_()
        (g,) = grilly.autograd.grad((ours(a)[0] ** 2).sum(), a, create_graph=True)
        (h,) = torch.autograd.grad((theirs(b)[0] ** 2).sum(), b, create_graph=True)
        (g**2).sum().backward()
        (h**2).sum().backward()
        np.testing.assert_allclose(host(a.grad), host(b.grad), rtol=1e-9, atol=1e-9)


def test_dropout_acts_between_layers_in_training_only():
    # the oracle is the definition: with p = 1 the second layer sees zeros
    layer = nn.GRU(3, 4, num_layers=2, dropout=1.0)
    x = grilly.rand(5, 2, 3)
    y, _ = layer(x)
    second = nn.GRU(4, 4)
    second.load_state_dict({k: getattr(layer, k.replace("l0", "l1")).detach() for k in second.state_dict()})
    np.testing.assert_allclose(host(y), host(second(grilly.zeros((5, 2, 4)))[0]), rtol=1e-6)
    layer.eval()
    plain = nn.GRU(3, 4, num_layers=2)
    plain.load_state_dict(layer.state_dict())
    np.testing.assert_array_equal(host(layer(x)[0]), host(plain(x)[0]))
    with pytest.warns(UserWarning, match="num_layers=1"):
        nn.GRU(3, 4, dropout=0.5)


@pytest.mark.parametrize("kind", [*KINDS, "LSTMCell"])
def test_first_values_and_looks_equal_torch(kind):
    sizes = (30, 50) if kind.endswith("Cell") else (30, 50, 2)
    ours, theirs = getattr(nn, kind)(*sizes), getattr(torch.nn, kind)(*sizes)
    assert repr(ours) == repr(theirs)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        bound = 50**-0.5
        assert host(p).shape == tuple(q.shape) and np.abs(host(p)).max() <= bound
        np.testing.assert_allclose(host(p).std(), bound / 3**0.5, rtol=0.2)


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5), batch_first=st.booleans(), value=st.integers(-2, 2),
    side=st.sampled_from(["right", "left"]), tail=st.sampled_from([(), (2,)]),
)  # fmt: skip
def test_padding_and_packing_equal_torch(lengths, batch_first, value, side, tail):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, *tail)).astype(np.float32) for n in lengths]
    ours, theirs = nn.utils.rnn, torch.nn.utils.rnn
    a, b = [grilly.asarray(x) for x in arrays], [torch.from_numpy(x) for x in arrays]
    padded = ours.pad_sequence(a, batch_first, float(value), side)
    np.testing.assert_array_equal(host(padded), host(theirs.pad_sequence(b, batch_first, float(value), side)))
    p, q = ours.pack_sequence(a, enforce_sorted=False), theirs.pack_sequence(b, enforce_sorted=False)
    np.testing.assert_array_equal(host(p.batch_sizes), host(q.batch_sizes))
    for s, t in zip(ours.unpack_sequence(p), arrays, strict=True):
        np.testing.assert_array_equal(host(s), t)
    (x, n), (y, m) = (
        ours.pad_packed_sequence(p, batch_first, value),
        theirs.pad_packed_sequence(q, batch_first, value),
    )
    np.testing.assert_array_equal(host(x), host(y))
    np.testing.assert_array_equal(host(n), host(m))
    if not batch_first:
        for s, t in zip(ours.unpad_sequence(x, n), arrays, strict=True):
            np.testing.assert_array_equal(host(s), t)


def test_errors_name_what_was_wrong():
    with pytest.raises(ShapeError, match="input_size=3"):
        nn.LSTM(3, 4)(grilly.zeros((5, 2, 2)))
    with pytest.raises(ShapeError, match=r"state of shape \(1, 2, 4\)"):
        nn.GRU(3, 4)(grilly.zeros((5, 2, 3)), grilly.zeros((1, 1, 4)))
    with pytest.raises(ShapeError, match="2 tensors"):
        nn.LSTM(3, 4)(grilly.zeros((5, 2, 3)), (grilly.zeros((1, 2, 4)),))
    with pytest.raises(ShapeError, match="time step"):
        nn.GRU(3, 4)(grilly.zeros((0, 2, 3)))
    with pytest.raises(ValueError, match="proj_size"):
        nn.LSTM(3, 4, proj_size=4)
    with pytest.raises(ValueError, match="dropout"):
        nn.LSTM(3, 4, dropout=1.5)
    with pytest.raises(ValueError, match="nonlinearity"):
        nn.RNNCell(3, 4, nonlinearity="gelu")
    with pytest.raises(ValueError, match="enforce_sorted=False"):
        nn.utils.rnn.pack_padded_sequence(grilly.zeros((3, 2, 1)), [1, 3])
    with pytest.raises(ValueError, match="from 1 to 3"):
        nn.utils.rnn.pack_padded_sequence(grilly.zeros((3, 2, 1)), [4, 3])
    assert flat(nn.LSTM(3, 4)(grilly.zeros((5, 2, 3))))[0].shape == (5, 2, 4)
