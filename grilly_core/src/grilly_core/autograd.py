"""Reverse-mode differentiation of any order over the tape.

A gradient rule is written in grilly ops, so a backward pass that is itself recorded (``create_graph=True``) can
be differentiated again. An op without a rule, or one whose rule relies on residuals, is differentiated
through its body.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Sequence
from typing import Any

from grilly_core.apply import apply, as_tensor
from grilly_core.buffer import View
from grilly_core.config import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from grilly_core.custom_gradients import Function, FunctionCtx, custom_vjp
from grilly_core.errors import AutogradError, ShapeError
from grilly_core.opspec import Handle, Op, Schema, TensorList
from grilly_core.tape import Edge, Leaf, Node
from grilly_core.tensor import Tensor

__all__ = [
    "Function", "FunctionCtx", "backward", "custom_vjp", "enable_grad", "grad", "is_grad_enabled", "no_grad",
    "set_grad_enabled", "value_and_grad", "vjp",
]  # fmt: skip

Grads = dict[int, Tensor]
_add, _zeros_like, _sum_to, _cast, _ones_like, _real = (
    Handle(n) for n in ("add", "zeros_like", "sum_to", "cast", "ones_like", "real")
)


def backward(
    tensors: Sequence[Tensor],
    gradients: Sequence[Any] | None = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    inputs: Sequence[Tensor] | None = None,
) -> None:
    """Accumulate gradients into `.grad` of the leaves that `tensors` depend on.

    Parameters
    ----------
    tensors : sequence of Tensor
        Where to start.
    gradients : sequence of Tensor or None, optional
        Their gradients; None is allowed for tensors of one element.
    retain_graph : bool
        Keep the recorded values, so that the graph can be walked again.
    create_graph : bool
        Record the walk itself, for higher derivatives.
    inputs : sequence of Tensor, optional
        Only these receive a gradient.

    Raises
    ------
    AutogradError
        If a tensor has no history, or the graph was already walked and freed.
    """
    wanted = (
        None
        if inputs is None
        else {id(_edge(t)[0]) for t in ([inputs] if isinstance(inputs, Tensor) else inputs)}
    )
    starts = _starts(tensors, gradients or [None] * len(tensors))
    leaves: list[tuple[Leaf, Tensor]] = []
    _walk(starts, retain_graph or create_graph, create_graph, lambda leaf, g: leaves.append((leaf, g)))
    with set_grad_enabled(create_graph):
        for leaf, g in leaves:
            if wanted is None or id(leaf) in wanted:
                leaf.grad = g if leaf.grad is None else _add(leaf.grad, g)
                if leaf.accumulated:
                    for hook in list(leaf.accumulated.values()):
                        hook()


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of `outputs` with respect to `inputs`, leaving `.grad` alone.

    Parameters
    ----------
    outputs, inputs : Tensor or sequence of Tensor
    grad_outputs : Tensor or sequence of Tensor, optional
        Gradients of the outputs; may be left out for outputs of one element.
    retain_graph : bool, optional
        Keep the recorded values; by default only with `create_graph`.
    create_graph : bool
        Make the result differentiable.
    allow_unused : bool
        Return None for an input that the outputs do not depend on, instead of raising.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> x = grilly.tensor(3.0, requires_grad=True)
    >>> (first,) = grilly.grad(x**3, x, create_graph=True)
    >>> (second,) = grilly.grad(first, x)
    >>> first.item(), second.item()
    (27.0, 18.0)
    """
    outs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    ins = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    given = grad_outputs if isinstance(grad_outputs, list | tuple) else [grad_outputs] * len(outs)
    edges = [_edge(t) for t in ins]
    found: dict[tuple[int, int], Tensor] = {}
    targets = {(id(node), index) for node, index in edges}
    keep = create_graph if retain_graph is None else retain_graph
    _walk(
        _starts(outs, given),
        keep,
        create_graph,
        lambda leaf, g: found.__setitem__((id(leaf), 0), g),
        targets,
        found,
    )
    result = tuple(found.get((id(node), index)) for node, index in edges)
    if not allow_unused and any(g is None for g in result):
        raise AutogradError(
            f"input {result.index(None)} does not influence the outputs; pass allow_unused=True to get None for it."
        )
    return result


