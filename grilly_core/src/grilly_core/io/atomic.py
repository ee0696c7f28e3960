"""Writing a file so that a reader, or a crash, sees the old content or the new, never a mixture."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(path: str | os.PathLike[str], chunks: Iterable[bytes | memoryview]) -> Path:
    """Write chunks to a temporary file beside `path`, flush it to the disk, then rename it.

    The permissions of a file that is replaced are kept. Leftovers of processes that were killed while they saved
    to the same path are removed.

    Parameters
    ----------
    path : path
    chunks : iterable of bytes-like

    Returns
    -------
    Path
        The path written to; links are followed.
    """
    target = Path(path).resolve()
    mode = target.stat().st_mode & 0o7777 if target.exists() else None
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.chmod(temporary, mode)
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)
    _sweep(target)
    return target


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system lets a folder be opened."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _sweep(target: Path) -> None:
    pattern = re.compile(re.escape(f".{target.name}.") + r"(\d+)-[0-9a-f]{8}\.tmp")
    for name in os.listdir(target.parent):
        found = pattern.fullmatch(name)
        if found and not _alive(int(found[1])):
            (target.parent / name).unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    if os.name != "posix":  # signal 0 asks nothing elsewhere; leave the file alone
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
