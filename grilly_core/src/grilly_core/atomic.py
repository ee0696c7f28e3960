"""Writing a file so that a reader, or a crash, sees the old content or the new, never a mixture."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["atomic_write"]


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path` for writing; at the end flush it to the disk, then rename it.

    If the block raises, `path` is left as it was. The permissions of a file that is replaced are kept, links are
    followed, and leftovers of processes that were killed while they saved to the same path are removed.

    Parameters
    ----------
    path : path

    Examples
    --------
    >>> import grilly_core as grilly, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report"
    >>> with grilly.io.atomic_write(path) as file:
    ...     _ = file.write(b"all or nothing")
    >>> path.read_bytes()
    b'all or nothing'
    """
    target = Path(path).resolve()
    mode = target.stat().st_mode & 0o7777 if target.exists() else None
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.chmod(temporary, mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)
    _sweep(target)


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
