"""autocast and GradScaler. Oracle: the op's classes as documented; PyTorch's are compared in tests/peers."""

from __future__ import annotations

import numpy as np
import pytest

import grilly

F = grilly.functional
INF = float("inf")


def _x(*shape, dtype="float32", **kw):
    return grilly.tensor(np.random.default_rng(0).standard_normal(shape), dtype=dtype, **kw)


@pytest.fixture(params=["cpu", "vulkan"])
def device(request):
    if request.param == "vulkan":
        pytest.importorskip("vulkan")
        try:
            grilly.ones(1, device="vulkan")
        except grilly.DeviceError as error:
            pytest.skip(str(error))
    return request.param


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_classes_decide_the_types(half):
    x, w = _x(4, 8), _x(3, 8)
    image, kernel = _x(2, 3, 6, 6), _x(4, 3, 3, 3)
    with grilly.autocast(half):
        assert grilly.is_autocast_enabled()
        products = [x @ w.T, F.linear(x, w), F.conv2d(image, kernel)]
        low = products[0]
        assert [t.dtype.name for t in products] == [half] * 3
        wide = [
            F.softmax(low, -1),
            F.layer_norm(low, (3,)),
            low.exp(),
            low.sum(),
            F.cross_entropy(low, [0, 1, 2, 0]),
        ]
        assert [t.dtype.name for t in wide] == ["float32"] * 5
        assert (low + low).dtype.name == half and (low + x[:, :3]).dtype.name == "float32"
        assert F.relu(low).dtype.name == half
        with grilly.autocast(enabled=False):
            assert (x @ w.T).dtype.name == "float32"
        assert (x.to("float64") @ w.to("float64").T).dtype.name == "float64"
    assert not grilly.is_autocast_enabled() and (x @ w.T).dtype.name == "float32"


def test_gradients_arrive_in_the_parameters_type():
    model = grilly.nn.Sequential(grilly.nn.Linear(8, 16), grilly.nn.ReLU(), grilly.nn.Linear(16, 3))
    x = _x(4, 8)
    with grilly.autocast("bfloat16"):
        loss = F.cross_entropy(model(x), [0, 1, 2, 0])
    loss.backward()
    wanted = {k: p.grad.numpy() for k, p in model.named_parameters()}
    for p in model.parameters():
        assert p.grad.dtype.name == "float32"
        p.grad = None
    F.cross_entropy(model(x), [0, 1, 2, 0]).backward()
    for k, p in model.named_parameters():
        np.testing.assert_allclose(wanted[k], p.grad.numpy(), atol=0.02)
        assert (wanted[k] != p.grad.numpy()).any()


def test_plans_of_inside_and_outside_are_kept_apart():
    x = _x(5, 5)
    for _ in range(3):
        assert (x @ x).dtype.name == "float32"
        with grilly.autocast("float16"):
            assert (x @ x).dtype.name == "float16"
            assert (x**2.0).dtype.name == "float32" and ((x @ x) ** 2.0).dtype.name == "float32"


def test_autocast_as_a_decorator_and_its_errors():
    @grilly.autocast("float16")
    def product(a):
        return a @ a

    assert product(_x(2, 2)).dtype.name == "float16"
    with (
        pytest.raises(ValueError, match=r"expected 'bfloat16' or 'float16'; received 'int8'"),
        grilly.autocast("int8"),
    ):
        pass


class TestGradScaler:
    def _model(self, device):
        grilly.manual_seed(0)
        model = grilly.nn.Linear(4, 2).to(device)
        return model, grilly.optim.AdamW(model.parameters(), lr=0.1)

    def test_scaled_steps_are_the_unscaled_ones(self, device):
        x = _x(6, 4).to(device)
        results = []
        for enabled in (True, False):
            model, optimizer = self._model(device)
            scaler = grilly.amp.GradScaler(1024.0, enabled=enabled)
            for _ in range(3):
                optimizer.zero_grad()
                scaler.scale((model(x) ** 2).mean()).backward()
                scaler.step(optimizer)
                scaler.update()
            results.append(model.weight.detach().cpu().numpy())
        np.testing.assert_allclose(*results, rtol=1e-6)

    @pytest.mark.parametrize("kind", ["SGD", "AdamW", "Plain"])
    @pytest.mark.parametrize("captured", [False, True])
    def test_an_overflow_skips_the_step(self, device, kind, captured):
        model, optimizer = self._model(device)
        if kind == "SGD":
            optimizer = grilly.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        if kind == "Plain":

            class Plain(grilly.optim.Optimizer):
                def __init__(self, params):
                    super().__init__(params, {"lr": 0.1})

                def _update(self, group, params, grads, lr):
                    for p, g in zip(params, grads, strict=True):
                        p.sub_(lr * g)

            optimizer = Plain(model.parameters())
        scaler = grilly.amp.GradScaler(8.0, growth_interval=2)

        def step(x):
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss

        if captured:
            step = grilly.capture(step, state=(model, optimizer, scaler))
        good, bad = _x(6, 4).to(device), grilly.full((6, 4), INF).to(device)
        scales, moved = [], []
        for x in (good, good, good, good, good, bad, good, bad, bad, good):
            before = model.weight.detach().cpu().numpy(copy=True)
            step(x)
            moved.append(bool((model.weight.detach().cpu().numpy() != before).any()))
            scales.append(scaler.get_scale())
        assert moved == [True] * 5 + [False, True, False, False, True]
        assert scales == [8, 16, 16, 32, 32, 16, 16, 8, 4, 4]
        assert scaler.skipped_steps() == 3
        assert np.isfinite(model.weight.detach().cpu().numpy()).all()
        if kind == "AdamW":
            assert optimizer.state_dict()["state"][0]["step"].item() == 7

    def test_a_half_precision_loss_is_scaled_in_float32(self):
        loss = _x(3, dtype="float16").abs().mean()
        scaled = grilly.amp.GradScaler().scale(loss)
        assert scaled.dtype.name == "float32" and scaled.item() == loss.item() * 65536

    def test_unscale_before_clipping_and_wrong_order(self):
        model, optimizer = self._model("cpu")
        scaler = grilly.amp.GradScaler(64.0)
        with pytest.raises(grilly.GrillyError, match="no step was taken"):
            scaler.update()
        with pytest.raises(grilly.GrillyError, match="call backward"):
            scaler.unscale_(optimizer)
        scaler.scale(model(_x(3, 4)).sum()).backward()
        scaled = model.bias.grad.numpy(copy=True)
        scaler.unscale_(optimizer)
        np.testing.assert_allclose(model.bias.grad.numpy() * 64, scaled)
        with pytest.raises(grilly.GrillyError, match="were unscaled"):
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    def test_state(self):
        model, optimizer = self._model("cpu")
        scaler = grilly.amp.GradScaler(8.0, growth_interval=10)
        scaler.scale(model(_x(3, 4)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        other = grilly.amp.GradScaler()
        other.load_state_dict(scaler.state_dict())
        assert other.state_dict() == scaler.state_dict()
        assert other.state_dict()["_growth_tracker"] == 1 and other.get_scale() == 8.0
        with pytest.raises(ValueError, match="nothing was loaded"):
            other.load_state_dict({})
        assert grilly.amp.GradScaler(enabled=False).state_dict() == {}

    @pytest.mark.parametrize(
        ("name", "value"),
        [("init_scale", 0), ("growth_factor", 1), ("backoff_factor", 1), ("growth_interval", 0)],
    )
    def test_settings_are_checked(self, name, value):
        with pytest.raises(ValueError, match=f"{name}: .*received {value}"):
            grilly.amp.GradScaler(**{name: value})
