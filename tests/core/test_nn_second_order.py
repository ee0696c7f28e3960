"""Gradients of gradients of every neural-network op, against central differences of its gradient in float64."""

from __future__ import annotations

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import registry
from grilly_core.samples import cases_of

running = pytest.importorskip("grilly_testkit.running")
STEP = 1e-6


def usable(case):
    arrays = [x for x in case.inputs if x is not None]
    return case.grad == "exact" and all(x.size for x in arrays) and running.differentiable(case)


CASES = {
    str(case): case
    for op in registry.specs().values()
    if op.name.startswith("nn.") and not op.nondiff
    for case in cases_of(op).cases
    if usable(case)
}


def watched(arrays):
    return [grilly.asarray(x, dtype="float64").requires_grad_() for x in arrays]


def gradients(case, places, values, create_graph=False):
    """Gradients of a fixed linear function of the outputs."""
    inputs = [running.placed(x, "cpu", True) for x in case.inputs]
    for i, value in zip(places, values, strict=True):
        inputs[i] = value
    total = None
    for k, out in enumerate(running.outputs(running.run(case, "cpu", wide=True, inputs=tuple(inputs)))):
        if out.requires_grad:
            weights = np.cos(np.arange(out.numel()) + k).reshape(out.shape)
            term = (out * grilly.asarray(weights, dtype="float64")).sum()
            total = term if total is None else total + term
    return grilly.grad(total, values, create_graph=create_graph, allow_unused=True)


def along(tensors, directions):
    pairs = [(t, v) for t, v in zip(tensors, directions, strict=True) if t is not None]
    return float(sum((t.detach().numpy() * v).sum() for t, v in pairs))


@pytest.mark.parametrize("name", CASES)
def test_second_derivative(name):
    case = CASES[name]
    rng = np.random.default_rng(0)
    places = running.differentiable(case)
    start = [np.asarray(case.inputs[i], np.float64) for i in places]
    v, u = ([rng.normal(size=x.shape) for x in start] for _ in range(2))
    values = watched(start)
    first = gradients(case, places, values, create_graph=True)
    terms = [
        (g * grilly.asarray(d, dtype="float64")).sum()
        for g, d in zip(first, v, strict=True)
        if g is not None and g.requires_grad
    ]
    second = grilly.grad(sum(terms), values, allow_unused=True) if terms else [None] * len(values)

    def shifted(sign):
        moved = watched([x + sign * STEP * d for x, d in zip(start, u, strict=True)])
        return along(gradients(case, places, moved), v)

    expected = (shifted(1) - shifted(-1)) / (2 * STEP)
    assert along(second, u) == pytest.approx(expected, rel=1e-5, abs=1e-5)
