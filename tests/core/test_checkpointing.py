"""Recomputation: gradients have the same bits as without, and less memory is held in between."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import nn, optim
from grilly_core.buffer import Buffer
from grilly_core.errors import AutogradError


def stack(depth=4, width=16):
    grilly.manual_seed(3)
    blocks = [
        nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.3))
        for _ in range(depth)
    ]
    return nn.Sequential(*blocks)


def batch(width=16):
    return grilly.asarray(np.random.default_rng(0).normal(size=(8, width)).astype(np.float32))


def through(model, x, how):
    """Run the blocks, each of them in the given way."""
    for block in model:
        x = how(block, x)
    return x


def plain(block, x):
    return block(x)


def gradients(how, autocast=None):
    model, x = stack(), batch().requires_grad_()
    grilly.manual_seed(11)
    with grilly.autocast(autocast or "bfloat16", enabled=autocast is not None):
        loss = (through(model, x, how) ** 2).sum()
    loss.backward()
    after = grilly.rand(2).tolist()  # the generator stands where it would have stood
    return [
        loss.item(),
        x.grad.tolist(),
        after,
        *[p.grad.tolist() for p in model.parameters()],
        *weights(model),
    ]


def weights(model):
    return [v.tolist() for v in model.state_dict().values()]


WAYS = {
    "module": grilly.checkpoint,
    "not-reentrant": lambda block, x: grilly.checkpoint(block, x, use_reentrant=False),
    "keyword": lambda block, x: grilly.checkpoint(block, input=x),
    "containers": lambda block, x: grilly.checkpoint(_OfDict(block), {"x": [x]})[0]["y"],
    "nested": lambda block, x: grilly.checkpoint(_Nested(block), x),
    "sequential": lambda block, x: grilly.checkpoint_sequential(block, 2, x),
}


class _OfDict(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, given):
        return ({"y": self.block(given["x"][0])},)


class _Nested(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        inner = grilly.checkpoint(lambda t: self.block[1](self.block[0](t)), x)
        return self.block[3](grilly.checkpoint(self.block[2], inner))


@pytest.mark.parametrize("autocast", [None, "bfloat16", "float16"])
@pytest.mark.parametrize("way", WAYS)
def test_gradients_statistics_and_randomness_are_the_same(way, autocast):
    """Dropout draws the same masks, batch norms count once, casts are the same: all bits agree."""
    assert gradients(WAYS[way], autocast) == gradients(plain, autocast)


def held():
    gc.collect()
    return sum(b.nbytes for b in gc.get_objects() if isinstance(b, Buffer))


@pytest.mark.parametrize("way", ["module", "nested"])
def test_less_memory_is_held_between_forward_and_backward(way):
    def kept(how):
        model, x = stack(depth=6), batch().requires_grad_()
        before = held()
        loss = (through(model, x, how) ** 2).sum()
        middle = held() - before
        loss.backward()
        del loss
        gradients = sum(t.grad.numel() * 4 for t in (x, *model.parameters()))
        return middle, held() - before - gradients

    kept(WAYS[way])  # makes the cached constants
    (less, left), (more, _) = kept(WAYS[way]), kept(plain)
    assert 0 < less < 0.45 * more
    assert left == 0  # nothing is kept after the walk


def test_nothing_is_kept_of_what_nobody_goes_back_through():
    model, x = stack(), batch()
    through(model, x, grilly.checkpoint)
    before = held()
    y = through(model, x, grilly.checkpoint)
    assert held() > before
    gc.disable()
    try:
        del y
        left = sum(b.nbytes for b in gc.get_objects() if isinstance(b, Buffer))
    finally:
        gc.enable()
    assert left <= before


def test_the_function_runs_twice_and_only_when_it_must():
    calls = []

    def square(x):
        calls.append(1)
        return x * x

    x = grilly.tensor([3.0], requires_grad=True)
    y = grilly.checkpoint(square, x).sum()
    assert len(calls) == 1
    y.backward(retain_graph=True)
    y.backward()
    assert len(calls) == 2 and x.grad.tolist() == [12.0]
    with pytest.raises(AutogradError, match="second time"):
        y.backward()
    with grilly.no_grad():
        grilly.checkpoint(square, x)
    assert len(calls) == 3


def test_grad_and_second_derivatives():
    def cube(x):
        return (x * x * x).sum()

    x = grilly.tensor([2.0, -1.0], requires_grad=True)
    (first,) = grilly.grad(grilly.checkpoint(cube, x), x, create_graph=True)
    (second,) = grilly.grad(first.sum(), x)
    assert first.tolist() == [12.0, 3.0] and second.tolist() == [12.0, -6.0]


def test_several_outputs_of_which_one_is_used_and_hooks():
    x, seen = grilly.tensor([1.0, 2.0], requires_grad=True), []

    def both(t):
        a = t * t
        a.register_hook(lambda g: seen.append(g.tolist()))
        return a.exp(), (a * 3.0, "kept"), 7

    e, (triple, word), number = grilly.checkpoint(both, x)
    assert (word, number) == ("kept", 7)
    del e
    triple.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0] and seen == [[3.0, 3.0]]


def test_custom_gradients_inside():
    kept = []

    class Scaled(grilly.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.exp())
            kept.append(1)
            return x * 2.0

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = grilly.tensor([0.0, 1.0], requires_grad=True)
    grilly.checkpoint(lambda t: Scaled.apply(t * 1.0).sum(), x).backward()
    assert len(kept) == 2
    np.testing.assert_allclose(x.grad.numpy(), np.exp([0.0, 1.0]), rtol=1e-6)


def test_a_module_is_run_again_with_the_weights_of_its_forward_pass():
    def gradient(how, write):
        layer = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
        for p in layer.parameters():
            nn.init.constant_(p, 0.3)
        loss = how(layer, batch(3)).sum()
        if write:
            with grilly.no_grad():
                for p in layer.parameters():
                    p.add_(5.0)
        loss.backward()
        return [p.grad.tolist() for p in layer.parameters()], weights(layer)

    assert gradient(grilly.checkpoint, True) == gradient(plain, True)
    assert gradient(grilly.checkpoint, True)[0] == gradient(grilly.checkpoint, False)[0]


def test_a_changed_tensor_of_a_closure_is_told():
    w = nn.Parameter(grilly.tensor([2.0]))
    loss = grilly.checkpoint(lambda x: (w * x).exp().sum(), grilly.tensor([1.0], requires_grad=True))
    with grilly.no_grad():
        w.add_(1.0)
    with pytest.raises(AutogradError, match="was changed between"):
        loss.backward()


def test_an_argument_written_to_later_counts_as_it_was():
    w, x = nn.Parameter(grilly.tensor([2.0])), grilly.tensor([3.0])
    loss = grilly.checkpoint(lambda t: (w * t).sum(), x)
    x.fill_(100.0)
    loss.backward()
    assert w.grad.tolist() == [3.0]


def test_another_course_is_told():
    calls = []

    def fickle(x):
        calls.append(1)
        return (x * x).sum() if len(calls) == 1 else x.exp().sum()

    x = grilly.tensor([1.0], requires_grad=True)
    with pytest.raises(AutogradError, match="operation 0: 'mul'.*'exp'"):
        grilly.checkpoint(fickle, x).backward()

    def growing(x):
        calls.append(1)
        return (x.expand(len(calls), 1) * 2.0).sum()

    with pytest.raises(AutogradError, match="differs from the first"):
        grilly.checkpoint(growing, x).backward()


def test_contexts_and_refusals():
    entered = []

    class Context:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            entered.append(self.name)

        def __exit__(self, *exc):
            entered.append(f"end of {self.name}")

    x = grilly.tensor([1.0], requires_grad=True)
    grilly.checkpoint(
        lambda t: t.exp().sum(), x, context_fn=lambda: (Context("first"), Context("second"))
    ).backward()
    assert entered == ["first", "end of first", "second", "end of second"]
    with pytest.raises(ValueError, match="use_reentrant"):
        grilly.checkpoint(lambda t: t, x, use_reentrant=True)
    with pytest.raises(ValueError, match="determinism_check"):
        grilly.checkpoint(lambda t: t, x, determinism_check="strict")
    with pytest.raises(ValueError, match="segments"):
        grilly.checkpoint_sequential(stack(), 9, batch())
    with pytest.raises(TypeError, match="offload"):
        grilly.checkpoint_sequential(stack(), 2, batch(), offload=True)


def test_other_masks_without_the_random_state():
    """The mask of the second run then differs from the forward pass's, in about half of the elements."""
    x = grilly.ones(1000).requires_grad_()
    grilly.manual_seed(5)
    drop = nn.Dropout(0.5)
    y = grilly.checkpoint(lambda t: drop(t * t), x, preserve_rng_state=False)
    y.sum().backward()
    differing = float(((y == 0.0) != (x.grad == 0.0)).to("float32").mean().item())
    assert 0.3 < differing < 0.7


@pytest.mark.parametrize("way", ["module", "nested"])
def test_captured_training_with_recomputation(way):
    """Captured or not, recomputed or not: the same losses and weights."""

    def run(how, captured):
        model = stack()
        opt = optim.AdamW(model.parameters(), lr=0.01)
        grilly.manual_seed(7)

        def step(x):
            opt.zero_grad()
            loss = (through(model, x, how) ** 2).mean()
            loss.backward()
            opt.step()
            return loss

        call = grilly.capture(step, state=(model, opt)) if captured else step
        losses = [call(batch() * (1.0 + i)).item() for i in range(8)]
        if captured:
            assert all(stage.program is not None for stage in call.programs.values())
        return losses, weights(model)

    wanted = run(plain, False)
    assert run(WAYS[way], False) == wanted
    assert run(WAYS[way], True) == wanted
