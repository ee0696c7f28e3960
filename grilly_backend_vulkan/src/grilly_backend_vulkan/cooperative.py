"""The shapes in which subgroups multiply matrices together, as ``VK_KHR_cooperative_matrix`` reports them."""

from __future__ import annotations

from typing import Any, Final

from grilly_backend_vulkan import instance, vkapi

__all__ = ["Shape", "described", "shapes"]

#: Codes of the factors and of the sums, then rows, columns and the length of the sums.
Shape = tuple[str, str, int, int, int]

_CALL: Final = "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"
_STRUCT: Final = "VkCooperativeMatrixPropertiesKHR"
_STRUCT_TYPE: Final = 1000506001
_SUBGROUP: Final = 3  # VK_SCOPE_SUBGROUP_KHR
_COMPONENTS: Final = {
    0: "f16", 1: "f32", 2: "f64", 3: "i8", 4: "i16", 5: "i32", 6: "i64", 7: "u8", 8: "u16", 9: "u32", 10: "u64",
    1000141000: "bf16",
}  # fmt: skip


def shapes(api: vkapi.Api, physical: Any, types: frozenset[str]) -> frozenset[Shape]:
    """Return the shapes for subgroups whose factors are of one of `types`.

    Left out are factors of two types, sums that are read in one type and written in another, and saturating sums.
    """
    call = api.instance_function(instance.get().handle, _CALL)
    count = api.ffi.new("uint32_t *")
    api.check(call(physical, count, api.null), _CALL)
    found = api.ffi.new(f"{_STRUCT}[]", count[0])
    for one in found:
        one.sType = _STRUCT_TYPE
    api.check(call(physical, count, found), _CALL)
    return frozenset(
        (_COMPONENTS[f.AType], _COMPONENTS[f.CType], f.MSize, f.NSize, f.KSize)
        for f in found
        if f.scope == _SUBGROUP and f.AType == f.BType and f.CType == f.ResultType
        and not f.saturatingAccumulation and _COMPONENTS.get(f.AType) in types and f.CType in _COMPONENTS
    )  # fmt: skip


def described(found: frozenset[Shape]) -> str:
    """Return shapes as text, such as ``f16*f16+f32:16x16x16``.

    Examples
    --------
    >>> described(frozenset({("f16", "f32", 16, 16, 16)}))
    'f16*f16+f32:16x16x16'
    """
    return " ".join(f"{a}*{a}+{c}:{m}x{n}x{k}" for a, c, m, n, k in sorted(found))
