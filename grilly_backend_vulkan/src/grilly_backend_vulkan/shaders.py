"""Shaders by name: the SPIR-V that the package ships, and what extensions and users register."""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Final

from grilly_core import config
from grilly_core.atomic import atomic_write
from grilly_core.errors import DeviceError, MissingPluginError, RegistrationError
from grilly_core.plugins import known

__all__ = ["capabilities", "compile_glsl", "register_folder", "register_shader", "spirv"]

_SHIPPED: Final = Path(__file__).parent / "spirv"
_MAGIC: Final = 0x07230203
_CAPABILITY: Final = 17
_registered: dict[str, bytes] = {}
_folders: dict[str, Path] = {}
_lock: Final = threading.Lock()


def register_shader(name: str, *, spirv: bytes | None = None, glsl: str | None = None) -> str:
    """Make a compute shader available to ``stream.pipeline(name)``.

    Parameters
    ----------
    name : str
        A dotted name such as ``"snn.lif"``; the names without a dot belong to this package.
    spirv : bytes, optional
        A compiled module with the entry point ``main``, for Vulkan 1.3 or earlier.
    glsl : str, optional
        GLSL source instead. It is compiled by an installed slangpy (extra ``compile``), or by ``glslc`` or
        ``glslangValidator`` on the path; the result is cached by the hash of the source.

    Returns
    -------
    str
        The name.

    Raises
    ------
    RegistrationError
        If the bytes are no SPIR-V, the source does not compile, or the name means another shader.
    MissingPluginError
        If source is given and no compiler is installed.
    """
    if (spirv is None) == (glsl is None):
        raise RegistrationError(f"shader {name!r}: give either spirv= or glsl=.")
    if "." not in name:
        raise RegistrationError(f"shader {name!r}: choose a dotted name, such as 'mine.{name}'.")
    module = _checked(name, spirv) if spirv is not None else compile_glsl(name, glsl or "")
    with _lock:
        if _registered.setdefault(name, module) != module:
            raise RegistrationError(f"shader {name!r} is registered already, with another module.")
    return name


def register_folder(prefix: str, folder: Path) -> None:
    """Make the modules ``NAME.spv`` of a folder available as ``prefix.NAME``, each read when it is first used.

    Parameters
    ----------
    prefix : str
        Such as ``"snn"``; no dot.
    folder : Path
        Where ``python -m grilly_backend_vulkan.build`` put them.

    Raises
    ------
    RegistrationError
        If the folder has no manifest, or the prefix means another folder.
    """
    if not prefix or "." in prefix:
        raise RegistrationError(f"shaders {prefix!r}: choose a prefix without a dot.")
    if not (folder / "manifest.json").is_file():
        raise RegistrationError(f"shaders {prefix!r}: {folder} has no manifest.json; build it first.")
    with _lock:
        if _folders.setdefault(prefix, folder) != folder:
            raise RegistrationError(f"shaders {prefix!r} lie in {_folders[prefix]}; received {folder}.")


def _path(name: str) -> Path:
    prefix, dot, rest = name.partition(".")
    return _folders[prefix] / f"{rest}.spv" if dot and prefix in _folders else _SHIPPED / f"{name}.spv"


def spirv(name: str) -> bytes:
    """Return the module called `name`.

    Raises
    ------
    DeviceError
        If there is none.
    """
    found = _registered.get(name)
    if found is None:
        path = _path(name)
        if not path.is_file():
            raise DeviceError(
                f"shader {name!r} is neither shipped nor registered; `python -m grilly_backend_vulkan.build` compiles "
                "the shipped ones in a checkout, register_shader() adds others."
            )
        with _lock:
            found = _registered.setdefault(name, _checked(name, path.read_bytes()))
    return found


def _checked(name: str, module: bytes) -> bytes:
    if len(module) < 20 or len(module) % 4 or struct.unpack_from("<I", module)[0] != _MAGIC:
        raise RegistrationError(f"shader {name!r}: {len(module)} bytes that are no SPIR-V module.")
    return bytes(module)


def capabilities(module: bytes) -> list[int]:
    """Return the capabilities a SPIR-V module declares."""
    words = memoryview(module).cast("I")
    found, i = [], 5
    while i + 1 < len(words):
        length, opcode = words[i] >> 16, words[i] & 0xFFFF
        if opcode == _CAPABILITY:
            found.append(words[i + 1])
        elif found or length == 0:  # capabilities come first
            break
        i += length
    return found


# -- GLSL --------------------------------------------------------------------------------------------------------


def compile_glsl(name: str, source: str) -> bytes:
    """Return the SPIR-V of a GLSL compute shader; see `register_shader`."""
    folder = config.cache_dir()
    cached = folder and folder / "vulkan" / f"{hashlib.sha256(source.encode()).hexdigest()}.spv"
    if cached and cached.is_file():
        try:
            return _checked(name, cached.read_bytes())
        except (OSError, RegistrationError):
            pass  # compiled anew below
    module = _compiled(name, source)
    if cached:
        try:
            cached.parent.mkdir(mode=0o700, exist_ok=True)
            with atomic_write(cached) as file:
                file.write(module)
        except OSError:
            pass  # a cache that cannot be written is only slower
    return module


def _compiled(name: str, source: str) -> bytes:
    try:
        from grilly_backend_vulkan import glsl
    except ImportError:
        pass
    else:
        if glsl.available():
            try:
                return _checked(name, glsl.compile_glsl(source, name))
            except glsl.CompileError as error:
                raise RegistrationError(f"shader {name!r} does not compile: {error}") from error
    for tool, options in (
        ("glslc", ["-fshader-stage=compute", "--target-env=vulkan1.2", "-O"]),
        ("glslangValidator", ["-V", "-S", "comp", "--target-env", "vulkan1.2"]),
    ):
        if shutil.which(tool):
            return _checked(name, _run_compiler(name, [tool, *options], source))
    hint = known.install_hint("grilly-backend-vulkan")
    raise MissingPluginError(
        f"shader {name!r}: no GLSL compiler is installed; install the extra 'compile' of grilly-backend-vulkan "
        f"({hint}) or slangpy, put glslc or glslangValidator on the path, or register SPIR-V."
    )


def _run_compiler(name: str, command: list[str], source: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "shader.comp"), Path(folder, "shader.spv")
        given.write_text(source, encoding="utf-8")
        done = subprocess.run(
            [*command, "-o", str(made), str(given)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = (done.stdout + done.stderr).strip().replace(str(given), name)
            raise RegistrationError(f"shader {name!r} does not compile: {said}")
        return made.read_bytes()
