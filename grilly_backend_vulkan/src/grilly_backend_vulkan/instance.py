"""The Vulkan instance of the process, and the messages of the validation layers.

One instance serves every device. ``GRILLY_VULKAN_VALIDATION=1`` loads the validation layers when the instance is
made; their messages are collected in `validation_messages` and logged as warnings of ``grilly.vulkan``.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any, Final

from grilly_backend_vulkan import vkapi
from grilly_core.errors import DeviceError

__all__ = ["Instance", "get", "layers_installed", "loaded", "release", "validation_messages"]

_LAYER: Final = "VK_LAYER_KHRONOS_validation"
_DEBUG: Final = "VK_EXT_debug_utils"
_PORTABILITY: Final = "VK_KHR_portability_enumeration"
_WARNINGS_AND_ERRORS: Final = 0x1100
_VALIDATION_AND_PERFORMANCE: Final = 0x6
_SYNCHRONISATION_CHECKS: Final = 4

_NO_DRIVER: Final = (
    "vulkan: the loader found no usable driver ({why}); install one: the vendor's driver for NVIDIA, "
    "mesa-vulkan-drivers for AMD, Intel and the software device llvmpipe{hint}."
)

_log: Final = logging.getLogger("grilly.vulkan")
#: What the validation layers said in this process, oldest first.
validation_messages: list[str] = []
_lock: Final = threading.RLock()
_current: list[Instance] = []


class Instance:
    """An open instance.

    Attributes
    ----------
    api : Api
    handle
        The ``VkInstance``.
    validated : bool
        Whether the validation layers are active.
    """

    def __init__(self) -> None:
        self.api = vkapi.load()
        self.validated = os.environ.get("GRILLY_VULKAN_VALIDATION", "") not in ("", "0")
        self._messenger: Any = None
        self._callback: Any = None
        self._messenger_info = self._make_messenger_info() if self.validated else None
        self.handle = self._create()
        if self.validated:
            self._listen()

    def _create(self) -> Any:
        api = self.api
        layers, extensions, flags = self._wanted()
        app = api.struct("VkApplicationInfo", 0, apiVersion=vkapi.API_1_3)
        layer_names, held_layers = api.names(layers)
        extension_names, held_extensions = api.names(extensions)
        info = api.struct(
            "VkInstanceCreateInfo", 1, flags=flags, pApplicationInfo=app,
            enabledLayerCount=len(layers), ppEnabledLayerNames=layer_names,
            enabledExtensionCount=len(extensions), ppEnabledExtensionNames=extension_names,
        )  # fmt: skip
        chain = self._validation_features()
        if self._messenger_info is not None:
            info.pNext = api.ffi.cast("void *", chain or self._messenger_info)
        try:
            return api.made("vkCreateInstance", "VkInstance", info, api.null)
        except vkapi.VulkanError as error:
            raise DeviceError(no_driver(f"vkCreateInstance says {error.result}")) from error
        finally:
            del held_layers, held_extensions

    def _wanted(self) -> tuple[list[str], list[str], int]:
        api = self.api
        offered = {
            api.text(e.extensionName)
            for e in api.listed("vkEnumerateInstanceExtensionProperties", "VkExtensionProperties", api.null)
        }
        layers: list[str] = []
        extensions: list[str] = []
        flags = 0
        if _PORTABILITY in offered:  # without it the loader hides drivers such as MoltenVK
            extensions.append(_PORTABILITY)
            flags = 1
        if self.validated:
            self._require_layer()
            layers.append(_LAYER)
            extensions.append(_DEBUG)
        return layers, extensions, flags

    def _require_layer(self) -> None:
        if not layers_installed():
            raise DeviceError(
                f"vulkan: GRILLY_VULKAN_VALIDATION is set, but the layer {_LAYER} is not installed; install it "
                "(package vulkan-validationlayers on Debian and Ubuntu) or unset the variable."
            )

    def _validation_features(self) -> Any:
        """With ``GRILLY_VULKAN_VALIDATION=sync`` the layers also look for missing barriers."""
        if os.environ.get("GRILLY_VULKAN_VALIDATION") != "sync":
            return None
        api = self.api
        self._enabled = api.array("VkValidationFeatureEnableEXT", [_SYNCHRONISATION_CHECKS])
        self._features = api.struct(
            "VkValidationFeaturesEXT", 1000247000, enabledValidationFeatureCount=1,
            pEnabledValidationFeatures=self._enabled, pNext=self._messenger_info,
        )  # fmt: skip
        return self._features

    def _make_messenger_info(self) -> Any:
        api = self.api

        def heard(severity: int, kind: int, data: Any, user: Any) -> int:
            message = api.text(data.pMessage)
            validation_messages.append(message)
            _log.warning("validation: %s", message)
            return 0

        self._callback = api.ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT", heard)
        return api.struct(
            "VkDebugUtilsMessengerCreateInfoEXT", 1000128004, messageSeverity=_WARNINGS_AND_ERRORS,
            messageType=_VALIDATION_AND_PERFORMANCE, pfnUserCallback=self._callback,
        )  # fmt: skip

    def _listen(self) -> None:
        api = self.api
        create = api.instance_function(self.handle, "vkCreateDebugUtilsMessengerEXT")
        out = api.ffi.new("VkDebugUtilsMessengerEXT *")
        api.check(create(self.handle, self._messenger_info, api.null, out), "vkCreateDebugUtilsMessengerEXT")
        self._messenger = out[0]

    def destroy(self) -> None:
        """Destroy the instance; all devices must be closed."""
        api = self.api
        if self._messenger is not None:
            destroy = api.instance_function(self.handle, "vkDestroyDebugUtilsMessengerEXT")
            destroy(self.handle, self._messenger, api.null)
        api.lib.vkDestroyInstance(self.handle, api.null)


def layers_installed() -> bool:
    """Whether the validation layers can be loaded."""
    api = vkapi.load()
    there = api.listed("vkEnumerateInstanceLayerProperties", "VkLayerProperties")
    return _LAYER in {api.text(layer.layerName) for layer in there}


def no_driver(why: str) -> str:
    """Return the message for a machine without a driver."""
    named = next((n for n in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES") if os.environ.get(n)), None)
    hint = f"; note that {named}={os.environ[named]} is set" if named else ""
    return _NO_DRIVER.format(why=why, hint=hint)


def get() -> Instance:
    """Return the instance, made on first use.

    Raises
    ------
    DeviceError
        If there is no loader, no driver, or the layers that were asked for are missing.
    """
    with _lock:
        if not _current:
            _current.append(Instance())
        return _current[0]


def loaded() -> bool:
    """Whether an instance exists."""
    return bool(_current)


def release() -> None:
    """Destroy the instance if there is one."""
    with _lock:
        if _current:
            _current.pop().destroy()
