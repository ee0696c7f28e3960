"""Memory functions and modules against NumPy in float64, PyTorch's attention formula, and each other."""

from __future__ import annotations

import numpy as np
import pytest

import grilly
from grilly_core.errors import ShapeError
from grilly_ext_memory.functional import recall
from grilly_ext_memory.nn.bank import MemoryBank, MemoryRead, MemoryWrite
from grilly_ext_memory.nn.inject import (
    MemoryContextAggregate,
    MemoryInjectConcat,
    MemoryInjectGate,
    MemoryInjectResidual,
    MemoryQueryPooling,
)

RNG = np.random.default_rng(0)
Q, K, V = RNG.standard_normal((3, 4)), RNG.standard_normal((6, 4)), RNG.standard_normal((6, 2))


def wide(x):
    return grilly.asarray(x, dtype="float64")


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_reading_is_attention_with_one_head():
    values, weights = recall.memory_read(wide(Q), wide(K), wide(V), return_weights=True)
    np.testing.assert_allclose(weights.numpy(), softmax(Q @ K.T / 2), rtol=1e-12)
    attended = grilly.functional.scaled_dot_product_attention(wide(Q)[None], wide(K)[None], wide(V)[None])
    np.testing.assert_allclose(values.numpy(), attended.numpy()[0], rtol=1e-12)
    single = recall.memory_read(wide(Q[1]), wide(K), wide(V))
    np.testing.assert_allclose(single.numpy(), values.numpy()[1], rtol=1e-12)


def test_masks_and_the_best_slots():
    mask = np.array([True, False, True, True, False, True])
    values = recall.memory_read(wide(Q), wide(K), wide(V), mask=mask)
    np.testing.assert_allclose(values.numpy(), softmax(Q @ K[mask].T / 2) @ V[mask], rtol=1e-12)
    sparse, weights = recall.memory_read(wide(Q), wide(K), wide(V), top_k=2, return_weights=True)
    best = np.argsort(-(Q @ K.T), axis=1)[:, :2]
    for row, chosen in enumerate(best):
        np.testing.assert_allclose(
            sparse.numpy()[row], softmax(Q[row] @ K[chosen].T / 2) @ V[chosen], rtol=1e-12
        )
    assert ((weights.numpy() > 0).sum(1) == 2).all()
    nothing = recall.memory_read(wide(Q), wide(K), wide(V), mask=np.zeros(6, bool))
    np.testing.assert_array_equal(nothing.numpy(), 0)
    tied = recall.memory_read(np.ones(2), np.ones((4, 2)), np.eye(4), top_k=2)
    np.testing.assert_allclose(tied.numpy(), [0.5, 0.5, 0, 0])


def test_hopfield_iterations_retrieve_the_stored_pattern():
    """Ramsauer et al. 2020: with a large beta one update of a noisy pattern gives the pattern, and stays there."""
    patterns = np.sign(RNG.standard_normal((20, 64)))
    noisy = patterns[7].copy()
    noisy[:18] *= -1
    for iterations in (1, 2, 5):
        found = recall.memory_read(
            wide(noisy), wide(patterns), wide(patterns), 1 / 8.0, iterations=iterations
        )
        np.testing.assert_allclose(found.numpy(), patterns[7], atol=1e-6)
    q, beta = Q, 1 / 1.5
    for _ in range(2):
        q = softmax(beta * q @ K.T) @ K
    three = recall.memory_read(wide(Q), wide(K), wide(V), 1.5, iterations=3)
    np.testing.assert_allclose(three.numpy(), softmax(beta * q @ K.T) @ V, rtol=1e-10)


def test_writing_returns_copies_and_the_last_row_wins():
    k, v = recall.memory_write(Q[:, :], V[:3], K, V, [5, 0, 5])
    wanted = K.copy()
    wanted[0], wanted[5] = Q[1], Q[2]
    np.testing.assert_allclose(k.numpy(), wanted, rtol=1e-6)
    np.testing.assert_allclose(v.numpy()[5], V[2], rtol=1e-6)
    blended, _ = recall.memory_write(Q[0], V[0], K, V, 3, "blend", 0.25)
    np.testing.assert_allclose(blended.numpy()[3], 0.75 * K[3] + 0.25 * Q[0], rtol=1e-6)
    np.testing.assert_array_equal(blended.numpy()[:3], K[:3].astype("f4"))
    for wrong in (6, -1, [0, 9]):
        with pytest.raises(IndexError, match="slots are 0 to 5"):
            recall.memory_write(Q[:1] if np.ndim(wrong) == 0 else Q[:2], V[:1], K, V, wrong)
    with pytest.raises(ValueError, match="write_mode"):
        recall.memory_write(Q[0], V[0], K, V, 0, 2)


