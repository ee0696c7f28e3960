"""Compile the shaders: ``python -m grilly_backend_vulkan.build``, or those of an extension with its folder behind.

Every ``.comp`` file is compiled once for each variant of one table into ``spirv/``, with a manifest beside. The same
sources and compiler give the same bytes.

An extension keeps the two folders ``shaders`` and ``spirv`` beside its kernels, and its table in
``shaders/variants.py``: plain data named ``VARIANTS``, of variant → (source, type of element or "", macros). Its
sources may include the files of this package (``types.glsl``, ``maths.glsl``, …).
"""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from grilly_backend_vulkan import glsl
from grilly_backend_vulkan.kernels import matmul_matrices, matmul_tiles
from grilly_backend_vulkan.kernels.support import CODES

__all__ = [
    "Variant",
    "build",
    "expanded",
    "extension_variants",
    "main",
    "manifest",
    "push_layout",
    "variants",
]

HERE: Final = Path(__file__).parent
SHADERS: Final = HERE / "shaders"
SPIRV: Final = HERE / "spirv"

_INTEGERS: Final = CODES[:9]
_FLOATS: Final = ("f32", "f16", "bf16")
_SIZES: Final = {"s1": 1, "s2": 2, "s4": 4, "s8": 8, "s16": 16}
_PATTERNS: Final = {"s1": "push.k.x", "s2": "push.k.x", "s4": "push.k.x", "s8": "push.k.xy", "s16": "push.k"}
_BYTES: Final = {
    "b1": 1,
    "u8": 1,
    "i8": 1,
    "u16": 2,
    "i16": 2,
    "f16": 2,
    "bf16": 2,
    "f64": 8,
    "i64": 8,
    "u64": 8,
}


@dataclass(frozen=True)
class Variant:
    """One shader to compile.

    Attributes
    ----------
    name : str
        Of the ``.spv`` file.
    source : str
        Name of the ``.comp`` file without suffix.
    defines : dict
    needs : tuple of str
        Facts a device must have (`f64`) beyond what every device of the backend has.
    folder : Path
        Where the source lies.
    """

    name: str
    source: str
    defines: dict[str, str | int] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    folder: Path = SHADERS


def _typed(code: str) -> dict[str, str | int]:
    """Return the macros of an element type: its code, its bytes, the type of arithmetic."""
    if code in _SIZES:
        vector = {"s8": "uvec2", "s16": "uvec4"}.get(code, "uint")
        return {"T": code, "SIZE": _SIZES[code], "C": vector, "PATTERN": _PATTERNS[code]}
    wide = {"u64": "uint64_t", "i64": "int64_t", "f64": "double"}
    kind = "f" if "f" in code else "i" if code.startswith("i") else "u"
    narrow = {"f": "float", "i": "int", "u": "uint"}[kind]
    defines: dict[str, str | int] = {"T": code, "SIZE": _BYTES.get(code, 4), "C": wide.get(code, narrow)}
    defines[f"KIND_{kind}"] = 1
    if code == "f64":
        defines["USE_F64"] = 1
    return defines


#: Sources whose functions must stay apart; see fusion.py.
_FRAMES: Final = ("chain",)
#: Sources that are compiled once; fused kernels compute in f32.
_PLAIN: Final = (
    "random_bits", "positions", "rows", "rows_held", "chain", "norm_columns", "channels", "cross_entropy", "optim",
    "pool", "conv", "conv_depthwise", "fft", "chirp",
)  # fmt: skip
#: Source → types it is compiled for.
_TABLE: Final[dict[str, tuple[str, ...]]] = {
    "unary": (*_FLOATS, "f64", *CODES[1:9]),
    "isnan": (*_FLOATS, "f64"),
    "binary": CODES,
    "compare": CODES,
    "where": ("s1", "s2", "s4", "s8", "s16"),
    "copy": ("s1", "s2", "s4", "s8", "s16"),
    "fill": ("s1", "s2", "s4", "s8", "s16"),
    "gather": ("s1", "s2", "s4", "s8", "s16"),
    "iota": CODES[1:],
    "activation": _FLOATS,
    "dropout": _FLOATS,
    "reduce": CODES[1:],
    "cumsum": CODES[1:],
    "matmul": CODES[1:],
    "scatter": (*CODES, "s8", "s16"),
    "sort_block": CODES,
    "sort_merge": ("s4", "s8"),
    "sort_finish": ("s1", "s2", "s4", "s8"),
}


#: Rows and columns of the tiles of `conv_tiles`; sums over places put columns of a tile together, so rows are padded.
_CONV_TILES: Final = ((64, 64), (64, 128), (128, 64), (128, 128))


