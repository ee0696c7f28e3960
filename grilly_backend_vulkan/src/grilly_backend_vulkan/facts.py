"""What a device can do, asked once: `Facts` for kernels and conditions, and the features to enable.

``GRILLY_VULKAN_MASK=f16,f64`` pretends that a device lacks features, so that the paths of other devices can be tested.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, fields
from typing import Any, Final

from grilly_backend_vulkan import cooperative, vkapi
from grilly_backend_vulkan.device import VulkanDevice
from grilly_core.errors import DeviceError

__all__ = ["FEATURES", "DeviceQuery", "Facts", "masked"]

#: Mask name → (structure, field) of the core features it stands for.
FEATURES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "storage8": (("12", "storageBuffer8BitAccess"),),
    "storage16": (("11", "storageBuffer16BitAccess"),),
    "f16": (("12", "shaderFloat16"),),
    "f64": (("10", "shaderFloat64"),),
    "i8": (("12", "shaderInt8"),),
    "i16": (("10", "shaderInt16"),),
    "i64": (("10", "shaderInt64"),),
    "scalar_layout": (("12", "scalarBlockLayout"),),
    "memory_model": (("12", "vulkanMemoryModel"), ("12", "vulkanMemoryModelDeviceScope")),
    "subgroup_control": (("13", "subgroupSizeControl"), ("13", "computeFullSubgroups")),
    "int_dot": (("13", "shaderIntegerDotProduct"),),
    "host_query_reset": (("12", "hostQueryReset"),),
}
_REQUIRED: Final = {
    "buffer device addresses": ("12", "bufferDeviceAddress"),
    "timeline semaphores": ("12", "timelineSemaphore"),
    "synchronization2": ("13", "synchronization2"),
    "storage8 (8-bit storage)": ("12", "storageBuffer8BitAccess"),
    "storage16 (16-bit storage)": ("11", "storageBuffer16BitAccess"),
}
#: Mask name → extension, structure type, number of its flags, and the flags that must be there.
_EXTENSIONS: Final = {
    "cooperative_matrix": ("VK_KHR_cooperative_matrix", 1000506000, 2, (0,)),
    "bf16": ("VK_KHR_shader_bfloat16", 1000141000, 3, (0,)),
    "atomic_float": ("VK_EXT_shader_atomic_float", 1000260000, 12, (0, 1)),
}
_BF16_MATRICES: Final = 2  # the flag that allows bf16 in cooperative matrices
_PLAIN_EXTENSIONS: Final = {
    "memory_budget": "VK_EXT_memory_budget",
    "portability": "VK_KHR_portability_subset",
}
_MEMORY: Final = ("host_visible", "host_cached")
_VENDORS: Final = {0x1002: "AMD", 0x10DE: "NVIDIA", 0x8086: "Intel", 0x13B5: "ARM", 0x5143: "Qualcomm",
                   0x106B: "Apple", 0x10005: "Mesa"}  # fmt: skip
_STRUCTS: Final = {"11": 49, "12": 51, "13": 53}
_ARITHMETIC: Final = 0x4
_LLVMPIPE: Final = 13  # VK_DRIVER_ID_MESA_LLVMPIPE
_LLVMPIPE_TURNS: Final = 65535


@dataclass(frozen=True, slots=True)
class Facts:
    """What a device is and can do.

    Attributes
    ----------
    name, vendor, driver, api_version, kind : str
    vendor_id, device_id, driver_version : int
    uuid : str
        Of driver and device together; names the pipeline cache.
    software : bool
        Whether it runs on the CPU.
    memory, max_allocation, max_buffer : int
        Bytes: largest device-local heap, largest single allocation, largest buffer.
    shared_memory, max_workgroup_invocations, max_push : int
    max_workgroup_size, max_groups : tuple of int
    subgroup_size, subgroup_min, subgroup_max : int
    subgroup_arithmetic : bool
        Reductions and scans over subgroups.
    denormals_f32, signed_zero_nan_f32 : bool
        Whether shaders can ask for denormals, and for signed zeros, infinities and NaN, to be kept.
    timestamp_period : float
        Nanoseconds of one tick.
    max_turns : int
        Turns of all loops together that one invocation may take. Mesa's llvmpipe leaves every loop after 65535,
        silently, so longer work must be cut into parts; watchdogs want the same of long work elsewhere.
    f16, f64, i8, i16, i64 : bool
        Arithmetic in these types.
    storage8, storage16, scalar_layout, memory_model, subgroup_control, int_dot, host_query_reset : bool
    cooperative_matrix, bf16, atomic_float, memory_budget : bool
    cooperative : frozenset of Shape
        Shapes of cooperative matrices of a subgroup: (code of the factors, code of the sums, m, n, k). Empty without
        `cooperative_matrix`; a masked type takes its shapes with it.
    """

    name: str
    vendor: str
    driver: str
    api_version: str
    kind: str
    vendor_id: int
    device_id: int
    driver_version: int
    uuid: str
    software: bool
    memory: int
    max_allocation: int
    max_buffer: int
    shared_memory: int
    max_workgroup_invocations: int
    max_push: int
    max_workgroup_size: tuple[int, ...]
    max_groups: tuple[int, ...]
    subgroup_size: int
    subgroup_min: int
    subgroup_max: int
    subgroup_arithmetic: bool
    denormals_f32: bool
    signed_zero_nan_f32: bool
    timestamp_period: float
    max_turns: int
    f16: bool
    f64: bool
    i8: bool
    i16: bool
    i64: bool
    storage8: bool
    storage16: bool
    scalar_layout: bool
    memory_model: bool
    subgroup_control: bool
    int_dot: bool
    host_query_reset: bool
    cooperative_matrix: bool
    bf16: bool
    atomic_float: bool
    memory_budget: bool
    cooperative: frozenset[cooperative.Shape]

    def summary(self) -> str:
        """Return the optional features that are there, and the shapes of cooperative matrices, in one line."""
        flags = (f.name for f in fields(self) if f.type == "bool" and f.name != "software")
        shapes = cooperative.described(self.cooperative)
        return " ".join(filter(None, [*(name for name in flags if getattr(self, name)), shapes]))


def masked() -> frozenset[str]:
    """Return the features that ``GRILLY_VULKAN_MASK`` hides."""
    words = frozenset(filter(None, os.environ.get("GRILLY_VULKAN_MASK", "").replace(" ", "").split(",")))
    known = {*FEATURES, *_EXTENSIONS, "memory_budget", *_MEMORY}
    if words - known:
        raise DeviceError(
            f"GRILLY_VULKAN_MASK: {', '.join(sorted(words - known))} is no feature; there are "
            f"{', '.join(sorted(known))}."
        )
    return words


class DeviceQuery:
    """Everything asked of a physical device; `facts` is the answer, the rest makes the logical device.

    Attributes
    ----------
    facts : Facts
    extensions : list of str
        Those to enable.
    features
        The ``VkPhysicalDeviceFeatures2`` to enable, with its chain.
    memory
        The ``VkPhysicalDeviceMemoryProperties``.
    hidden : frozenset of str
        The masked features.

    Raises
    ------
    DeviceError
        If the device lacks what the backend cannot do without; the message names it.
    """

    def __init__(self, api: vkapi.Api, device: VulkanDevice) -> None:
        self.api = api
        self.physical = device.handle
        self.hidden = masked()
        self._kept: list[Any] = []
        if tuple(map(int, device.api_version.split(".")[:2])) < (1, 3):
            raise DeviceError(
                f"{device.name}: its driver offers Vulkan {device.api_version}, and 1.3 is needed; update the driver."
            )
        offered = api.listed(
            "vkEnumerateDeviceExtensionProperties", "VkExtensionProperties", self.physical, api.null
        )
        self._offered = {api.text(e.extensionName) for e in offered}
        self.extensions = [
            name
            for mask, name in _PLAIN_EXTENSIONS.items()
            if name in self._offered and mask not in self.hidden
        ]
        self.memory = api.struct("VkPhysicalDeviceMemoryProperties")
        api.lib.vkGetPhysicalDeviceMemoryProperties(self.physical, self.memory)
        self._supported = self._ask_features()
        self._require(device)
        self.features = self._wanted_features()
        self.facts = self._facts(device)

    # -- features ----------------------------------------------------------------------------------------------

    def _chain(self) -> dict[str, Any]:
        """Return fresh, chained feature structures by short name."""
        api = self.api
        made = {
            key: api.struct(f"VkPhysicalDeviceVulkan{key}Features", kind) for key, kind in _STRUCTS.items()
        }
        made["13"].pNext = api.ffi.cast("void *", made["12"])
        made["12"].pNext = api.ffi.cast("void *", made["11"])
        made["all"] = api.struct("VkPhysicalDeviceFeatures2", 1000059000, pNext=made["13"])
        made["10"] = made["all"].features
        self._kept.append(made)
        return made

    def _extension_struct(self, kind: int, flags: list[int], following: Any) -> Any:
        """Return an extension's feature structure, which the binding may be too old to know."""
        ffi = self.api.ffi
        head = struct.pack("=IIQ", kind, 0, int(ffi.cast("uintptr_t", following)))
        made = ffi.new("char[]", head + struct.pack(f"={len(flags)}I", *flags))
        self._kept.append(made)
        return ffi.cast("void *", made)

    def _ask_features(self) -> dict[str, Any]:
        """Return the supported features: core structures by short name, and extension flags by mask name."""
        chain = self._chain()
        ffi = self.api.ffi
        following: Any = chain["13"]
        asked = {}
        for mask, (name, kind, count, _) in _EXTENSIONS.items():
            if name in self._offered and mask not in self.hidden:
                following = asked[mask] = self._extension_struct(kind, [0] * count, following)
        chain["all"].pNext = ffi.cast("void *", following)
        self.api.lib.vkGetPhysicalDeviceFeatures2(self.physical, chain["all"])
        flags = {
            mask: struct.unpack(
                f"={_EXTENSIONS[mask][2]}I", ffi.buffer(made, 16 + 4 * _EXTENSIONS[mask][2])[16:]
            )
            for mask, made in asked.items()
        }
        return {**chain, **{m: f for m, f in flags.items() if all(f[i] for i in _EXTENSIONS[m][3])}}

    def _has(self, where: tuple[str, str]) -> bool:
        return bool(getattr(self._supported[where[0]], where[1]))

    def _feature(self, mask: str) -> bool:
        return mask not in self.hidden and all(map(self._has, FEATURES[mask]))

    def _require(self, device: VulkanDevice) -> None:
        lacking = [
            name
            for name, where in _REQUIRED.items()
            if not self._has(where) or name.split()[0] in self.hidden
        ]
        if lacking:
            raise DeviceError(
                f"{device.name} cannot be used by grilly: it lacks {', '.join(lacking)}; choose another device with "
                "GRILLY_VULKAN_DEVICE, update the driver, or use the CPU (device='cpu')."
            )

    def _wanted_features(self) -> Any:
        chain = self._chain()
        for where in _REQUIRED.values():
            setattr(chain[where[0]], where[1], 1)
        for mask, places in FEATURES.items():
            if self._feature(mask):
                for where in places:
                    setattr(chain[where[0]], where[1], 1)
        if self._has(("13", "maintenance4")):
            chain["13"].maintenance4 = 1
        following: Any = chain["13"]
        for mask, (name, kind, _, _) in _EXTENSIONS.items():
            if mask in self._supported:
                following = self._extension_struct(kind, list(self._supported[mask]), following)
                self.extensions.append(name)
        chain["all"].pNext = self.api.ffi.cast("void *", following)
        return chain["all"]

    # -- properties --------------------------------------------------------------------------------------------

    def _properties(self) -> dict[str, Any]:
        api = self.api
        made = {
            key: api.struct(f"VkPhysicalDeviceVulkan{key}Properties", kind + 1)
            for key, kind in _STRUCTS.items()
        }
        made["13"].pNext = api.ffi.cast("void *", made["12"])
        made["12"].pNext = api.ffi.cast("void *", made["11"])
        top = api.struct("VkPhysicalDeviceProperties2", 1000059001, pNext=made["13"])
        api.lib.vkGetPhysicalDeviceProperties2(self.physical, top)
        return {**made, "10": top.properties, "top": top}

    def _facts(self, device: VulkanDevice) -> Facts:
        found = self._properties()
        base, p11, p12, p13 = (found[k] for k in ("10", "11", "12", "13"))
        limits, text, ffi = base.limits, self.api.text, self.api.ffi
        uuid = ffi.buffer(base.pipelineCacheUUID)[:].hex() + ffi.buffer(p11.driverUUID)[:].hex()
        flags = {mask: self._feature(mask) for mask in FEATURES}
        flags |= {mask: mask in self._supported for mask in _EXTENSIONS}
        return Facts(
            name=device.name,
            vendor=_VENDORS.get(base.vendorID, hex(base.vendorID)),
            driver=f"{text(p12.driverName)} {text(p12.driverInfo)}".strip(),
            api_version=device.api_version,
            kind=device.kind,
            vendor_id=base.vendorID,
            device_id=base.deviceID,
            driver_version=base.driverVersion,
            uuid=uuid,
            software=device.kind == "software",
            memory=device.memory,
            max_allocation=int(p11.maxMemoryAllocationSize),
            max_buffer=int(p13.maxBufferSize) or int(p11.maxMemoryAllocationSize),
            shared_memory=limits.maxComputeSharedMemorySize,
            max_workgroup_invocations=limits.maxComputeWorkGroupInvocations,
            max_push=limits.maxPushConstantsSize,
            max_workgroup_size=tuple(limits.maxComputeWorkGroupSize),
            max_groups=tuple(limits.maxComputeWorkGroupCount),
            subgroup_size=p11.subgroupSize,
            subgroup_min=p13.minSubgroupSize or p11.subgroupSize,
            subgroup_max=p13.maxSubgroupSize or p11.subgroupSize,
            subgroup_arithmetic=bool(p11.subgroupSupportedOperations & _ARITHMETIC),
            denormals_f32=bool(p12.shaderDenormPreserveFloat32),
            signed_zero_nan_f32=bool(p12.shaderSignedZeroInfNanPreserveFloat32),
            timestamp_period=float(limits.timestampPeriod),
            max_turns=_LLVMPIPE_TURNS if p12.driverID == _LLVMPIPE else 2**31,
            memory_budget=_PLAIN_EXTENSIONS["memory_budget"] in self.extensions,
            cooperative=self._cooperative(),
            **flags,
        )

    def _cooperative(self) -> frozenset[cooperative.Shape]:
        """Return the shapes of matrices whose types shaders may use, too."""
        if "cooperative_matrix" not in self._supported or not self._feature("memory_model"):
            return frozenset()
        types = {code for code in ("f16", "f64", "i8", "i16") if self._feature(code)}
        types |= {"u" + code[1:] for code in types if code.startswith("i")}
        if self._supported.get("bf16", (0, 0, 0))[_BF16_MATRICES]:
            types.add("bf16")
        return cooperative.shapes(self.api, self.physical, frozenset(types))
