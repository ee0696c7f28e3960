"""Kernels whose launches are remembered: a plan's kernel runs its Python once, later calls only fill in addresses.

For fixed layouts a kernel makes the same launches every time, apart from the addresses of its operands. So the first
call runs the kernel twice on operands at invented addresses, without a device. Where what it pushes differs between
the two runs by what the addresses differ, there is an address; everything else must be equal. What is left is a
`Template`, and a call costs packing a few integers and recording, a fifth of what the kernel's own Python takes. A
kernel that cannot be told this way (it copies, or its launches depend on where memory lies) runs as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from grilly_backend_vulkan.extents import extent
from grilly_core.buffer import Buffer, Spec, View, contiguous_spec

if TYPE_CHECKING:
    from grilly_backend_vulkan.pipelines import Pipeline
    from grilly_backend_vulkan.stream import Stream

__all__ = ["Bound", "Kernel", "Template"]

_SPACING: Final = 1 << 36  # between invented addresses: more than any allocation
_SHIFT: Final = 1 << 56  # between the two runs: seen in the highest byte alone
_SCRATCH: Final = (
    1 << 12
)  # number of the first temporary, and of the first arguments, while a kernel is observed
_ARGUMENTS: Final = 1 << 13
_ALIGN: Final = 256  # of allocations; what an address is modulo this, a kernel may build on
_MAX_TEMPLATES: Final = 16

Kernel = Callable[[Any, Sequence[View], Sequence[View | None], dict[str, Any]], None]

#: Where addresses go: how to pack consecutive ones, at which byte, and (operand, bytes from its start) of each.
Fill = tuple[struct.Struct, int, tuple[tuple[int, int], ...]]


class _NotRelocatable(Exception):
    """The kernel does something that a template cannot repeat."""


class _Invented:
    """Stands for an allocation."""

    def __init__(self, operand: int, shift: int) -> None:
        self.operand = operand
        self.address = (operand + 1) * _SPACING + shift


class _Observer:
    """Stands for the stream: notes what a kernel launches.

    Attributes
    ----------
    steps : list
        Of (pipeline, groups, push, reads, writes).
    scratches : list of int
        Bytes of each temporary.
    data : list of bytes
        Arguments beyond push constants.
    """

    def __init__(self, stream: Stream, shift: int) -> None:
        self.runtime = stream.runtime
        self.facts = stream.facts
        self.pipeline = stream.pipeline
        self.address = stream.address
        self.steps: list[tuple[Pipeline, tuple[int, int, int], bytes, Sequence[View], Sequence[View]]] = []
        self.scratches: list[int] = []
        self.data: list[bytes] = []
        self._shift = shift

    def __getattr__(self, name: str) -> Any:
        raise _NotRelocatable(name)

    def shown(self, operand: int, view: View) -> View:
        """Return a view like `view` of an operand at an invented address."""
        buffer = Buffer(view.buffer.context, _Invented(operand, self._shift), view.buffer.nbytes)
        return View(buffer, view.spec, view.offset, None)

    def scratch(self, nbytes: int) -> View:
        """Note a temporary."""
        owner: Any = self.runtime
        self.scratches.append(nbytes)
        handle = _Invented(_SCRATCH + len(self.scratches) - 1, self._shift)
        spec = contiguous_spec((nbytes,), self.runtime.byte, owner)
        return View(Buffer(owner, handle, nbytes), spec, 0, None)

    def arguments(self, data: bytes) -> int:
        """Note arguments."""
        self.data.append(bytes(data))
        return _Invented(_ARGUMENTS + len(self.data) - 1, self._shift).address

    def product(self, out: View, a: View, b: View, precision: str = "highest") -> None:
        """Note the launches of a product."""
        from grilly_backend_vulkan.kernels import matmul  # kernels record into streams

        matmul.product(self, out, a, b, precision)

    def launch(
        self, pipeline: Pipeline, groups: tuple[int, int, int], push: bytes, reads: Sequence[View],
        writes: Sequence[View],
    ) -> None:  # fmt: skip
        """Note a launch."""
        self.steps.append((pipeline, groups, bytes(push), reads, writes))


class Step:
    """One launch of a template.

    Attributes
    ----------
    pipeline : Pipeline
    groups : tuple of int
    push : cdata
        The push constants, `size` bytes, which `memory` shows.
    fills : tuple of Fill
    reads, writes : tuple of int
        Operands.
    """

    __slots__ = ("fills", "groups", "memory", "pipeline", "push", "reads", "size", "writes")

    def __init__(
        self, pipeline: Pipeline, groups: tuple[int, int, int], push: Any, memory: memoryview,
        fills: tuple[Fill, ...], reads: tuple[int, ...], writes: tuple[int, ...],
    ) -> None:  # fmt: skip
        self.pipeline = pipeline
        self.groups = groups
        self.push = push
        self.memory = memory
        self.size = len(memory)
        self.fills = fills
        self.reads = reads
        self.writes = writes


class Template:
    """The launches of a kernel on fixed layouts.

    Its operands are outputs, inputs, temporaries, and arguments.

    Attributes
    ----------
    steps : list of Step
    ranges : list of (int, int, int)
        For each output and input the bytes it shows, and those of an element; see `extent`.
    scratches : list of int
        Bytes of each temporary.
    arguments : list of (bytearray, tuple of Fill)
    touched : int
        Bytes read and written, about.
    plain : bool
        Whether all outputs and inputs begin at the first byte of their buffers, and there are no arguments.
    single : Step or None
        The only launch of a plain template without temporaries, whose addresses are pushed as they are, in order.
    stops : list of int
        For each output and input the byte after the last one it shows.
    """

    __slots__ = ("arguments", "plain", "ranges", "scratches", "single", "steps", "stops", "touched")

    def __init__(
        self, stream: Stream, fn: Kernel, outs: Sequence[View], ins: Sequence[View | None], attrs: dict[str, Any],
        apart: bool,
    ) -> None:  # fmt: skip
        first, second = (_observed(stream, fn, outs, ins, attrs, shift, apart) for shift in (0, _SHIFT))
        if first.scratches != second.scratches or len(first.data) != len(second.data):
            raise _NotRelocatable("what it asks for depends on addresses")
        views = [v for v in (*outs, *ins) if v is not None]
        self.ranges = [extent(v.spec) for v in views]
        self.scratches = first.scratches
        starts = [v.offset * r[2] for v, r in zip(views, self.ranges, strict=True)]
        numbers = _Numbers(starts, len(self.scratches), len(first.data))
        self.arguments = [
            (bytearray(a), _fills(a, b, numbers)) for a, b in zip(first.data, second.data, strict=True)
        ]
        if len(first.steps) != len(second.steps):
            raise _NotRelocatable("its launches depend on addresses")
        pairs = zip(first.steps, second.steps, strict=True)
        self.steps = [_step(stream, a, b, numbers) for a, b in pairs if 0 not in a[1]]
        self.touched = sum(high - low for low, high, _ in self.ranges) + 2 * sum(self.scratches)
        self.stops = [high for _, high, _ in self.ranges]
        self.plain = not (self.arguments or any(v.offset for v in views) or any(r[0] for r in self.ranges))
        self.single = self._single()

    def _single(self) -> Step | None:
        if not self.plain or len(self.steps) != 1 or self.scratches:
            return None
        (step,) = self.steps
        in_order = tuple((i, 0) for i in range(len(self.ranges)))
        return step if len(step.fills) == 1 and step.fills[0][2] == in_order else None


class _Numbers:
    """From the numbers that operands have while a kernel is observed to those in a template."""

    def __init__(self, starts: list[int], scratches: int, arguments: int) -> None:
        views = len(starts)
        self._starts = starts
        if views > _SCRATCH or scratches > _ARGUMENTS - _SCRATCH:
            raise _NotRelocatable("too many operands")
        self._ranges = (
            (0, views, 0), (_SCRATCH, scratches, views), (_ARGUMENTS, arguments, views + scratches),
        )  # fmt: skip

    def of(self, operand: int) -> int:
        """Return the number in the template."""
        for first, count, start in self._ranges:
            if first <= operand < first + count:
                return operand - first + start
        raise _NotRelocatable("an unknown address")

    def at(self, address: int) -> tuple[int, int]:
        """Return the operand that an invented address lies in, and how far from its first element."""
        operand = (address + _SPACING // 2) // _SPACING - 1
        start = self._starts[operand] if operand < len(self._starts) else 0
        return self.of(operand), address - (operand + 1) * _SPACING - start


def _places(views: Sequence[View]) -> list[int]:
    """Return for each view the first one that begins at the same byte: kernels may see that they work in place."""
    first: dict[tuple[int, int], int] = {}
    return [first.setdefault((id(v.buffer), v.offset), i) for i, v in enumerate(views)]


def _observed(
    stream: Stream, fn: Kernel, outs: Sequence[View], ins: Sequence[View | None], attrs: dict[str, Any], shift: int,
    apart: bool,
) -> _Observer:  # fmt: skip
    """Run a kernel on invented addresses.

    Operands in one buffer have one address, since kernels may see that they work in place; where no output is an
    input (`apart`) each has its own, and what is learnt holds for inputs that are one tensor or several.
    """
    observer = _Observer(stream, shift)
    views = [v for v in (*outs, *ins) if v is not None]
    first: dict[int, int] = {}
    numbers = [i if apart else first.setdefault(id(v.buffer), i) for i, v in enumerate(views)]
    shown = [observer.shown(number, v) for number, v in zip(numbers, views, strict=True)]
    rest = iter(shown[len(outs) :])
    fn(observer, shown[: len(outs)], [None if v is None else next(rest) for v in ins], attrs)
    return observer


def _step(stream: Stream, a: Any, b: Any, numbers: _Numbers) -> Step:
    pipeline, groups, push, reads, writes = a
    if b[0] is not pipeline or b[1] != groups:
        raise _NotRelocatable("its launches depend on addresses")
    stream.check_limits(pipeline, groups, push)
    ffi = stream.api.ffi
    held = ffi.new("char[]", len(push))
    memory = memoryview(ffi.buffer(held, len(push)))
    memory[:] = push
    used = [
        tuple(dict.fromkeys(numbers.of(v.buffer.handle.operand) for v in views if v.spec.size))
        for views in (reads, writes)
    ]
    return Step(pipeline, groups, held, memory, _fills(push, b[2], numbers), *used)


def _fills(a: bytes, b: bytes, numbers: _Numbers) -> tuple[Fill, ...]:
    """Find the addresses in what two runs wrote; neighbours are packed together."""
    if len(a) != len(b):
        raise _NotRelocatable("sizes depend on addresses")
    found: list[tuple[int, list[tuple[int, int]]]] = []
    place = 0
    while place < len(a):
        if a[place : place + 8] == b[place : place + 8]:
            place += 4  # and not 8: an address 4 bytes further differs in its last byte alone
            continue
        word, other = (int.from_bytes(x[place : place + 8], "little") for x in (a, b))
        if other - word != _SHIFT:
            raise _NotRelocatable("what it pushes depends on addresses")
        if found and found[-1][0] + 8 * len(found[-1][1]) == place:
            found[-1][1].append(numbers.at(word))
        else:
            found.append((place, [numbers.at(word)]))
        place += 8
    return tuple((struct.Struct(f"<{len(x)}Q"), place, tuple(x)) for place, x in found)


class Bound:
    """A kernel bound to one plan: what the plan calls in its place.

    Parameters
    ----------
    fn : callable
        The kernel.
    """

    __slots__ = ("_aligned", "_direct", "_fn", "_others", "_outs", "_whole")

    def __init__(self, fn: Kernel) -> None:
        self._fn = fn
        self._aligned: Template | None = None
        self._outs: tuple[Spec, ...] = ()
        self._whole = False  # whether no input is None
        self._others: dict[tuple[Any, ...], Template] = {}
        self._direct = False

    def __call__(
        self, stream: Stream, outs: Sequence[View], ins: Sequence[View | None], attrs: dict[str, Any]
    ) -> None:
        """Launch the kernel."""
        if self._direct:
            self._fn(stream, outs, ins, attrs)
            return
        template = self._aligned
        if template is not None:
            for view, spec in zip(outs, self._outs, strict=True):
                if view.offset or view.spec is not spec:
                    template = None
        if template is not None:
            written = outs[0].buffer if len(outs) == 1 else None
            for entry in ins:
                if entry is not None and (
                    entry.offset
                    or entry.buffer is written
                    or (written is None and any(entry.buffer is out.buffer for out in outs))
                ):
                    template = None
                    break
        shown: Any = (*outs, *ins) if self._whole else (*outs, *[v for v in ins if v is not None])
        if template is None:
            template = self._template(stream, shown, outs, ins, attrs)
            if template is None:
                self._fn(stream, outs, ins, attrs)
            else:
                stream.replay(template, shown)
        elif template.single is not None:
            stream.replay_single(template, shown)
        elif template.plain:
            stream.replay_plain(template, shown)
        else:
            stream.replay(template, shown)

    def _template(
        self,
        stream: Stream,
        views: Any,
        outs: Sequence[View],
        ins: Sequence[View | None],
        attrs: dict[str, Any],
    ) -> Template | None:
        """Return the template for views that begin where these do and share buffers as these do.

        Layouts of inputs are the plan's; outputs may be parts of larger ones.
        """
        shared = _places(views)
        key = (*[v.offset * v.spec.dtype.itemsize % _ALIGN for v in views], *shared, *[v.spec for v in outs])
        found = self._others.get(key)
        if found is None and len(self._others) < _MAX_TEMPLATES:
            n = len(outs)
            apart = (
                shared[:n] == [*range(n)] and min(shared[n:], default=n) >= n
            )  # nothing is worked on in place
            try:
                found = self._others[key] = Template(stream, self._fn, outs, ins, attrs, apart)
            except _NotRelocatable:
                self._direct = True
                return None
            if apart and not any(v.offset for v in views):
                self._aligned, self._outs = found, tuple(v.spec for v in outs)
                self._whole = all(v is not None for v in ins)
        return found
