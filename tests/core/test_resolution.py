"""Kernel, body, fallback, error: each step of the resolution, on a device made for the test."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import device, events, registry
from grilly_core.errors import DeviceError, FallbackError, FallbackWarning, NoKernelError, RegistrationError
from grilly_core.explain import explain
from grilly_core.opspec import Inferred
from grilly_core.plugins import loader


class Runtime:
    """Byte arrays that are not host-mapped, with the kernels a test gives it."""

    def __init__(self, kernels):
        self.kernels = kernels
        self.freed = 0

    def alloc(self, nbytes):
        return bytearray(nbytes)

    def free(self, handle):
        self.freed += 1

    def copy_in(self, handle, offset, data):
        handle[offset : offset + len(data)] = data

    def copy_out(self, handle, offset, out):
        out[:] = memoryview(handle)[offset : offset + len(out)]

    def copy(self, dst, dst_offset, src, src_offset, nbytes):
        dst[dst_offset : dst_offset + nbytes] = src[src_offset : src_offset + nbytes]

    def synchronize(self):
        pass

    def register_kernels(self, scope):
        for name, fn, options in self.kernels:
            scope.add(name, fn, **options)


class Backend:
    name = "fake"
    grilly_abi = 1

    def __init__(self, kernels):
        self.kernels = kernels

    def devices(self):
        return ["one"]

    def open(self, index):
        return Runtime(self.kernels)


@pytest.fixture
def fake():
    """Open a device ``fake:0`` with the given kernels."""

    def make(*kernels):
        loader.add_backend(Backend(kernels))
        return "fake:0"

    yield make
    loader.remove_backend("fake")
    device.close_all()
    registry.drop_kernels("fake")


def read(view):
    assert view.spec.contiguous
    count = view.spec.size
    return np.frombuffer(
        view.buffer.handle, view.dtype.numpy, count, view.offset * view.dtype.itemsize
    ).reshape(view.shape)


def binary(function):
    def kernel(stream, outs, ins, attrs):
        outs[0].buffer.handle[:] = np.asarray(function(*map(read, ins)), outs[0].dtype.numpy).tobytes()

    return kernel


ADD = ("add", binary(np.add), {"dtypes": {"f32"}, "layout": "contiguous"})
EXP = ("exp", binary(np.exp), {"dtypes": {"f32"}, "layout": "contiguous"})
COPY = ("strided_copy", binary(np.array), {"dtypes": {"f32"}, "layout": "contiguous"})


def test_a_kernel_runs_where_it_matches(fake):
    x = grilly.asarray([1.0, 2.0], device=fake(ADD))
    with grilly.fallback("error"):
        assert (x + x).tolist() == [2, 4]


def test_a_body_runs_if_every_leaf_does(fake):
    @grilly.op("test.add_twice")
    def add_twice(x):
        """x + x + x."""
        return x + x + x

    x = grilly.asarray([1.0], device=fake(ADD))
    with grilly.fallback("error"):
        assert add_twice(x).tolist() == [3]


def test_a_missing_kernel_falls_back_visibly(fake):
    """VUL-13's rule for any device: a warning once, counts always, an error on request."""
    x = grilly.asarray([1.0, 4.0], device=fake(ADD))
    events.reset_stats()
    with grilly.fallback("warn"), pytest.warns(FallbackWarning, match="sqrt") as told:
        assert grilly.sqrt(x).tolist() == [1, 2]
    assert told[0].filename == __file__  # the user's line, whatever lies between
    with grilly.fallback("warn"), warnings.catch_warnings():
        warnings.simplefilter("error")
        grilly.sqrt(x)
    stats = events.stats()
    assert stats["fallbacks", "fake:0", "sqrt"] == 2
    assert stats["bytes", "fake:0", "out", "fallback"] == 16
    assert stats["bytes", "fake:0", "in", "fallback"] == 16
    with grilly.fallback("error"), pytest.raises(FallbackError, match="explain sqrt"):
        grilly.sqrt(x)


def test_the_policy_is_read_at_call_time(fake, monkeypatch):
    x = grilly.asarray([4.0], device=fake())
    monkeypatch.setenv("GRILLY_FALLBACK", "allow")
    assert grilly.sqrt(x).item() == 2
    monkeypatch.setenv("GRILLY_FALLBACK", "error")
    with pytest.raises(FallbackError):
        grilly.sqrt(x)
    monkeypatch.setenv("GRILLY_FALLBACK", "perhaps")
    with pytest.raises(ValueError, match="GRILLY_FALLBACK"):
        grilly.sqrt(x)


def test_an_error_in_a_kernel_is_an_error(fake):
    def broken(stream, outs, ins, attrs):
        raise ZeroDivisionError("a bug")

    x = grilly.asarray([1.0], device=fake(("exp", broken, {"dtypes": {"f32"}})))
    with grilly.fallback("allow"), pytest.raises(ZeroDivisionError, match="a bug"):
        grilly.exp(x)


def test_a_tie_of_priorities_is_an_error(fake):
    x = grilly.asarray([1.0], device=fake(EXP, EXP))
    with pytest.raises(RegistrationError, match="same priority"):
        grilly.exp(x)


def test_the_highest_priority_wins_and_when_is_asked(fake):
    twice = (
        "exp",
        binary(lambda x: 2 * x),
        {"dtypes": {"f32"}, "priority": 5, "when": lambda c: c.ins[0].size > 2},
    )
    name = fake(EXP, twice)
    assert grilly.exp(grilly.asarray([0.0], device=name)).tolist() == [1]
    assert grilly.exp(grilly.asarray([1.0, 1.0, 1.0], device=name)).tolist() == [2, 2, 2]