def test_pooling_aggregation_and_injection_are_their_formulas():
    x, mem = RNG.standard_normal((2, 5, 4)), RNG.standard_normal((2, 4))
    scores, mask = RNG.standard_normal((2, 5)), np.array([[True] * 5, [True, False, True, False, False]])
    np.testing.assert_allclose(recall.memory_context_aggregate(wide(x)).numpy(), x.mean(1), rtol=1e-12)
    masked = np.where(mask, scores, -np.inf)
    np.testing.assert_allclose(
        recall.memory_context_aggregate(wide(x), wide(scores), mask).numpy(),
        np.einsum("bs,bsd->bd", softmax(masked), x), rtol=1e-10,
    )  # fmt: skip
    w, b = RNG.standard_normal((4, 8)), RNG.standard_normal(4)
    both = np.concatenate([x, np.broadcast_to(mem[:, None], x.shape)], -1)
    np.testing.assert_allclose(
        recall.memory_inject_concat(wide(x), wide(mem), wide(w), wide(b)).numpy(), both @ w.T + b, rtol=1e-10
    )
    p = mem @ K[:4].T
    for mode in ("blend", "additive"):
        for source in ("mem", "proj"):
            seen = mem if source == "mem" else p
            gate_in = np.concatenate([x, np.broadcast_to(seen[:, None], x.shape)], -1)
            g = 1 / (1 + np.exp(-(gate_in @ w.T + b)))
            wanted = (1 - g) * x + g * p[:, None] if mode == "blend" else x + g * p[:, None]
            made = recall.memory_inject_gate(
                wide(x), wide(mem), wide(w), wide(b), wide(K[:4]), mode=mode, gate_input=source
            )
            np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-10)
    for where, at in (("all", slice(None)), ("first", slice(0, 1)), ("last", slice(4, 5))):
        wanted = x.copy()
        wanted[:, at] += 0.3 * (p + b)[:, None]
        made = recall.memory_inject_residual(
            wide(x), wide(mem), wide(K[:4]), wide(b), strength=0.3, where=where
        )
        np.testing.assert_allclose(made.numpy(), wanted, rtol=1e-10)


def test_a_writer_and_a_reader_share_a_bank():
    bank = MemoryBank(4, 2, capacity=5)
    read, write = MemoryRead(bank=bank, temperature=0.05).eval(), MemoryWrite(bank=bank)
    np.testing.assert_array_equal(read(Q.astype("f4")).numpy(), 0)  # nothing is there yet
    keys = np.eye(4, dtype="f4") * 3
    assert write(keys[:3], V[:3].astype("f4")).tolist() == [0, 1, 2] and len(bank) == 3
    np.testing.assert_allclose(read(keys[:3]).numpy(), V[:3], atol=1e-5)
    other = MemoryBank(4, 2, capacity=5)
    other.load_state_dict(bank.state_dict())
    np.testing.assert_array_equal(other.read(keys[:3], 0.05).numpy(), bank.read(keys[:3], 0.05).numpy())
    bank.clear()
    assert len(bank) == 0
    np.testing.assert_array_equal(read(keys).numpy(), 0)


@pytest.mark.parametrize("eviction, gone", [("ring", 0), ("lru", 1), ("least_used", 2)])
def test_eviction_rules(eviction, gone):
    """Slot 0 is oldest, slot 1 unread for longest, slot 2 got the least weight of all reads."""
    bank = MemoryBank(3, 1, capacity=3, eviction=eviction)
    keys = np.eye(3, dtype="f4") * 4
    for row in range(3):
        bank.write(keys[row], np.full(1, row, "f4"))
    for slot, times in ((1, 3), (0, 2), (2, 1), (0, 1)):
        for _ in range(times):
            bank.read(keys[slot : slot + 1], 0.1)
    assert bank.write(np.full(3, 9, "f4"), np.ones(1, "f4")).tolist() == [gone]
    assert len(bank) == 3


