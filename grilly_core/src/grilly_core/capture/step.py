"""The captured step that users call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from grilly_core import config
from grilly_core.apply import as_tensor
from grilly_core.capture.cells import Cell, cells_of, packed, unique
from grilly_core.capture.program import Program
from grilly_core.capture.recorder import Record, Recorder, compare
from grilly_core.device import default_context
from grilly_core.errors import CaptureError
from grilly_core.profile import ProfilingSink
from grilly_core.tensor import Tensor

__all__ = ["Capture", "capture"]

_MAX_PROGRAMS: Final = 8


@dataclass
class _Stage:
    """How far a signature has come."""

    calls: int = 0
    record: Record | None = None
    program: Program | None = None


class Capture:
    """A captured step; made by `capture`.

    Attributes
    ----------
    programs : dict
        One entry for each input signature.
    error : CaptureError or None
        Why the step runs eagerly for good, with ``on_error="eager"``.
    """

    def __init__(
        self, function: Callable[..., Any], state: Any, on_error: str = "raise", fuse: bool = True
    ) -> None:
        if on_error not in ("raise", "eager"):
            raise ValueError(f"on_error: expected 'raise' or 'eager'; received {on_error!r}.")
        self._function = function
        self._state = state
        self._fuse = fuse
        self._lenient = on_error == "eager"
        self.error: CaptureError | None = None
        self.programs: dict[Any, _Stage] = {}
        self._shortcuts: dict[Any, Program] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the step: eagerly, recording, or by replay."""
        sink = config.current().sink
        if sink is not None and not isinstance(sink, ProfilingSink):
            raise CaptureError("capture: a captured step cannot be called inside another capture.")
        if not kwargs and sink is None:
            quick = self._quick(args)
            if quick is not None:
                return self._replayed(quick, args, None)
        args = tuple(as_tensor(a) if isinstance(a, np.ndarray) else a for a in args)
        kwargs = {k: as_tensor(v) if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
        flat = [*args, *kwargs.values()]
        if self.error is not None or not self._hashable(flat):
            return self._function(*args, **kwargs)
        tensors = [a for a in flat if isinstance(a, Tensor)]
        stage = self._stage(tuple(self._signature(a) for a in flat) + tuple(kwargs) + self._key())
        stage.calls += 1
        if stage.program is not None:
            if len(tensors) == len(args) == len(flat):
                layouts = [(t._value.spec, t._node is not None) for t in tensors]
                self._shortcuts[(self._key(), *layouts)] = stage.program
            return self._replayed(stage.program, tensors, sink)
        if stage.calls == 1:
            return self._function(*args, **kwargs)
        return self._recorded(stage, tensors, args, kwargs)

    def _give_up(self, error: CaptureError) -> None:
        """Run eagerly from now on, or raise."""
        if not self._lenient:
            raise error
        self.error = error
        self.programs.clear()
        self._shortcuts.clear()

    def _quick(self, args: tuple[Any, ...]) -> Program | None:
        """Return the program for arguments that are tensors of layouts seen before, without further questions."""
        try:
            return self._shortcuts.get((self._key(), *[(a._value.spec, a._node is not None) for a in args]))
        except AttributeError:
            return None

    def _key(self) -> tuple[Any, ...]:
        """What a program was recorded for besides its arguments; anything else gives another program.

        That is the policy of the context (autocast, precision, determinism), whether gradients are recorded, and the
        settings of optimisers.
        """
        state = config.current()
        return (state.policy, state.grad, *[part.capture_key() for part in self._hosts(self._state)])

    def _replayed(self, program: Program, tensors: Sequence[Tensor], sink: ProfilingSink | None) -> Any:
        hosts = self._hosts(self._state)
        for part in hosts:
            part.before_replay()
        result = program.replay(tensors, sink)
        for part in hosts:
            part.after_replay()
        return result

    def _hashable(self, values: list[Any]) -> bool:
        """Whether the arguments can be told apart; gives up if not."""
        for value in values:
            try:
                hash(value)
            except TypeError:
                kind = type(value).__name__
                message = (
                    f"capture: arguments must be tensors, arrays or hashable constants; received {kind}."
                )
                self._give_up(CaptureError(message))
                return False
        return True

    @staticmethod
    def _signature(value: Any) -> Any:
        return (
            (value.shape, value.dtype, value.device, value.requires_grad)
            if isinstance(value, Tensor)
            else value
        )

    def _stage(self, key: Any) -> _Stage:
        if self.error is None and key not in self.programs and len(self.programs) >= _MAX_PROGRAMS:
            self._give_up(
                CaptureError(
                    f"capture: more than {_MAX_PROGRAMS} input signatures; keep shapes fixed, for example with "
                    "drop_last=True."
                )
            )
        return self.programs.setdefault(key, _Stage()) if self.error is None else _Stage()

    def _hosts(self, state: Any) -> list[Any]:
        """The parts of the state that keep a host mirror (optimisers)."""
        if hasattr(state, "before_replay"):
            return [state]
        if isinstance(state, dict):
            state = list(state.values())
        return [h for s in state for h in self._hosts(s)] if isinstance(state, list | tuple) else []

    def _recorded(self, stage: _Stage, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        for part in self._hosts(self._state):
            part.before_replay()
        try:
            cells = unique(cells_of(self._state))
            context = next((c.tensor._value.spec.context for c in cells), None) or (
                tensors[0]._value.spec.context if tensors else default_context()
            )
            recorder = Recorder(context)
        except CaptureError as error:
            self._give_up(error)
            return self._function(*args, **kwargs)
        before = [(cell, None if (t := cell.get()) is None else t._value) for cell in cells]
        starts = []
        for cell in cells:
            tensor = cell.get()
            if tensor is not None:
                tensor = self._owned(cell, tensor)
            starts.append(-1 if tensor is None else recorder.slot(tensor._value, "state"))
        own = {id(t): Tensor(packed(t), t._node, t._index) for t in tensors}
        inputs = [recorder.slot(own[id(t)]._value, "input") for t in tensors]
        try:
            with config.overriding(sink=recorder):
                result = self._function(
                    *(own.get(id(a), a) for a in args), **{k: own.get(id(v), v) for k, v in kwargs.items()}
                )
        except CaptureError as error:  # in the middle of the step: what it changed is taken back
            if self._lenient:
                for cell, value in before:
                    cell.put(value)
            self._give_up(error)
            return self._function(*args, **kwargs)
        try:
            self._finish(stage, recorder, cells, starts, inputs, result)
        except CaptureError as error:  # after the step, which counts
            self._give_up(error)
        return _detached(result)

    def _owned(self, cell: Cell, tensor: Tensor) -> Tensor:
        """A state that nobody else sees, since recording updates it in place."""
        value = packed(tensor)
        cell.put(value)
        fresh = cell.get()
        assert fresh is not None
        return fresh

    def _finish(
        self,
        stage: _Stage,
        recorder: Recorder,
        cells: list[Cell],
        starts: list[int],
        inputs: list[int],
        result: Any,
    ) -> None:
        after = unique(cells_of(self._state))
        if [(id(c.tensor), c.is_grad) for c in after] != [(id(c.tensor), c.is_grad) for c in cells]:
            raise CaptureError(
                "capture: the step made or removed parameters or optimiser state; run it once before capturing."
            )
        ends = [None if (t := c.get()) is None else recorder.ref(t._value) for c in cells]
        outputs = mapped(result, lambda t: recorder.ref(t._value))
        random = [
            (g, recorder._slots[id(state._value.buffer)], blocks)
            for g, state, blocks in recorder.random.values()
        ]
        for generator, _, blocks in random:
            generator.skip(blocks)
        record = Record(recorder, inputs, cells, starts, ends, outputs, random)
        if stage.record is not None:
            compare(stage.record, record)
            stage.program = Program(record, self._fuse)
        stage.record = record


def mapped(value: Any, function: Callable[[Tensor], Any]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        return {k: mapped(v, function) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(v, function) for v in value))
    if isinstance(value, list | tuple):
        return type(value)(mapped(v, function) for v in value)
    return value


def _detached(value: Any) -> Any:
    return mapped(value, lambda t: Tensor(packed(t)))


def capture(
    function: Callable[..., Any], state: Any = (), *, on_error: str = "raise", fuse: bool = True
) -> Capture:
    """Turn a step into one that is recorded and replayed.

    Parameters
    ----------
    function : callable
        The step. Its arguments are tensors (or arrays), whose values may change from call to call, and
        hashable constants.
    state : Module, Optimizer, Tensor, or a list or dict of them
        Everything the step reads or writes that outlives it.
    on_error : {"raise", "eager"}
        What to do with a step that cannot be captured: raise, or take back what a half-done recording changed and run
        the step eagerly, now and for good; `Capture.error` then says why.
    fuse : bool
        Let runs of elementwise ops become one generated kernel where the device offers that; the results have the same
        bits.

    Returns
    -------
    Capture
        Call it like the step.

    Raises
    ------
    CaptureError
        When called: if two calls differ, if the step reads values on the host, falls back to the CPU, or
        uses tensors that
        are neither arguments nor state.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> total = grilly.zeros(2)
    >>> def add(x):
    ...     total.add_(x)
    ...     return total.sum()
    >>> step = grilly.capture(add, state=total)
    >>> [step(grilly.ones(2)).item() for _ in range(5)]
    [2.0, 4.0, 6.0, 8.0, 10.0]
    """
    return Capture(function, state, on_error, fuse)