def value_and_grad(
    function: Callable[..., Tensor],
) -> Callable[..., tuple[Tensor, tuple[Tensor | None, ...]]]:
    """Return a function that gives the value of `function` and its gradients by all tensor arguments."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        with enable_grad():
            watched = [as_tensor(a).detach().requires_grad_() for a in args]
            value = function(*watched, **kwargs)
            return value.detach(), grad(value, watched, allow_unused=True)

    return wrapper


def vjp(
    function: Callable[..., Tensor], *args: Any
) -> tuple[Tensor, Callable[[Any], tuple[Tensor | None, ...]]]:
    """Return ``function(*args)`` and the function that pulls a gradient of it back to `args`."""
    with enable_grad():
        watched = [as_tensor(a).detach().requires_grad_() for a in args]
        value = function(*watched)
    return value.detach(), lambda g: grad(value, watched, g, retain_graph=True, allow_unused=True)


def register_hook(tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Callable[[], None]:
    """Call `hook` with the gradient of `tensor`; returns the function that removes it."""
    node, index = _edge(tensor)
    if node.hooks is None:
        node.hooks = {}
    if isinstance(node, Leaf):
        key = max(node.hooks, default=-1) + 1
        node.hooks[key] = hook
        return lambda: node.hooks.pop(key, None) and None  # type: ignore[union-attr]
    hooks = node.hooks.setdefault(index, [])
    hooks.append(hook)
    return lambda: hooks.remove(hook) if hook in hooks else None


def _edge(tensor: Tensor) -> Edge:
    if tensor._node is None:
        raise AutogradError(
            f"a tensor of shape {tensor.shape} does not require grad and has no history; "
            "call requires_grad_() on an input, or compute it outside no_grad()."
        )
    return tensor._node, tensor._index


def _starts(tensors: Sequence[Tensor], gradients: Sequence[Any]) -> list[tuple[Edge, Tensor]]:
    starts = []
    for tensor, gradient in zip(tensors, gradients, strict=True):
        edge = _edge(tensor)
        if gradient is None:
            if tensor._value.spec.size != 1:
                raise AutogradError(
                    f"backward of a tensor of shape {tensor.shape} needs its gradient; pass one, or reduce to one "
                    "element first."
                )
            gradient = _ones_like(tensor.detach())
        gradient = as_tensor(gradient, tensor)
        if gradient.shape != tensor.shape:
            raise ShapeError(f"gradient: expected shape {tensor.shape}; received {gradient.shape}.")
        starts.append((edge, gradient))
    return starts


class _Pending:
    """Gradients that have arrived at a node so far, by output."""

    __slots__ = ("grads", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.grads: Grads = {}


def _walk(
    starts: list[tuple[Edge, Tensor]],
    keep: bool,
    create_graph: bool,
    at_leaf: Callable[[Leaf, Tensor], None],
    targets: set[tuple[int, int]] | None = None,
    found: dict[tuple[int, int], Tensor] | None = None,
) -> None:
    """Visit nodes from the latest to the earliest; each is complete when it is reached."""
    pending: dict[int, _Pending] = {}
    leaf_grads: dict[int, tuple[Leaf, Tensor]] = {}
    queue: list[tuple[int, int]] = []
    useful = None if targets is None else _reaching(starts, targets)

    def arrive(edge: Edge, g: Tensor) -> None:
        node, index = edge
        if isinstance(node, Leaf):
            known = leaf_grads.get(id(node))
            leaf_grads[id(node)] = (node, g if known is None else _add(known[1], g))
            return
        if useful is not None and id(node) not in useful:
            return
        entry = pending.get(id(node))
        if entry is None:
            entry = pending[id(node)] = _Pending(node)
            heapq.heappush(queue, (-node.order, id(node)))
        entry.grads[index] = g if index not in entry.grads else _add(entry.grads[index], g)

    with set_grad_enabled(create_graph), starts[0][1].device:  # constants of the rules follow the gradient
        for edge, g in starts:
            arrive(edge, g)
        while queue:
            entry = pending.pop(heapq.heappop(queue)[1])
            _hooked(entry)
            if targets is not None and found is not None:
                for index, g in entry.grads.items():
                    if (id(entry.node), index) in targets:
                        found[id(entry.node), index] = g
            pulled = _pulled(entry.node, entry.grads, create_graph, useful)
            for edge_, g in pulled:
                arrive(edge_, g)
            if pulled and not keep:
                entry.node.free()
        for leaf, g in leaf_grads.values():
            for hook in list((leaf.hooks or {}).values()):
                changed = hook(g)
                g = g if changed is None else changed
            at_leaf(leaf, g)


def _reaching(starts: list[tuple[Edge, Tensor]], targets: set[tuple[int, int]]) -> set[int]:
    """Nodes from which a target can be reached, so that `grad` does no work for others."""
    wanted = {node for node, _ in targets}
    order: list[Node] = []
    seen: set[int] = set()
    stack = [edge[0] for edge, _ in starts]
    while stack:
        node = stack.pop()
        if id(node) in seen or isinstance(node, Leaf):
            continue
        seen.add(id(node))
        order.append(node)
        stack.extend(e[0] for e in node.edges if e is not None)
    useful = set(wanted)
    for node in sorted(order, key=lambda n: n.order):
        if any(e is not None and id(e[0]) in useful for e in node.edges):
            useful.add(id(node))
    return useful


def _hooked(entry: _Pending) -> None:
    node = entry.node
    for index, g in list(entry.grads.items()):
        for hook in (node.hooks or {}).get(index, []):
            changed = hook(g)
            if changed is not None:
                entry.grads[index] = g = changed
        if node.retained and index in node.retained:
            leaf = node.retained[index]
            leaf.grad = g if leaf.grad is None else _add(leaf.grad, g)


def _pulled(
    node: Node, grads: Grads, create_graph: bool, useful: set[int] | None
) -> list[tuple[Edge, Tensor]]:
    """Return the gradients of a node's inputs, with where they go."""
    if callable(node.freed):
        node.freed()
    if node.freed:
        raise AutogradError(
            f"backward through {node.op.name!r} a second time: its values were freed; pass retain_graph=True "
            "the first time."
        )
    needs = tuple(e is not None and (useful is None or id(e[0]) in useful) for e in node.edges)
    if useful is not None and not any(needs):
        return []
    ins = [
        None if v is None else _saved(v, e, create_graph) for v, e in zip(node.ins, node.edges, strict=True)
    ]
    full = [_known_or_zero(node, grads, i, v) for i, v in enumerate(node.outs)]
    results = _vjp_of(node, full, ins, needs, create_graph)
    arrived = []
    for edge, need, view, g in zip(node.edges, needs, node.ins, results, strict=True):
        if edge is not None and need and g is not None and view is not None:
            arrived.append((edge, _fitted(g, view, node.op)))
    return arrived