#: Attention by the width of a head: rows and columns of scores at a time, those of a thread, rows and columns of a
#: thread's sums, and how much of the width and how many lines one step takes.
_ATTENTION_KEYS: Final = ("BR", "BC", "SR", "SC", "OR", "OC", "STEP", "STEP_KEYS")
_ATTENTION: Final = {
    32: (128, 64, 8, 8, 8, 4, 16, 16), 64: (128, 64, 8, 8, 8, 8, 16, 16), 128: (128, 128, 8, 8, 8, 8, 8, 8),
    256: (64, 64, 4, 4, 8, 8, 16, 8),
}  # fmt: skip
_ATTENTION_GRAD: Final = {
    32: (64, 64, 4, 8, 4, 4, 16, 16), 64: (64, 64, 4, 8, 4, 8, 16, 16), 128: (64, 64, 4, 8, 8, 8, 16, 8),
    256: (64, 64, 4, 4, 8, 8, 16, 8),
}  # fmt: skip

#: On cooperative matrices: subgroups of 16 rows, and columns of scores at a time. f32 is taken in parts of bf16.
_ATTENTION_MATRIX: Final = {64: (4, 64), 128: (8, 64)}
_ATTENTION_MATRIX_GRAD: Final = {64: (4, 64), 128: (8, 32)}
_ATTENTION_SPLIT: Final = {64: (8, 32), 128: (8, 32)}
_ATTENTION_SPLIT_GRAD: Final = {64: (8, 32)}
_SPLIT: Final = 2


def _attention() -> Iterator[Variant]:
    for source, table in (
        ("attention", _ATTENTION),
        ("attention_query_grad", _ATTENTION_GRAD),
        ("attention_key_grad", _ATTENTION_GRAD),
    ):
        for width, numbers in table.items():
            sizes: dict[str, str | int] = dict(zip(_ATTENTION_KEYS, numbers, strict=True))
            yield Variant(f"{source}_{width}", source, {**_typed("f32"), "D": width, **sizes})
    yield Variant("attention_split", "attention_split", {**_typed("f32"), "PARTS": _SPLIT})
    halves, split = ("f16", "bf16"), ("high",)
    for kind, table, codes in (
        ("", _ATTENTION_MATRIX, halves), ("_query_grad", _ATTENTION_MATRIX_GRAD, halves),
        ("_key_grad", _ATTENTION_MATRIX_GRAD, halves), ("", _ATTENTION_SPLIT, split),
        ("_query_grad", _ATTENTION_SPLIT_GRAD, split), ("_key_grad", _ATTENTION_SPLIT_GRAD, split),
    ):  # fmt: skip
        for width, (warps, columns) in table.items():
            for code in codes:
                yield _attention_matrix(f"attention_matrix{kind}", code, width, warps, columns)


def _attention_matrix(source: str, code: str, width: int, warps: int, columns: int) -> Variant:
    factor, stored = ("bf16", "f32") if code == "high" else (code, code)
    sizes: dict[str, str | int] = {"D": width, "WARPS": warps, "BC": columns}
    sizes |= {"BRAIN": 1} if factor == "bf16" else {}
    sizes |= {"PARTS": _SPLIT} if code == "high" else {}
    needs = ("cooperative_matrix", factor)
    return Variant(f"{source}_{code}_{width}", source, {**_typed(stored), **sizes}, needs)


def _attention_decode() -> Iterator[Variant]:
    for code in _FLOATS:
        defines = {**_typed(code), **({"BRAIN": 1} if code == "bf16" else {})}
        for kind in ("", "_join"):
            yield Variant(f"attention_decode{kind}_{code}", f"attention_decode{kind}", defines)


def variants() -> Iterator[Variant]:
    """Yield everything there is to compile."""
    for name in _PLAIN:
        yield Variant(name, name)
    for rows, columns in _CONV_TILES:
        for kind, padded in (("data", 0), ("weight", 1)):
            defines: dict[str, str | int] = {"BM": rows, "BN": columns, "PADDED": padded}
            yield Variant(f"conv_tiles_{kind}_{rows}x{columns}", "conv_tiles", defines)
    for code in ("f16", "bf16"):
        factors: dict[str, str | int] = {"BRAIN": 1} if code == "bf16" else {}
        needs = ("cooperative_matrix", "i16", code)
        yield Variant(f"conv_matrix_data_{code}", "conv_matrix", {**_typed(code), **factors}, needs)
        yield Variant(
            f"conv_matrix_weight_{code}", "conv_matrix", {**_typed(code), **factors, "WEIGHT": 1}, needs
        )
        yield Variant(f"conv_join_{code}", "conv_join", _typed(code))
    yield from _matmul()
    yield from _attention()
    yield from _attention_decode()
    yield Variant("cast", "cast")
    yield Variant("cast_f64", "cast", {"USE_F64": 1}, ("f64",))
    for source, codes in _TABLE.items():
        for code in codes:
            yield Variant(f"{source}_{code}", source, _typed(code), ("f64",) if code == "f64" else ())


