"""What ``python -m grilly_backend_vulkan.build`` compiles here: variant → (source, type of element, macros)."""

VARIANTS: dict[str, tuple[str, str, dict[str, str | int]]] = {}
