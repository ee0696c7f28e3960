"""Numba, imported when the first kernel that needs it runs, and set up so that it is safe.

What was measured on two cores, and what follows from it:

* Numba's OpenMP layer in turn with OpenBLAS costs about 4 ms a switch and kills a forked child; its workqueue layer
  aborts the process under two threads. TBB does neither. The pip package puts ``libtbb`` where the loader does not
  look, so it is loaded by path before the first compile. Without TBB, a forked child runs serially, and where only
  workqueue is left everything does.
* A loop over ``range(a, b)`` of an array is not vectorised (negative indices wrap round), a loop over a slice from 0
  is: twice as fast. The body of a ``prange`` is not vectorised well either, so a parallel kernel here is a serial
  `body` over ``[start, stop)``, and one shared driver. Blocks do not depend on the number of threads, so neither do
  results.
* LLVM avoids 512-bit vectors by default; on CPUs that have them they are a third faster in these kernels.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

from grilly_backend_cpu import jit_setup

__all__ = ["Jit", "Native", "available", "njit", "prange", "split"]

_lock: Final = threading.RLock()


@functools.cache
def available() -> bool:
    """Whether Numba is installed (it is not imported to find out)."""
    return importlib.util.find_spec("numba") is not None


def prange(*bounds: int) -> range:
    """Stand for ``numba.prange`` in a kernel: parallel once compiled, a plain ``range`` in Python."""
    return range(*bounds)


class Native:
    """What only Numba can express, as an intrinsic; ``make(numba)`` is called when a kernel that names it compiles."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make

    @functools.cached_property
    def made(self) -> Any:
        """What stands in its place in compiled code."""
        return self.make(jit_setup.numba())


class Jit:
    """A function that Numba compiles on its first call.

    Names that the function takes from its module or from a function around it, and that mean a `Jit` object or
    `prange`, are replaced by what Numba knows at that moment; so the module of a kernel need not import Numba. They
    must be names of their own: ``prange(n)``, not ``jit.prange(n)``.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any], name: str = "") -> None:
        self.function = function
        self.options = options
        self.name = name or function.__qualname__
        self.replaced: dict[str, Any] = {}
        self.joined = True
        self._compiled: Any = None
        functools.update_wrapper(self, function)

    @property
    def compiled(self) -> Any:
        """The Numba dispatcher."""
        if self._compiled is None:
            with _lock:
                if self._compiled is None:
                    self._compiled = self._compile()
        return self._compiled

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest of this function's code and of the compiled functions and numbers that it takes from outside."""
        code, digest = self.function.__code__, hashlib.sha256()
        names = dict(self.function.__globals__) | self.replaced
        outside = [names.get(name) for name in code.co_names]
        outside += [cell.cell_contents for cell in self.function.__closure__ or ()]
        for part in (*_parts(code), *(x.fingerprint if isinstance(x, Jit) else x for x in outside)):
            if isinstance(part, (bytes, str, int, float)):
                digest.update(repr(part).encode())
        return digest.hexdigest()[:12]

    @functools.cached_property
    def nested(self) -> Any:
        """The Numba dispatcher that other compiled functions call: always made part of them.

        Left to LLVM, a call may go to the copy in the caller's object or to the function's own, which are optimised
        apart and add in different orders. Which one it was depended on what lay in the cache, so a kernel's first run
        differed from all later ones in the last bits.
        """
        with _lock:
            return self._compile({"cache": False, "forceinline": True})

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        compiled = self._compiled
        if compiled is None:
            compiled = self.compiled
        return compiled(*arguments)

    def _compile(self, more: dict[str, Any] | None = None) -> Any:
        numba = jit_setup.numba()
        source = self.function
        assert isinstance(source, types.FunctionType)
        names = dict(source.__globals__) | self.replaced
        for name in source.__code__.co_names:
            if name in names:
                names[name] = _numba_counterpart(names[name], numba, self.joined)
        cells = [cell.cell_contents for cell in source.__closure__ or ()]
        closure = (
            tuple(types.CellType(_numba_counterpart(value, numba, self.joined)) for value in cells) or None
        )
        options = self.options | (more or {})
        if any(isinstance(value, Jit) for value in cells):
            options["cache"] = (
                False  # Numba hashes what is closed over, and a dispatcher hashes anew in each process
            )
        made = types.FunctionType(source.__code__, names, source.__name__, source.__defaults__, closure)
        # The name of a cache file is made of the qualified name, so two uses of one template need two of them. Numba
        # compares the file of this function alone: the fingerprint tells a body that changed elsewhere, as in an
        # extension.
        made.__qualname__ = f"{self.name}-{self.fingerprint}"
        made.__module__ = source.__module__
        return jit_setup.dispatcher(made, options)


def _parts(code: types.CodeType) -> Iterator[bytes | str]:
    """Yield what a function's code is made of, with the functions inside it."""
    yield code.co_code
    yield repr((code.co_names, code.co_varnames))
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            yield from _parts(value)
        else:
            yield repr(value)


def _numba_counterpart(value: Any, numba: Any, joined: bool) -> Any:
    if isinstance(value, Jit):
        return value.nested if joined else value.compiled
    if isinstance(value, Native):
        return value.made
    return numba.prange if value is prange else value


def njit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function with Numba when it is first called.

    Parameters
    ----------
    function : callable, optional
        Absent when options are given: ``@njit(parallel=True)``.
    **options
        Those of ``numba.njit``. ``error_model="numpy"``, ``nogil`` and caching on disk are set already.

    Examples
    --------
    >>> import numpy as np
    >>> from grilly_backend_cpu.jit import njit
    >>> @njit
    ... def total(x):
    ...     s = 0.0
    ...     for i in range(x.size):
    ...         s += x[i]
    ...     return s
    >>> total(np.ones(3))
    3.0
    """
    if function is None:
        return lambda f: Jit(f, options)
    return Jit(function, options)


_body: Any = None  # replaced by the body of each kernel that `split` makes parallel


def _drive(block: int, blocks: int, n: int, args: Any) -> None:
    for i in prange(blocks):
        start = i * block
        _body(start, min(start + block, n), args)


def split(body: Jit) -> Callable[..., None]:
    """Return ``run(n, block, args)``, which calls ``body(start, stop, args)`` for blocks of ``range(n)``.

    In parallel if there is more than one block and more than one thread; a block is a unit of work worth about
    10 µs or more, and never depends on the number of threads.

    Parameters
    ----------
    body : Jit
        Takes ``start``, ``stop`` and a tuple; different blocks must write to different places.
    """
    drive = Jit(_drive, {"parallel": True}, f"_drive[{body.function.__module__}.{body.name}]")
    drive.replaced["_body"], drive.joined = body, False

    def run(n: int, block: int, args: tuple[Any, ...]) -> None:
        if n <= block:
            if n > 0:
                body(0, n, args)
        elif jit_setup.threads() == 1:
            body(0, n, args)
        else:
            drive(block, -(-n // block), n, args)

    return run
