"""Computing activations again instead of keeping them (Chen et al. 2016, sublinear memory cost).

The forward pass records its nodes as always; then the values they hold are let go. The first time that a walk over the
tape comes to one of them, the function runs once more, with the same random numbers and under the same policy, and the
values of its new nodes take the places of the old. Nodes and edges stay, so gradients flow to everything the function
used, `grilly.grad` and higher derivatives included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Final, TypeVar
from weakref import ref

from grilly_core.buffer import View
from grilly_core.config import current, overriding
from grilly_core.device import default_device
from grilly_core.errors import AutogradError
from grilly_core.nn.explicit import scope
from grilly_core.nn.module import Module
from grilly_core.opspec import Op, Schema
from grilly_core.plan import hollow
from grilly_core.random import Draws
from grilly_core.tape import Leaf, Node, now
from grilly_core.tensor import Tensor

__all__ = ["checkpoint", "checkpoint_sequential"]

T = TypeVar("T")
Contexts = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]

#: Stands for a Python op, whose rule may hold tensors, while its values are gone.
_LOST: Final[Op[Any, Any]] = Op(
    "lost", "python", Schema((), frozenset(), frozenset(), {}, frozenset()), lambda: None, ""
)


def _no_contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., T],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Contexts = _no_contexts,
    determinism_check: str = "default",
    **kwargs: Any,
) -> T:
    """Run a function without keeping what its gradient needs, which is computed again in the backward pass.

    If `function` is a module, a method of one, or a function that names modules, the second run sees their parameters
    and buffers as they were the first time, and leaves them as they are; so batch norms count a batch once. For
    `Module.backward` this is no call of the module.

    Parameters
    ----------
    function : callable
        Takes and returns tensors, or lists, tuples and dicts of them.
    *args
        Its arguments.
    use_reentrant : {None, False}
        True, PyTorch's older form, is refused: this one does all that it does.
    preserve_rng_state : bool
        Draw the same random numbers the second time, so that dropout leaves out the same elements.
    context_fn : callable, optional
        Returns two context managers, for the first and for the second run.
    determinism_check : {"default", "none"}
        Whether shapes, types and devices of the second run are compared with those of the first.
    **kwargs
        Further arguments of `function`.

    Returns
    -------
    object
        What `function` returns.

    Raises
    ------
    AutogradError
        In the backward pass, if the second run takes another course than the first, or a tensor it uses was changed.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor([1.0, 2.0], requires_grad=True)
    >>> grilly.checkpoint(lambda t: (t * t).exp().sum(), x).backward()
    >>> [round(g, 4) for g in x.grad.tolist()]
    [5.4366, 218.3926]
    """
    if use_reentrant:
        raise ValueError(
            "use_reentrant=True: there is one form, the one that is not reentrant; leave it out."
        )
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check: expected 'default' or 'none'; received {determinism_check!r}.")
    first, second = context_fn()
    state = current()
    if not state.grad or getattr(state.sink, "symbolic", False):
        with first:
            return function(*args, **kwargs)
    segment = _Segment(function, args, kwargs, second, determinism_check == "default")
    draws = Draws() if preserve_rng_state else None
    start = now()
    with first, nullcontext() if draws is None else draws.recording(), _inside_a_module():
        result = function(*args, **kwargs)
    segment.draws = draws
    segment.let_go(_nodes_behind(result, start))
    return result


def checkpoint_sequential(
    functions: Sequence[Callable[[Any], Any]], segments: int, input: Any, use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """Run functions one after the other in segments, of which only the last keeps what its gradient needs.

    Parameters
    ----------
    functions : Sequential, or sequence of callable
    segments : int
        How many; the first ones are equally long.
    input : Tensor
    use_reentrant : {None, False}
    **kwargs
        ``preserve_rng_state``, as of `checkpoint`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> model = grilly.nn.Sequential(*[grilly.nn.Linear(3, 3) for _ in range(6)])
    >>> x = grilly.ones((2, 3))
    >>> y = grilly.checkpoint_sequential(model, 3, x)
    >>> bool((y == model(x)).all())
    True
    """
    unknown = set(kwargs) - {"preserve_rng_state"}
    if unknown:
        raise TypeError(f"checkpoint_sequential: unexpected arguments {sorted(unknown)}.")
    parts: list[Callable[[Any], Any]] = (
        list(functions.children()) if isinstance(functions, Module) else list(functions)
    )
    if not 1 <= segments <= max(len(parts), 1):
        raise ValueError(f"segments: expected a number from 1 to {len(parts)}; received {segments}.")
    size = len(parts) // segments
    for k in range(segments - 1):
        chosen = _Chain(parts[k * size : (k + 1) * size])
        input = checkpoint(chosen, input, use_reentrant=use_reentrant, **kwargs)
    return _Chain(parts[(segments - 1) * size :])(input)


class _Chain:
    """Functions one after the other."""

    def __init__(self, parts: list[Callable[[Any], Any]]) -> None:
        self.parts = parts

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x


class _Segment:
    """The nodes of one checkpointed call, and how to compute their values again."""

    draws: Draws | None = None

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        context: AbstractContextManager[Any],
        strict: bool,
    ) -> None:
        self._function = function
        self._args, self._kwargs = _mapped(args, _same), _mapped(kwargs, _same)
        self._context = context
        self._policy = current().policy
        self._device = default_device()
        self._strict = strict
        self._cells = [(t, t._value) for t in _cells_of(function)]
        # Weak, since nodes hold the segment: what nobody goes back through is gone at once.
        self._nodes: list[ref[Node]] = []
        self._signs: list[Any] = []

    # -- letting go ------------------------------------------------------------------------------------------

    def let_go(self, nodes: list[Node]) -> None:
        """Keep of every value only shape and type, but for those that others hold anyway."""
        self._nodes = [ref(node) for node in nodes]
        self._signs = [_sign(node) for node in nodes]
        inside = {id(node) for node in nodes}
        for node in nodes:
            node.ins = tuple(
                view if view is None or _stays(edge, inside) else hollow(view)
                for view, edge in zip(node.ins, node.edges, strict=True)
            )
            node.outs = tuple(hollow(view) for view in node.outs)
            if node.op.kind == "python":
                node.op = _LOST
            node.freed = self.restore

    # -- bringing back ---------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Run the function again and give every node its values."""
        result, start = self._again()
        new = _nodes_behind(result, start)
        self._compare(new)
        inner: dict[int, Node] = {}
        for known, fresh in zip(self._nodes, new, strict=True):
            old = known()
            if old is None:
                continue
            self._check_unchanged(old, fresh)
            old.op, old.ins, old.outs, old.freed = fresh.op, fresh.ins, fresh.outs, fresh.freed
            if callable(fresh.freed):  # of a checkpoint inside
                inner[id(fresh)] = old
        for segment in {n.freed.__self__ for n in inner.values()}:  # type: ignore[union-attr]
            segment._work_for(inner)
        self._nodes, self._signs, self._cells, self._args, self._kwargs = [], [], [], (), {}
        self.draws = None

    def _work_for(self, others: dict[int, Node]) -> None:
        """Bring values back to other nodes instead of those of the second run, by their identities."""
        own = [known() for known in self._nodes]
        self._nodes = [
            known if node is None or id(node) not in others else ref(others[id(node)])
            for node, known in zip(own, self._nodes, strict=True)
        ]

    def _again(self) -> tuple[Any, int]:
        after = [(t, t._value) for t, _ in self._cells]
        _put(self._cells)
        try:
            with ExitStack() as stack:
                stack.enter_context(_inside_a_module())
                stack.enter_context(overriding(policy=self._policy, grad=True))
                stack.enter_context(self._device)
                stack.enter_context(self._context)
                if self.draws is not None:
                    stack.enter_context(self.draws.repeating())
                start = now()
                return self._function(*self._args, **self._kwargs), start
        finally:
            _put(after)

    def _compare(self, new: list[Node]) -> None:
        signs = [_sign(node) for node in new]
        names, again = [s[0] for s in self._signs], [s[0] for s in signs]
        if names != again or (self._strict and signs != self._signs):
            place = next(
                (i for i, (a, b) in enumerate(zip(self._signs, signs, strict=False)) if a != b),
                min(len(signs), len(self._signs)),
            )
            then, here = (_told(s[place]) if place < len(s) else "nothing more" for s in (self._signs, signs))
            raise AutogradError(
                f"checkpoint: the second run differs from the first at operation {place}: {then} then, {here} now. The "
                "function must do the same both times."
            )

    def _check_unchanged(self, old: Node, fresh: Node) -> None:
        for was, again, edge in zip(old.ins, fresh.ins, old.edges, strict=True):
            if was is None or again is None or not isinstance(edge[0] if edge else None, Leaf):
                continue
            if _is_whole(was) and _is_whole(again) and was is not again:
                raise AutogradError(
                    f"checkpoint: a tensor of shape {was.shape} that {fresh.op.name!r} uses was changed between the "
                    "forward and the backward pass; pass it as an argument, or the module that owns it as the function."
                )


