"""What ``python -m grilly_backend_vulkan.build`` compiles here: variant → (source, type of element, macros)."""

VARIANTS: dict[str, tuple[str, str, dict[str, str | int]]] = {
    "best_bits": ("best_bits", "", {}),
    "best_codes": ("best_codes", "", {}),
    "best_scores": ("best_scores", "", {}),
    "best_products": ("best_scores", "", {"PRODUCTS": 1}),
    "best_merge": ("best_merge", "", {}),
    "best_rows": ("best_rows", "f64", {}),
    "bounds": ("bounds", "", {}),
    "code_tables": ("code_tables", "", {}),
    "distances": ("distances", "f64", {}),
    "rescore": ("rescore", "f64", {}),
    "weigh": ("weigh", "f64", {}),
}
