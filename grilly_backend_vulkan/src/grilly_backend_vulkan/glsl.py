"""GLSL to SPIR-V through the glslang that the ``slangpy`` wheel carries, by ctypes, without a GPU.

Only building the shaders, and registering shaders as GLSL text, need it; SPIR-V ships with the package. The entry
point is no public interface of ``slangpy``, so its version is pinned by the extra ``compile``.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["CompileError", "available", "compile_glsl", "compiler_version", "resolve_includes"]

_COMPUTE_STAGE: Final = 6
_PATTERNS: Final = ("libslang-glslang*.so*", "libslang-glslang*.dylib", "slang-glslang*.dll")
_INCLUDE: Final = re.compile(r'^#include "([^"]+)"\s*$', re.MULTILINE)
_Sink = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class CompileError(RuntimeError):
    """A shader did not compile; the message is the compiler's, with line numbers of the expanded source."""


class _Request(ctypes.Structure):
    """The argument of ``glslang_compile_1_2``."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("source_path", ctypes.c_char_p),
        ("begin", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
        ("diagnose", _Sink),
        ("diagnose_data", ctypes.c_void_p),
        ("output", _Sink),
        ("output_data", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("action", ctypes.c_uint),
        ("optimization", ctypes.c_uint),
        ("debug", ctypes.c_uint),
        ("target", ctypes.c_char_p),
        ("version", ctypes.c_int * 3),
        ("entry", ctypes.c_char_p),
    ]


@functools.cache
def _library() -> Path | None:
    spec = importlib.util.find_spec("slangpy")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    return next((path for pattern in _PATTERNS for path in sorted(folder.glob(pattern))), None)


def available() -> bool:
    """Whether shaders can be compiled here."""
    return _library() is not None


def compiler_version() -> str:
    """Return the name and version of the compiler, as the manifest records it."""
    return f"slangpy {importlib.metadata.version('slangpy')} glslang"


@functools.cache
def _entry() -> Any:
    path = _library()
    if path is None:
        raise CompileError(
            "no GLSL compiler: install the extra 'compile' of grilly-backend-vulkan (slangpy), or register the "
            "shader as SPIR-V."
        )
    return ctypes.CDLL(str(path)).glslang_compile_1_2


def resolve_includes(source: str, *folders: Path) -> str:
    """Return `source` with each ``#include "file"`` replaced by that file, once.

    Parameters
    ----------
    source : str
    *folders : Path
        Where included files lie; the first that has one is taken.
    """
    seen: set[str] = set()

    def replaced(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return ""
        seen.add(name)
        found = next((path for folder in folders if (path := folder / name).is_file()), None)
        if found is None:
            raise CompileError(f'#include "{name}": no such file in {", ".join(map(str, folders))}')
        return _INCLUDE.sub(replaced, found.read_text(encoding="utf-8"))

    return _INCLUDE.sub(replaced, source)


def with_defines(source: str, defines: Mapping[str, str | int]) -> str:
    """Return `source` with macro definitions put behind its ``#version`` line."""
    version, newline, rest = source.partition("\n")
    lines = [f"#define {name} {value}" for name, value in defines.items()]
    return version + newline + "\n".join([*lines, rest])


def compile_glsl(
    source: str,
    name: str = "shader.comp",
    *,
    defines: Mapping[str, str | int] | None = None,
    target: int = 3,
    optimise: bool = True,
) -> bytes:
    r"""Return the SPIR-V of a compute shader.

    Parameters
    ----------
    source : str
        GLSL without includes; see `resolve_includes`.
    name : str
        For messages.
    defines : mapping, optional
        Macros.
    target : int
        Minor version of SPIR-V: 3 runs everywhere.
    optimise : bool
        False keeps functions as they are.

    Raises
    ------
    CompileError
        If the compiler is not installed, or refuses the source.

    Examples
    --------
    >>> source = "#version 460\nlayout(local_size_x = 1) in;\nvoid main() {}\n"
    >>> compile_glsl(source)[:4].hex() if available() else "03022307"
    '03022307'
    """
    entry = _entry()
    text = with_defines(source, defines or {}).encode()
    memory = ctypes.create_string_buffer(text, len(text))
    code, messages = bytearray(), bytearray()
    request = _Request()
    request.size = ctypes.sizeof(_Request)
    request.source_path = name.encode()
    request.begin = ctypes.addressof(memory)
    request.end = ctypes.addressof(memory) + len(text)
    request.output = _Sink(lambda at, n, _: code.extend(ctypes.string_at(at, n)))
    request.diagnose = _Sink(lambda at, n, _: messages.extend(ctypes.string_at(at, n)))
    request.stage = _COMPUTE_STAGE
    request.optimization = int(optimise)
    request.version = (ctypes.c_int * 3)(1, target, 0)
    request.entry = b"main"
    failed = entry(ctypes.byref(request))
    if failed or not code:
        raise CompileError(f"{name}: {messages.decode(errors='replace')}")
    return bytes(code)