@contextmanager
def _inside_a_module() -> Iterator[None]:
    """Keep modules from taking a call for one of their user, whose output they would hold."""
    outer, scope.inside = scope.inside, True
    try:
        yield
    finally:
        scope.inside = outer


def _stays(edge: Any, inside: set[int]) -> bool:
    """Whether a value comes from outside of the segment, where somebody holds it anyway."""
    return edge is not None and id(edge[0]) not in inside


def _is_whole(view: View) -> bool:
    return type(view.buffer).__name__ != "SymbolicBuffer"


def _sign(node: Node) -> tuple[Any, ...]:
    """What must be the same in the second run."""
    return (node.op.name, tuple((v.shape, v.dtype, v.spec.context.device) for v in node.outs))


def _told(sign: tuple[Any, ...]) -> str:
    outs = ", ".join(f"{dtype.name}{list(shape)}" for shape, dtype, _ in sign[1])
    return f"{sign[0]!r} giving {outs}"


def _put(cells: list[tuple[Tensor, View]]) -> None:
    for tensor, value in cells:
        if tensor._value is not value:
            tensor._value = value


def _cells_of(function: Callable[..., Any]) -> list[Tensor]:
    """Parameters and buffers of the modules that a function is, is a method of, is made of, or names."""
    owners: list[Any] = [function, getattr(function, "__self__", None)]
    if isinstance(function, _Chain):
        owners += function.parts
    if isinstance(function, partial):
        owners += [function.func, *function.args, *function.keywords.values()]
    for owner in list(owners):
        code = getattr(owner, "__code__", None)
        if code is not None:
            owners += [cell.cell_contents for cell in owner.__closure__ or () if _is_set(cell)]
            owners += [owner.__globals__[name] for name in code.co_names if name in owner.__globals__]
    modules = [owner for owner in owners if isinstance(owner, Module)]
    return list({id(t): t for m in modules for t in (*m.parameters(), *m.buffers())}.values())


def _is_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # a variable that is assigned later
        return False
    return True


def _same(x: Tensor) -> Tensor:
    """The value of now at the same place of the graph, whatever is written to the tensor later."""
    return Tensor(x._value, x._node, x._index)


def _nodes_behind(result: Any, start: int) -> list[Node]:
    """Return the nodes made since `start` that a result depends on, in order."""
    stack: list[Node | Leaf] = []
    _mapped(result, lambda t: stack.append(t._node) if t._node is not None else None)
    found: dict[int, Node] = {}
    while stack:
        node = stack.pop()
        if isinstance(node, Node) and node.order > start and id(node) not in found:
            found[id(node)] = node
            stack.extend(edge[0] for edge in node.edges if edge is not None)
    return sorted(found.values(), key=lambda n: n.order)


def _mapped(value: Any, function: Callable[[Tensor], Any]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        return {k: _mapped(v, function) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(v, function) for v in value))
    if isinstance(value, list | tuple):
        return type(value)(_mapped(v, function) for v in value)
    return value
