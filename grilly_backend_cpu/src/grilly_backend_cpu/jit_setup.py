"""How Numba is set up: threading layer, number of threads, vector width, and the cache on disk."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import stat
import sys
import threading
from importlib import util
from pathlib import Path
from typing import Any, Final

__all__ = ["cache_folder", "describe", "dispatcher", "numba", "threads"]

_lock: Final = threading.RLock()
_state: Final[dict[str, Any]] = {"threads": None, "layer": None, "cache": None}
_TBB_NAMES: Final = {"linux": "libtbb.so.12", "darwin": "libtbb.12.dylib", "win32": "tbb12.dll"}


@functools.cache
def numba() -> Any:
    """Import Numba and set it up, once."""
    with _lock:
        import numba as module

        _state["layer"] = _choose_layer(module.config)
        if _state["layer"] == "serial":
            _state["threads"] = 1
        else:
            _limit_threads(module.config)
        _widen_vectors(module.config)
        _state["cache"] = cache_folder()
        os.register_at_fork(after_in_child=_after_fork)
        return module


def threads() -> int:
    """Return how many threads parallel kernels use (``OMP_NUM_THREADS``, else the CPUs of this process)."""
    if _state["threads"] is None:
        _state["threads"] = _wanted_threads()
    return int(_state["threads"])


def describe() -> dict[str, Any]:
    """Return the threading layer, the number of threads and the cache folder (for ``grilly doctor``)."""
    numba()
    return {"layer": _state["layer"], "threads": threads(), "cache": str(_state["cache"] or "in memory only")}


def _wanted_threads() -> int:
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if first.isdigit() and int(first) > 0:
        return int(first)
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _limit_threads(config: Any) -> None:
    # Numba takes the number when it starts its threads; a process that already did keeps what it has.
    if "NUMBA_NUM_THREADS" not in os.environ:
        config.NUMBA_NUM_THREADS = min(threads(), max(config.NUMBA_DEFAULT_NUM_THREADS, 1))
    _state["threads"] = min(threads(), config.NUMBA_NUM_THREADS)


def _choose_layer(config: Any) -> str:
    named = str(os.environ.get("NUMBA_THREADING_LAYER", "")).lower()
    if named == "workqueue":
        return "serial"
    if _load_tbb() and named in ("", "default", "tbb"):
        config.THREADING_LAYER = "tbb"
        return "tbb"
    if util.find_spec("numba.np.ufunc.omppool") is not None:
        config.THREADING_LAYER = "omp"
        return "omp"
    return "serial"


def _load_tbb() -> bool:
    name = _TBB_NAMES.get(sys.platform, "libtbb.so.12")
    folder = Path(sys.prefix) / ("Library/bin" if sys.platform == "win32" else "lib")
    if util.find_spec("numba.np.ufunc.tbbpool") is None:
        return False
    for candidate in (str(folder / name), name):
        try:
            ctypes.CDLL(candidate, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        return True
    return False


def _widen_vectors(config: Any) -> None:
    """Let LLVM use 512-bit vectors where the CPU has them; read by Numba before its first compile."""
    if config.CPU_FEATURES is None and config.CPU_NAME is None:
        import llvmlite.binding as llvm

        features = llvm.get_host_cpu_features()
        if features.get("avx512f", False) and features.get("avx512vl", False):
            config.CPU_FEATURES = f"{features.flatten()},-prefer-256-bit"


def _after_fork() -> None:
    if _state["layer"] != "tbb":  # the OpenMP runtime of the parent is not usable in a forked child
        _state["threads"] = 1


def _stamp() -> str:
    """Return a name that changes with any source here: Numba's own check sees only the file of the outer function."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        info = path.stat()
        digest.update(f"{path}:{info.st_mtime_ns}:{info.st_size};".encode())
    return digest.hexdigest()[:16]


def _cache_root() -> Path:
    named = os.environ.get("GRILLY_CACHE_DIR")
    if named:
        return Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "grilly"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/grilly"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "grilly"


def cache_folder() -> Path | None:
    """Return the folder of compiled kernels, or None to keep them in memory.

    The cache is pickle, so it is used only if nobody but this user can write there.
    """
    try:
        folder = _cache_root() / "numba" / _stamp()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in (folder, folder.parent):
            path.chmod(0o700)
            info = path.stat()
            if hasattr(os, "getuid") and (info.st_uid != os.getuid() or stat.S_IMODE(info.st_mode) & 0o022):
                return None
        return folder if os.access(folder, os.W_OK | os.X_OK) else None
    except (OSError, RuntimeError):  # no home, a read-only disk, somebody else's folder
        return None


def dispatcher(function: Any, options: dict[str, Any]) -> Any:
    """Return ``numba.njit`` of a function, with grilly's defaults and cache."""
    module = numba()
    chosen = {"error_model": "numpy", "nogil": True} | options
    folder = _state["cache"]
    if folder is None or not chosen.pop("cache", True):
        return module.njit(**chosen)(function)
    with _lock:
        before = module.config.CACHE_DIR
        # The place is chosen inside the decorator; other users of Numba in this process keep theirs.
        module.config.CACHE_DIR = str(folder)
        try:
            return module.njit(cache=True, **chosen)(function)
        except RuntimeError:  # "no locator available": a function without a source file
            return module.njit(**chosen)(function)
        finally:
            module.config.CACHE_DIR = before
