"""Pipelines: built from SPIR-V when first used, kept in memory, and in the driver's form on disk."""

from __future__ import annotations

import hashlib
import struct
import threading
from pathlib import Path
from typing import Any, Final

from grilly_backend_vulkan import shaders
from grilly_backend_vulkan.facts import Facts
from grilly_backend_vulkan.logical import LogicalDevice
from grilly_core import config
from grilly_core.atomic import atomic_write
from grilly_core.errors import DeviceError

__all__ = ["Pipeline", "Pipelines"]

Constant = int | bool | float
_STAGE_COMPUTE: Final = 0x20
_MAX_PUSH: Final = 128
_FILE_TAG: Final = b"grilly pipelines 1\n"
_SAVE_EVERY: Final = 32

#: SPIR-V capability → the field of `Facts` that says whether the device has it.
_CAPABILITIES: Final = {
    9: "f16", 10: "f64", 11: "i64", 22: "i16", 39: "i8", 4433: "storage16", 4434: "storage16", 4448: "storage8",
    4449: "storage8", 63: "subgroup_arithmetic", 5345: "memory_model", 5346: "memory_model", 5116: "bf16",
    5117: "bf16", 5118: "bf16", 6022: "cooperative_matrix", 6033: "atomic_float", 6016: "int_dot", 6017: "int_dot",
    6018: "int_dot", 6019: "int_dot",
}  # fmt: skip


class Pipeline:
    """A compiled shader with its specialisation constants; what `Stream.launch` takes.

    Attributes
    ----------
    name : str
    spec : tuple
        Values of the specialisation constants 0, 1, 2, …
    handle
        The ``VkPipeline``.
    """

    __slots__ = ("handle", "name", "spec")

    def __init__(self, name: str, spec: tuple[Constant, ...], handle: Any) -> None:
        self.name = name
        self.spec = spec
        self.handle = handle

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, {self.spec})"


