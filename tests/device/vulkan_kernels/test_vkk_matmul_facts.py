"""What is known of cooperative matrices; the oracle of the filter is a driver made up here."""

from __future__ import annotations

import pytest

vkapi = pytest.importorskip("grilly_backend_vulkan.vkapi")

SUBGROUP, WORKGROUP = 3, 2
F16, F32, BF16, S8, S32 = 0, 1, 1000141000, 3, 5


@pytest.fixture
def offered(vk, monkeypatch):
    """Return the shapes found where the driver offers these rows of (a, b, c, result, saturating, scope)."""
    from grilly_backend_vulkan import cooperative

    api = vk.context.runtime.device.api

    def found(rows, types):
        def driver(physical, count, out):
            count[0] = len(rows)
            if out != api.null:
                for one, row in zip(out, rows, strict=True):
                    assert one.sType == 1000506001
                    one.MSize, one.NSize, one.KSize = 16, 8, 32
                    one.AType, one.BType, one.CType, one.ResultType = row[:4]
                    one.saturatingAccumulation, one.scope = row[4:]
            return 0

        monkeypatch.setattr(type(api), "instance_function", lambda *names: driver)
        return cooperative.shapes(api, None, frozenset(types))

    return found


def test_usable_shapes_are_those_of_one_subgroup_and_two_types(offered):
    rows = [
        (F16, F16, F32, F32, 0, SUBGROUP),
        (F16, F16, F32, F32, 0, WORKGROUP),
        (F16, F16, F16, F32, 0, SUBGROUP),
        (F16, S8, F32, F32, 0, SUBGROUP),
        (S8, S8, S32, S32, 1, SUBGROUP),
        (BF16, BF16, F32, F32, 0, SUBGROUP),
        (77, 77, F32, F32, 0, SUBGROUP),
    ]
    assert offered(rows, {"f16", "i8"}) == {("f16", "f32", 16, 8, 32)}
    assert offered(rows, {"bf16"}) == {("bf16", "f32", 16, 8, 32)}
    assert offered([], {"f16"}) == frozenset()


def test_the_summary_names_the_shapes(vk):
    import dataclasses

    facts = dataclasses.replace(vk.context.runtime.facts, cooperative=frozenset({("i8", "i32", 16, 16, 32)}))
    assert facts.summary().endswith(" i8*i8+i32:16x16x32")


def test_masks_take_shapes_away(vk, monkeypatch):
    from grilly_backend_vulkan import backend
    from grilly_backend_vulkan.facts import DeviceQuery

    device = backend.devices()[0]
    api = vk.context.runtime.device.api
    monkeypatch.setenv("GRILLY_VULKAN_MASK", "cooperative_matrix")
    assert DeviceQuery(api, device).facts.cooperative == frozenset()
    monkeypatch.setenv("GRILLY_VULKAN_MASK", "f16,bf16")
    kept = {shape[0] for shape in DeviceQuery(api, device).facts.cooperative}
    assert not kept & {"f16", "bf16"}