def _saved(view: View, edge: Edge | None, linked: bool) -> Tensor:
    """A tensor of the value of forward time, tied to its producer if the walk is recorded."""
    return Tensor(view, edge[0], edge[1]) if linked and edge is not None else Tensor(view)


def _known_or_zero(node: Node, grads: Grads, index: int, view: View) -> Tensor | None:
    if index in grads:
        return grads[index]
    hidden = index >= len(node.outs) - node.op.hidden
    if hidden or index in node.op.nondiff_outputs or not view.dtype.is_differentiable:
        return None
    return _zeros_like(Tensor(view))  # type: ignore[no-any-return]


def _vjp_of(
    node: Node,
    grads: list[Tensor | None],
    ins: list[Tensor | None],
    needs: tuple[bool, ...],
    create_graph: bool,
) -> Sequence[Tensor | None]:
    op = node.op
    rule = op.vjp_rule
    if rule is not None and not (create_graph and op.hidden):
        outs = [Tensor(v, node, i) if create_graph else Tensor(v) for i, v in enumerate(node.outs)]
        return rule(tuple(grads), tuple(outs), tuple(ins), node.attrs, needs)  # type: ignore[no-any-return]
    if op.kind != "composite":
        raise AutogradError(f"op {op.name!r} has no gradient rule; declare one with @{op.__name__}.vjp.")
    public = len(node.outs) - op.hidden
    return through_body(op, grads[:public], ins, node.values, needs)