def _matmul() -> Iterator[Variant]:
    """Yield the tiled products, and what prepares their operands and joins their parts."""
    for tile in matmul_tiles.TILES:
        defines: dict[str, str | int] = {"BM": tile.rows, "BN": tile.columns, "STEP": tile.step}
        yield Variant(
            f"matmul_tiles_{tile.name}", "matmul_tiles", {**defines, "TM": tile.down, "TN": tile.across}
        )
    kinds: tuple[tuple[str, dict[str, str | int], tuple[str, ...]], ...] = (
        ("f16", {}, ("f16",)), ("bf16", {"BRAIN": 1}, ("bf16",)), ("i8", {"WHOLE": 1}, ("i8",)),
    )  # fmt: skip
    for code, extra, needs in kinds:
        for tile in matmul_matrices.TILES:
            step = tile.step * 2 if code == "i8" else tile.step
            defines = {"BM": tile.rows, "BN": tile.columns, "STEP": step, "WM": tile.down, "WN": tile.across}
            name = f"matmul_matrices_{code}_{tile.name}"
            needed = (*needs, "cooperative_matrix", "memory_model")
            yield Variant(name, "matmul_matrices", {**_typed(code), **defines, **extra}, needed)
    yield Variant("matmul_pack_f32", "matmul_pack", {**_typed("f32"), "SPLIT": 1})
    for code in ("s1", "s2"):
        yield Variant(f"matmul_pack_{code}", "matmul_pack", _typed(code))
    for code in _FLOATS:
        yield Variant(f"matmul_join_{code}", "matmul_join", _typed(code))


def push_layout(source: str) -> list[str]:
    r"""Return the members of the push constants, in order, by std430 rules.

    Examples
    --------
    >>> push_layout("uniform Push { uint64_t to; uint n, m;  // sizes\n} push;")
    ['uint64_t to', 'uint n, m']
    """
    block = re.search(r"uniform Push \{(.*?)\}", source, re.DOTALL)
    text = re.sub(r"//[^\n]*", "", block[1]) if block else ""
    return [" ".join(member.split()) for member in text.split(";") if member.strip()]


def expanded(variant: Variant) -> str:
    """Return the source of a variant, with its includes and macros."""
    source = (variant.folder / f"{variant.source}.comp").read_text(encoding="utf-8")
    return glsl.with_defines(glsl.resolve_includes(source, variant.folder, SHADERS), variant.defines)


def _entry(variant: Variant, source: str, code: bytes) -> dict[str, Any]:
    return {
        "source": f"{variant.source}.comp",
        "defines": variant.defines,
        "needs": list(variant.needs),
        "push": push_layout(source),
        "source_sha256": hashlib.sha256(source.encode()).hexdigest(),
        "spirv_sha256": hashlib.sha256(code).hexdigest(),
    }


def manifest(entries: dict[str, Any]) -> str:
    """Return the text of the manifest."""
    return (
        json.dumps({"compiler": glsl.compiler_version(), "shaders": entries}, indent=1, sort_keys=True) + "\n"
    )


def extension_variants(folder: Path) -> Iterator[Variant]:
    """Yield what the table of an extension's folder asks for; the folder holds ``shaders``."""
    shaders = folder / "shaders"
    table = runpy.run_path(str(shaders / "variants.py"))["VARIANTS"]
    for name, (source, code, macros) in table.items():
        defines = {**(_typed(code) if code else {}), **({"BRAIN": 1} if code == "bf16" else {}), **macros}
        yield Variant(name, source, defines, ("f64",) if code == "f64" else (), shaders)


def build(folder: Path = SPIRV, wanted: Iterable[Variant] | None = None) -> int:
    """Compile into `folder`, remove what is no longer made, and return the number of shaders.

    Parameters
    ----------
    folder : Path
    wanted : iterable of Variant, optional
        Instead of all of this package.
    """
    folder.mkdir(exist_ok=True)
    entries: dict[str, Any] = {}
    for variant in variants() if wanted is None else wanted:
        source = expanded(variant)
        code = glsl.compile_glsl(source, variant.name, optimise=variant.source not in _FRAMES)
        (folder / f"{variant.name}.spv").write_bytes(code)
        entries[variant.name] = _entry(variant, source, code)
    for path in folder.glob("*.spv"):
        if path.stem not in entries:
            path.unlink()
    (folder / "manifest.json").write_text(manifest(entries), encoding="utf-8")
    return len(entries)


def main() -> None:
    """Build and say how much."""
    folders = [Path(name) for name in sys.argv[1:]]
    for place in folders or [HERE]:
        count = build(place / "spirv", extension_variants(place) if folders else None)
        total = sum(path.stat().st_size for path in (place / "spirv").glob("*.spv"))
        print(f"{count} shaders, {total / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
