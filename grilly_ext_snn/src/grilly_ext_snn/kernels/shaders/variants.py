"""What ``python -m grilly_backend_vulkan.build`` compiles here: variant → (source, type of element, macros)."""

_NEURONS = (
    "if", "lif", "plif", "lif_refractory", "alif", "gif", "leaky", "lapicque", "synaptic", "alpha", "izhikevich",
    "adex",
)  # fmt: skip

VARIANTS: dict[str, tuple[str, str, dict[str, str | int]]] = {
    f"{name}_{kind}": (f"neuron_{name}", "", macros)
    for name in _NEURONS
    for kind, macros in (("scan", {}), ("scan_vjp", {"BACKWARD": 1}))
}