def test_blending_writes_do_not_mix_with_a_slot_that_holds_nothing():
    bank = MemoryBank(2, 1, capacity=3)
    write = MemoryWrite(bank=bank, write_mode=1, blend_factor=0.5)
    write([4.0, 0.0], [1.0], 1)
    np.testing.assert_allclose(bank.keys.numpy()[1], [4, 0])
    write([0.0, 4.0], [3.0], 1)
    np.testing.assert_allclose(bank.keys.numpy()[1], [2, 2])
    np.testing.assert_allclose(bank.values.numpy()[1], [2])


def test_gradients_reach_queries_what_was_written_and_every_parameter():
    bank = MemoryBank(4, 2, capacity=5, track_writes=True)
    keys, values = (grilly.asarray(x[:3].astype("f4")).requires_grad_() for x in (K, V))
    query = grilly.asarray(Q.astype("f4")).requires_grad_()
    bank.write(keys, values)
    bank.read(query).sum().backward()
    assert all((x.grad.numpy() != 0).any() for x in (keys, values, query))
    bank.detach()
    assert not bank.keys.requires_grad
    untracked = MemoryBank(4, 2, capacity=5)
    untracked.write(keys, values)
    assert not untracked.keys.requires_grad
    x, mem = grilly.randn((2, 5, 4)), grilly.randn((2, 4))
    for module, inputs in (
        (MemoryContextAggregate(4, scored=True), (x,)),
        (MemoryQueryPooling(4, 3), (x,)),
        (MemoryInjectConcat(4), (x, mem)),
        (MemoryInjectGate(4), (x, mem)),
        (MemoryInjectResidual(4, where="first"), (x, mem)),
    ):
        (module(*inputs) ** 2).sum().backward()
        assert all((p.grad.numpy() != 0).any() for n, p in module.named_parameters() if n != "score.bias"), (
            module
        )


def test_bad_input():
    with pytest.raises(ShapeError, match="queries"):
        recall.memory_read(np.ones((2, 3)), K, V)
    with pytest.raises(ValueError, match="temperature"):
        recall.memory_read(Q, K, V, 0.0)
    with pytest.raises(ValueError, match="eviction"):
        MemoryBank(2, 2, 2, "random")
    with pytest.raises(ValueError, match="bank"):
        MemoryRead(4, bank=MemoryBank(4, 2, 2))
    with pytest.raises(ValueError, match="key_dim"):
        MemoryWrite(4, 2)
    bank = MemoryBank(4, 2, 2)
    with pytest.raises(ShapeError, match=r"keys must be \(N, 4\)"):
        bank.write(np.ones((1, 3)), np.ones((1, 2)))
    with pytest.raises(ShapeError, match="2 slots"):
        bank.write(np.ones((3, 4)), np.ones((3, 2)))
    with pytest.raises(ShapeError, match="as many"):
        bank.write(np.ones((2, 4)), np.ones((1, 2)))


def test_masks_in_half_precision():
    """Slots that are masked get no weight and no gradient, and a row without any is 0, in f16 as in f32."""
    mask = np.array([[True, False] * 3, [False] * 6, [True] * 6])
    results = []
    for dtype in ("float16", "float32"):
        q, k, v = (grilly.asarray(x.astype("f4")).to(dtype).requires_grad_() for x in (Q, K, V))
        values, weights = recall.memory_read(q, k, v, mask=mask, top_k=4, return_weights=True)
        values.sum().backward()
        results.append([x.detach().to("float32").numpy() for x in (values, weights, q.grad, k.grad, v.grad)])
        assert all(np.isfinite(x).all() for x in results[-1])
        assert not results[-1][1][~mask].any() and not results[-1][0][1].any() and not results[-1][2][1].any()
    for half, full in zip(*results, strict=True):
        np.testing.assert_allclose(half, full, rtol=2e-2, atol=1e-2)


def test_a_cleared_bank_keeps_its_shape_and_nothing_else():
    bank = MemoryBank(4, 2, capacity=3, track_writes=True)
    bank.write(grilly.ones((2, 4)).requires_grad_(), grilly.ones((2, 2)))
    bank.clear()
    assert len(bank) == 0 and not bank.keys.requires_grad and not bank.values.numpy().any()
    assert bank.write(grilly.ones((1, 4)), grilly.ones((1, 2))).tolist() == [0]
