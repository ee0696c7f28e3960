"""An op of your own: it runs on every device, differentiates twice, and the conformance kit checks it."""

import grilly_core as grilly
from grilly_testkit.conformance import run


@grilly.op("example.swish")
def swish(x, *, beta=1.0):
    """X times the logistic function of beta x (Ramachandran et al. 2017)."""
    return x / (1.0 + grilly.exp(-beta * x))


@swish.samples
def _(s):
    s.case(s.f32(3, 4), beta=1.5)


x = grilly.tensor([-1.0, 0.5, 2.0], requires_grad=True)
(first,) = grilly.grad(swish(x).sum(), x, create_graph=True)
(second,) = grilly.grad(first.sum(), x)
print("first derivative ", first.tolist())
print("second derivative", second.tolist())
assert run("cpu", level=3, ops=["example.swish"]) == 0
