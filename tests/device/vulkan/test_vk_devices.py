"""Listing, ordering, naming and masking of devices (VUL-14, VUL-17)."""

from __future__ import annotations

import pytest

from grilly_core.errors import DeviceError

pytest.importorskip("vulkan", reason="the binding is not installed", exc_type=ImportError)

from grilly_backend_vulkan.device import VulkanDevice, arrange

GIB = 2**30
CPU = VulkanDevice("llvmpipe (LLVM)", "software", 64 * GIB, "1.3.0", "software device: for tests")
INTEGRATED = VulkanDevice("Iris", "integrated", 16 * GIB, "1.3.0")
DISCRETE = VulkanDevice("GeForce", "discrete", 8 * GIB, "1.3.0")
LARGE = VulkanDevice("GeForce Large", "discrete", 24 * GIB, "1.3.0")


@pytest.mark.parametrize(
    ("listed", "first"),
    [
        ([CPU, DISCRETE], DISCRETE),
        ([INTEGRATED, DISCRETE], DISCRETE),
        ([DISCRETE, LARGE], LARGE),
        ([CPU, INTEGRATED], INTEGRATED),
        ([CPU], CPU),
    ],
)
def test_the_best_device_comes_first(listed, first):
    assert arrange(listed)[0] is first


@pytest.mark.parametrize(
    ("wanted", "first"), [("llvm", CPU), ("LARGE", LARGE), ("0", LARGE), ("3", CPU), (" iris ", INTEGRATED)]
)
def test_a_device_is_named_by_index_or_part_of_its_name(wanted, first):
    devices = arrange([CPU, INTEGRATED, DISCRETE, LARGE], wanted)
    assert devices[0] is first and len(devices) == 4


@pytest.mark.parametrize("wanted", ["radeon", "4"])
def test_a_wrong_name_lists_the_choices(wanted):
    with pytest.raises(DeviceError, match=f"{wanted}.*0: GeForce Large.*3: llvmpipe"):
        arrange([CPU, INTEGRATED, DISCRETE, LARGE], wanted)


def test_equal_twins_stay_two():
    twins = [VulkanDevice("GPU", "discrete", GIB, "1.3.0") for _ in range(2)]
    assert len(arrange(twins, "0")) == 2


def test_listing_says_what_a_device_is(backend):
    for device in backend.devices():
        assert device.name and device.memory > 0
        assert (device.kind == "software") == bool(device.note)


def test_an_index_out_of_range_lists_the_choices(backend):
    with pytest.raises(DeviceError, match=r"vulkan:99 does not exist; vulkan:0 is"):
        backend.open(99)


def test_opening_twice_gives_one_runtime(backend):
    assert backend.open(0) is backend.open(0)


def test_a_software_device_is_not_the_default(backend, python):
    if any(d.kind in ("discrete", "integrated") for d in backend.devices()):
        pytest.skip("this machine has a GPU")
    assert "cpu:0" in python("import grilly_core as g; print(g.default_device())")


def test_masked_features_are_absent(fresh):
    facts = fresh("f16,f64,atomic_float").facts
    assert not (facts.f16 or facts.f64 or facts.atomic_float)
    assert "f16" not in facts.summary()


@pytest.mark.parametrize("feature", ["storage8", "storage16"])
def test_a_device_without_small_storage_is_refused_by_name(fresh, feature):
    with pytest.raises(DeviceError, match=rf"lacks {feature}.*GRILLY_VULKAN_DEVICE"):
        fresh(feature)


def test_an_unknown_mask_is_refused(fresh):
    with pytest.raises(DeviceError, match=r"f12 is no feature; there are .*f16"):
        fresh("f12")