class Pipelines:
    """The pipelines of one device.

    Attributes
    ----------
    layout
        The one ``VkPipelineLayout``: 128 bytes of push constants, no descriptors.
    built : int
        Pipelines built so far.
    """

    def __init__(self, device: LogicalDevice) -> None:
        api = self._api = device.api
        self._device = device
        self._lock = threading.Lock()
        self._made: dict[tuple[Any, ...], Pipeline] = {}
        self.built = 0
        self._saved = 0
        constants = api.struct("VkPushConstantRange", stageFlags=_STAGE_COMPUTE, offset=0, size=_MAX_PUSH)
        info = api.struct(
            "VkPipelineLayoutCreateInfo", 30, pushConstantRangeCount=1, pPushConstantRanges=constants
        )
        self.layout = api.made("vkCreatePipelineLayout", "VkPipelineLayout", device.handle, info, api.null)
        self._cache = self._open_cache(_load(device.facts))

    def get(self, name: str, spec: tuple[Constant, ...], subgroup: int = 0) -> Pipeline:
        """Return a pipeline, building it on first use."""
        key = (name, tuple(map(type, spec)), spec, subgroup)  # 1, 1.0 and True are equal and not the same
        found = self._made.get(key)
        if found is None:
            with self._lock:
                found = self._made.get(key)
                if found is None:
                    found = self._made[key] = Pipeline(name, spec, self._build(name, spec, subgroup))
                    self.built += 1
            if self.built - self._saved >= _SAVE_EVERY:
                self.save()
        return found

    def _build(self, name: str, spec: tuple[Constant, ...], subgroup: int) -> Any:
        api, device = self._api, self._device.handle
        code = shaders.spirv(name)
        self._require(name, code, subgroup)
        held = api.ffi.from_buffer(code)
        info = api.struct(
            "VkShaderModuleCreateInfo", 16, codeSize=len(code), pCode=api.ffi.cast("uint32_t *", held)
        )
        module = api.made("vkCreateShaderModule", "VkShaderModule", device, info, api.null)
        try:
            return self._build_from(module, spec, subgroup)
        finally:
            api.lib.vkDestroyShaderModule(device, module, api.null)

    def _build_from(self, module: Any, spec: tuple[Constant, ...], subgroup: int) -> Any:
        api = self._api
        entry = api.ffi.new("char[]", b"main")
        create = api.struct("VkComputePipelineCreateInfo", 29, layout=self.layout)
        stage = create.stage
        stage.sType, stage.stage, stage.module, stage.pName = 18, _STAGE_COMPUTE, module, entry
        kept: list[Any] = [entry]
        if spec:
            stage.pSpecializationInfo = self._specialised(spec, kept)
        if subgroup:
            size = api.struct(
                "VkPipelineShaderStageRequiredSubgroupSizeCreateInfo",
                1000225001,
                requiredSubgroupSize=subgroup,
            )
            kept.append(size)
            stage.pNext = api.ffi.cast("void *", size)
        arguments = (self._device.handle, self._cache, 1, create, api.null)
        return api.made("vkCreateComputePipelines", "VkPipeline", *arguments)

    def _specialised(self, spec: tuple[Constant, ...], kept: list[Any]) -> Any:
        api = self._api
        data = api.ffi.new("char[]", b"".join(map(_four_bytes, spec)))
        entries = api.array(
            "VkSpecializationMapEntry",
            [{"constantID": i, "offset": 4 * i, "size": 4} for i in range(len(spec))],
        )
        info = api.struct(
            "VkSpecializationInfo", mapEntryCount=len(spec), pMapEntries=entries, dataSize=4 * len(spec),
            pData=api.ffi.cast("void *", data),
        )  # fmt: skip
        kept += [data, entries, info]
        return info

    def _require(self, name: str, code: bytes, subgroup: int) -> None:
        facts = self._device.facts
        wanted = {_CAPABILITIES[c] for c in shaders.capabilities(code) if c in _CAPABILITIES}
        lacking = sorted(feature for feature in wanted if not getattr(facts, feature))
        if lacking:
            raise DeviceError(f"shader {name!r} needs {', '.join(lacking)}, which {facts.name} lacks.")
        if subgroup and not (facts.subgroup_control and facts.subgroup_min <= subgroup <= facts.subgroup_max):
            raise DeviceError(
                f"shader {name!r} needs subgroups of {subgroup}, which {facts.name} does not offer."
            )

    # -- the cache on disk -------------------------------------------------------------------------------------

    def _open_cache(self, data: bytes) -> Any:
        api = self._api
        held = api.ffi.from_buffer(data)
        info = api.struct("VkPipelineCacheCreateInfo", 17, initialDataSize=len(data))
        if data:
            info.pInitialData = api.ffi.cast("void *", held)
        return api.made("vkCreatePipelineCache", "VkPipelineCache", self._device.handle, info, api.null)

    def save(self) -> None:
        """Write the driver's cache to disk, if pipelines were built since the last time and a folder can be had."""
        path = _cache_path(self._device.facts)
        with self._lock:
            if path is None or self.built == self._saved:
                return
            data = self._cache_data()
            self._saved = self.built
        if not data:
            return
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with atomic_write(path) as file:
                file.write(_FILE_TAG + hashlib.sha256(data).digest() + data)
        except OSError:
            pass  # without a cache the next start is only slower

    def _cache_data(self) -> bytes:
        api = self._api
        size = api.ffi.new("size_t *")
        get = api.lib.vkGetPipelineCacheData
        if get(self._device.handle, self._cache, size, api.null) or not size[0]:
            return b""
        data = api.ffi.new("char[]", size[0])
        if get(self._device.handle, self._cache, size, data):
            return b""
        return bytes(api.ffi.buffer(data, size[0]))

    def destroy(self) -> None:
        """Save the cache and destroy everything; nothing may be running."""
        self.save()
        api, device = self._api, self._device.handle
        for pipeline in self._made.values():
            api.lib.vkDestroyPipeline(device, pipeline.handle, api.null)
        self._made.clear()
        api.lib.vkDestroyPipelineCache(device, self._cache, api.null)
        api.lib.vkDestroyPipelineLayout(device, self.layout, api.null)


def _four_bytes(value: Constant) -> bytes:
    if isinstance(value, float):
        return struct.pack("<f", value)
    return struct.pack("<i" if value < 0 else "<I", value)


def _cache_path(facts: Facts) -> Path | None:
    folder = config.cache_dir()
    if folder is None:
        return None
    name = f"{facts.vendor_id:x}-{facts.device_id:x}-{facts.driver_version:x}-{facts.uuid}.pipelines"
    return folder / "vulkan" / name


def _load(facts: Facts) -> bytes:
    """Return the cache of an earlier process; nothing if there is none, or it is cut or damaged."""
    path = _cache_path(facts)
    try:
        found = path.read_bytes() if path else b""
    except OSError:
        return b""
    head, data = found[: len(_FILE_TAG) + 32], found[len(_FILE_TAG) + 32 :]
    return data if head == _FILE_TAG + hashlib.sha256(data).digest() else b""