def _fitted(g: Tensor, view: View, op: Op[Any, Any]) -> Tensor:
    """Undo broadcasting and promotion: a gradient has the shape and dtype of its input."""
    if g.shape != view.shape:
        if not op.elementwise:
            raise ShapeError(
                f"gradient rule of {op.name!r}: expected shape {view.shape}; it returned {g.shape}."
            )
        g = _sum_to(g, shape=view.shape)
    if g.dtype is not view.dtype:
        if g.dtype.is_complex and not view.dtype.is_complex:  # a real number moves along the real axis alone
            g = _real(g)
        g = _cast(g, dtype=view.dtype)
    return g


# -- differentiating a composite through its body ------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _body_vjp(
    op: Op[Any, Any], n_grads: int, needs: tuple[bool, ...], values: tuple[Any, ...]
) -> Op[Any, Any]:
    """The op that maps (gradients, inputs) to the gradients of the inputs, by tracing the body of `op`."""

    def body(
        grads: TensorList, ins: TensorList, *, mask: tuple[tuple[bool, ...], tuple[bool, ...]]
    ) -> list[Tensor]:
        present, given = iter(grads), iter(ins)
        gs = [next(present) if here else None for here in mask[0]]
        xs = [next(given) if here else None for here in mask[1]]
        create_graph = is_grad_enabled()  # on when this gradient is itself being differentiated
        with enable_grad():
            watched = [_alias(x) if x is not None and need else x for x, need in zip(xs, needs, strict=True)]
            outs = _outputs(apply_body(op, watched, values))[:n_grads]
        pairs = [(o, g) for o, g in zip(outs, gs, strict=True) if g is not None and o._node is not None]
        targets = [w for w, need in zip(watched, needs, strict=True) if w is not None and need]
        if not pairs:
            return [_zeros_like(t.detach()) for t in targets]
        found = grad(
            [o for o, _ in pairs],
            targets,
            [g for _, g in pairs],
            create_graph=create_graph,
            allow_unused=True,
        )
        return [f if f is not None else _zeros_like(t.detach()) for f, t in zip(found, targets, strict=True)]

    body.__annotations__ = {"grads": "TensorList", "ins": "TensorList"}
    return Op(
        f"{op.name}.vjp",
        "composite",
        Schema.of(body),
        body,
        f"Gradient of {op.name} through its body.",
        internal=True,
        many=True,
    )


_alias_op: Op[Any, Any] = Op(
    "alias", "python", Schema((), frozenset(), frozenset(), {}, frozenset()), lambda x: x, "",
    vjp_rule=lambda grads, outs, ins, attrs, needs: grads,
)  # fmt: skip


def _alias(x: Tensor) -> Tensor:
    """The same value as a new variable, still tied to where it came from."""
    edge = None if x._node is None else (x._node, x._index)
    return Tensor(x._value, Node(_alias_op, {}, (), (x._value,), (x._value,), (edge,)))


def apply_body(op: Op[Any, Any], tensors: Sequence[Tensor | None], values: tuple[Any, ...]) -> Any:
    """Run the body of a composite op by op, on tensors in schema order."""
    from grilly_core.apply import unflattened

    attrs = op.attributes(values, [None if t is None else t._value.spec for t in tensors])
    args: list[Any] = list(tensors)
    if op.schema.lists:
        args = unflattened(op, args, attrs["lengths"])
    return op.rule(*args, **{k: v for k, v in attrs.items() if k in op.schema.attrs})


def _outputs(result: Any) -> list[Tensor]:
    return list(result) if isinstance(result, tuple | list) else [result]


def through_body(
    op: Op[Any, Any],
    grads: Sequence[Tensor | None],
    ins: Sequence[Tensor | None],
    values: tuple[Any, ...],
    needs: tuple[bool, ...],
) -> list[Tensor | None]:
    """Return the gradients of a composite's inputs by differentiating its body."""
    if not any(needs):
        return [None] * len(ins)
    rule = _body_vjp(op, len(grads), needs, values)
    mask = (tuple(g is not None for g in grads), tuple(x is not None for x in ins))
    tensors = [[g for g in grads if g is not None], [x for x in ins if x is not None]]
    found = iter(apply(rule, tensors, (mask,)))
    return [next(found) if need and x is not None else None for need, x in zip(needs, ins, strict=True)]