def test_compute_inserts_the_casts(fake):
    cast = ("cast", binary(np.array), {"dtypes": {"f16", "f32"}, "layout": "contiguous"})
    wide = ("exp", binary(np.exp), {"dtypes": {"f32"}, "layout": "contiguous", "compute": {"f16": "f32"}})
    x = grilly.asarray([0.0, 1.0], dtype="float16", device=fake(cast, wide))
    with grilly.fallback("error"):
        y = grilly.exp(x)
    assert y.dtype is grilly.float16
    assert np.allclose(y.tolist(), [1, np.e], rtol=1e-3)


def test_two_devices_are_an_error_not_a_move(fake):
    x = grilly.asarray([1.0], device=fake(ADD))
    with pytest.raises(DeviceError, match=r"two devices.*\.to\("):
        x + grilly.asarray([1.0], device="cpu")
    assert (x + 1.0).tolist() == [2]
    assert (x + np.ones(1, np.float32)).device == "fake:0"


def test_gradients_cross_devices(fake):
    x = grilly.tensor([1.0, 2.0], requires_grad=True, device="cpu")
    with grilly.fallback("allow"):
        (x.to(fake(ADD)) * 3).to("cpu").sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert x.grad.device == "cpu"


def test_gradients_of_what_fell_back_know_the_attributes_that_inference_settled(fake):
    """Oracle: the gradient of a sum is ones, that of a maximum marks its place."""
    fake()
    for axis in (None, 1, -1, (0, 1)):
        x = grilly.tensor([[1.0, 5.0], [7.0, 2.0]], device="fake", requires_grad=True)
        with grilly.fallback("allow"):
            grilly.sum(x, axis=axis).sum().backward()
        assert x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    x = grilly.tensor([[1.0, 5.0], [7.0, 2.0]], device="fake", requires_grad=True)
    with grilly.fallback("allow"):
        grilly.max(x, axis=1).sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_transfers_are_counted(fake):
    name = fake(ADD)
    events.reset_stats()
    grilly.ones(4, device="cpu").to(name).to("cpu")
    stats = events.stats()
    assert stats["bytes", "fake:0", "in", "user"] == stats["bytes", "fake:0", "out", "user"] == 16


def test_dead_buffers_are_freed(fake):
    x = grilly.asarray([1.0], device=fake(ADD))
    runtime = x._value.spec.context.runtime
    for _ in range(10):
        x + x
    assert runtime.freed >= 8


def test_no_kernel_anywhere_lists_what_each_step_lacked():
    @grilly.primitive("test.nowhere")
    def nowhere(x):
        """An op without a kernel."""
        return Inferred(((x.shape, x.dtype),))

    with pytest.raises(NoKernelError, match=r"no kernel on cpu; no body.*explain"):
        nowhere(grilly.ones(2))
    registry.remove_op("test.nowhere")


def test_unknown_devices_and_ops_suggest_others():
    with pytest.raises((DeviceError, ImportError), match="vulkan"):
        grilly.zeros(2, device="vulkan:99")
    with pytest.raises(DeviceError, match="cpu:0"):
        grilly.zeros(2, device="cpu:7")
    with pytest.raises(NoKernelError, match="did you mean"):
        registry.get("matmull")


def test_explanations(fake):
    name = fake(ADD, COPY)
    assert "its kernel" in "\n".join(explain("add", name).lines())
    assert "falls back" in "\n".join(explain("nn.softmax", name).lines())
    body = "\n".join(explain("square", "cpu").lines())
    assert "body" in body or "kernel" in body


def test_plans_are_cached_and_dropped_with_the_registry():
    from grilly_core import apply

    x = grilly.ones(3)
    grilly.exp(x)
    before = len(apply._plans)
    grilly.exp(x)
    assert len(apply._plans) == before

    @grilly.op("test.dropped")
    def dropped(x):
        """The same."""
        return x

    assert not apply._plans


def test_an_op_is_declared_once():
    with pytest.raises(RegistrationError, match="docstring"):

        @grilly.op("test.silent")
        def silent(x):
            return x

    with pytest.raises(RegistrationError, match="twice"):

        @grilly.op("exp")
        def exp(x):
            """Another exp."""
            return x


def test_calls_that_do_not_fit_are_explained():
    x = grilly.ones(2)
    for call, message in [
        (lambda: grilly.exp(x, x), "takes 1 tensors"),
        (lambda: grilly.exp(), "missing"),
        (lambda: grilly.exp(x, axis=0), "unexpected"),
        (lambda: grilly.exp("text"), "tensor"),
    ]:
        with pytest.raises(TypeError, match=message):
            call()


@pytest.mark.parametrize(
    ("call", "where"),
    [
        (lambda x: grilly.exp(None), "exp: x"),
        (lambda x: grilly.add(x, None), "add: y"),
        (lambda x: grilly.functional.linear(None, x), "nn.linear: x"),
    ],
)
def test_none_where_a_tensor_must_be_names_the_argument(call, where):
    with pytest.raises(TypeError, match=f"{where}: expected a tensor.*received None"):
        call(grilly.ones(2, 2))


def test_bodies_may_not_read_values():
    @grilly.op("test.reads")
    def reads(x):
        """Reads."""
        return x * x.sum().item()

    with pytest.raises(grilly.CaptureError, match="read values"):
        reads(grilly.ones(2))
