"""How an op is declared: one object holds its schema, shape rule or body, gradient, samples and reference.

Four kinds of op share the class `Op`:

* ``@primitive``: the decorated function is the shape rule; devices bring kernels.
* ``@host_op``: the same, but only the CPU brings a kernel (dense decompositions).
* ``@view_op``: the decorated function maps a layout to a layout; no kernel is ever needed.
* ``@op``: a composite; the decorated function is signature, documentation and decomposition at once.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, TypeVar, overload

from grilly_core import registry
from grilly_core.buffer import Spec
from grilly_core.dtypes import DType
from grilly_core.errors import RegistrationError
from grilly_core.layout import normalize_axes, normalize_axis

if TYPE_CHECKING:
    from grilly_core.tensor import Tensor

__all__ = ["Handle", "Inferred", "Op", "Schema", "TensorList", "host_op", "op", "primitive", "view_op"]

P = ParamSpec("P")
R = TypeVar("R")
TensorList = Sequence["Tensor"]


class Inferred(NamedTuple):
    """What a shape rule answers.

    Attributes
    ----------
    outs : tuple of (shape, dtype)
    ins : tuple of DType, optional
        Dtype that each input is cast to first; None leaves them.
    expand : tuple of int, optional
        Shape to which every input is expanded (elementwise ops).
    attrs : dict, optional
        Attributes in the form kernels receive.
    """

    outs: tuple[tuple[tuple[int, ...], DType], ...]
    ins: tuple[DType | None, ...] | None = None
    expand: tuple[int, ...] | None = None
    attrs: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """Names of the tensor parameters and of the attributes with their defaults.

    Some tensors may be left out (`optional`), some may be None (`nullable`), and some are lists.
    """

    tensors: tuple[str, ...]
    optional: frozenset[str]
    lists: frozenset[str]
    attrs: dict[str, Any]
    required_attrs: frozenset[str]
    nullable: frozenset[str] = frozenset()

    @staticmethod
    def of(function: Callable[..., Any]) -> Schema:
        """Read the schema off a function's signature."""
        tensors, optional, lists, attrs, required = [], set(), set(), {}, set()
        nullable = set()
        for p in inspect.signature(function).parameters.values():
            if p.kind is p.POSITIONAL_OR_KEYWORD:
                tensors.append(p.name)
                if p.default is None:
                    optional.add(p.name)
                if p.default is None or "None" in str(p.annotation):
                    nullable.add(p.name)
                if "TensorList" in str(p.annotation):
                    lists.add(p.name)
            elif p.kind is p.KEYWORD_ONLY:
                attrs[p.name] = None if p.default is p.empty else p.default
                if p.default is p.empty:
                    required.add(p.name)
            else:
                raise RegistrationError(
                    f"{function.__name__}: parameter {p.name!r} must be positional (a tensor) or keyword-only "
                    "(an attribute); *args and **kwargs have no schema."
                )
        return Schema(
            tuple(tensors),
            frozenset(optional),
            frozenset(lists),
            attrs,
            frozenset(required),
            frozenset(nullable),
        )


Call = Callable[["Op[Any, Any]", tuple[Any, ...], dict[str, Any]], Any]
_call: list[Call] = []


def install_dispatcher(call: Call) -> None:
    """Tell ops how to run; done once by the dispatch layer."""
    _call[:] = [call]


@dataclass(eq=False)
class Op(Generic[P, R]):
    """An operation of the registry; call it like the function it was declared with.

    Attributes
    ----------
    name : str
        Registry name, such as ``"exp"`` or ``"nn.layer_norm"``.
    kind : {"primitive", "host", "view", "composite"}
    schema : Schema
    rule : callable
        Shape rule, layout rule or body, by `kind`.
    hidden : int
        How many trailing outputs are residuals, computed only while a tape records.
    saves : {"both", "ins", "outs", "shapes"}
        Which values the gradient rule reads; of the others the tape keeps shape and dtype alone.
    """

    name: str
    kind: str
    schema: Schema
    rule: Callable[..., Any]
    doc: str
    hidden: int = 0
    nondiff: bool = False
    nondiff_outputs: frozenset[int] = frozenset()
    donates: dict[str, str] = field(default_factory=dict)
    autocast: str | None = None
    internal: bool = False
    elementwise: bool = False
    host: bool = False
    dynamic: bool = False
    aliasing: bool = False
    many: bool = False
    new_axis: bool = False
    nondiff_inputs: frozenset[str] = frozenset()
    saves: str = "both"
    module: str = ""
    vjp_rule: Callable[..., Any] | None = None
    samples_rule: Callable[..., Any] | None = None
    reference_rule: Callable[..., Any] | None = None
    source: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        self.attr_names = tuple(self.schema.attrs)
        self.arity = len(self.schema.tensors)
        self.many = self.many or bool(self.donates)
        self.bound: dict[tuple[tuple[str, Any], ...], tuple[Any, ...]] = {}
        self.__name__ = self.name.rpartition(".")[2]
        self.__qualname__ = self.__name__
        self.__doc__ = self.doc
        self.__module__ = self.module
        self.__wrapped__ = self.source

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the op."""
        return _call[0](self, args, kwargs)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return registry.get, (self.name,)

    @property
    def primitive(self) -> bool:
        """Whether devices must bring a kernel for it."""
        return self.kind == "primitive"

    def vjp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Declare the gradient: ``rule(grads, outs, ins, attrs, needs) -> tuple`` (decorator)."""
        self.vjp_rule = rule
        return rule

    def samples(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Declare the inputs the conformance kit uses: ``rule(s)`` (decorator)."""
        self.samples_rule = rule
        return rule

    def reference(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Declare the NumPy oracle: ``rule(*arrays, **attrs)`` (decorator)."""
        self.reference_rule = rule
        return rule

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], tuple[Any, ...]]:
        """Split a call into tensors in schema order and the attribute values, hashable, in schema order."""
        schema = self.schema
        if len(args) > self.arity:
            raise TypeError(
                f"{self.name}: takes {self.arity} tensors ({', '.join(schema.tensors)}), received {len(args)} "
                f"positional arguments; attributes ({', '.join(self.attr_names) or 'none'}) go by keyword."
            )
        tensors: list[Any] = list(args)
        for name in schema.tensors[len(args) :]:
            if name in kwargs:
                tensors.append(kwargs.pop(name))
            elif name in schema.optional:
                tensors.append(None)
            else:
                raise TypeError(f"{self.name}: the tensor argument {name!r} is missing.")
        if not self.attr_names and not kwargs:
            return tensors, ()
        values = tuple([freeze(kwargs.pop(n, default)) for n, default in schema.attrs.items()])
        if kwargs:
            raise TypeError(
                f"{self.name}: unexpected argument(s) {', '.join(map(repr, kwargs))}; "
                f"it takes {', '.join(schema.tensors + self.attr_names)}."
            )
        return tensors, values

    def attributes(self, values: tuple[Any, ...], specs: Sequence[Spec | None]) -> dict[str, Any]:
        """Return the attributes by name, with ``axis`` normalised against the first tensor."""
        attrs = dict(zip(self.attr_names, values, strict=False))
        if self.schema.lists:  # the dispatcher appends the lengths of the lists
            attrs["lengths"] = values[-1]
            attrs["n"] = values[-1][0]
        missing = [n for n in self.schema.required_attrs if attrs[n] is None]
        if missing:
            raise TypeError(f"{self.name}: the attribute {missing[0]!r} is missing.")
        if not self.schema.lists:
            for name, spec in zip(self.schema.tensors, specs, strict=False):
                if spec is None and name not in self.schema.nullable:
                    raise TypeError(
                        f"{self.name}: {name}: expected a tensor, an array or a number; received None."
                    )
        first = specs[0] if specs else None
        axis = attrs.get("axis")
        if axis is not None and first is not None:
            if isinstance(axis, tuple):
                attrs["axis"] = normalize_axes(axis, first.ndim)
            else:
                attrs["axis"] = normalize_axis(axis, first.ndim + self.new_axis)
        return attrs


class NegativeZero(float):
    """-0.0 as part of a key: equal to itself alone, since a plan for 0.0 is another plan."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NegativeZero)

    def __hash__(self) -> int:
        return hash("-0.0")


def freeze(value: Any) -> Any:
    """Return `value` in a hashable form that tells all values apart (lists become tuples)."""
    if isinstance(value, list | tuple):
        return tuple([freeze(v) for v in value])
    if type(value) is float and value == 0.0 and math.copysign(1.0, value) < 0:
        return NegativeZero(-0.0)
    return value


def _declare(kind: str, name: str, function: Callable[..., Any], options: dict[str, Any]) -> Op[Any, Any]:
    doc = inspect.getdoc(function) or ""
    if not doc and not options.get("internal"):
        raise RegistrationError(f"op {name!r}: write a docstring; it is the op's documentation.")
    options.setdefault("aliasing", kind == "view")
    options.setdefault("saves", "shapes" if kind == "view" else "both")
    if options["saves"] not in ("both", "ins", "outs", "shapes"):
        raise RegistrationError(f"op {name!r}: saves must be 'both', 'ins', 'outs' or 'shapes'.")
    for key in ("nondiff_inputs", "nondiff_outputs"):
        options[key] = frozenset(options.get(key, ()))
    made: Op[Any, Any] = Op(
        name, kind, Schema.of(function), function, doc, module=function.__module__, source=function, **options
    )
    registry.add_op(made)
    return made


@overload
def op(name: str, **options: Any) -> Callable[[Callable[P, R]], Op[P, R]]: ...
@overload
def op(name: Callable[P, R]) -> Op[P, R]: ...
def op(name: Any, **options: Any) -> Any:
    """Declare a composite op; the body is its signature, documentation and decomposition.

    Parameters
    ----------
    name : str
        Registry name. Used bare (``@op``) the function's own name serves.
    **options
        ``hidden``, ``nondiff``, ``nondiff_outputs``, ``donates``, ``autocast``, ``internal``,
        ``elementwise``, ``host``, ``dynamic``; see `Op`.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> @grilly.op("example.cube")
    ... def cube(x):
    ...     "Third power."
    ...     return x * x * x
    >>> cube(grilly.asarray([1.0, 2.0])).tolist()
    [1.0, 8.0]
    """
    if callable(name):
        return _declare("composite", name.__name__, name, options)
    return lambda function: _declare("composite", name, function, options)


def primitive(name: str, **options: Any) -> Callable[[Callable[..., Any]], Op[..., Tensor]]:
    """Declare a primitive; the function is its shape rule and returns `Inferred`."""
    return lambda function: _declare("primitive", name, function, options)


def host_op(name: str, **options: Any) -> Callable[[Callable[..., Any]], Op[..., Any]]:
    """Declare an op that only the CPU computes; the function is its shape rule and returns `Inferred`.

    Elsewhere it is an explicit, counted transfer, which the fallback policy ``error`` permits.
    """
    return lambda function: _declare("host", name, function, {**options, "host": True})


def view_op(name: str, **options: Any) -> Callable[[Callable[..., Any]], Op[..., Tensor]]:
    """Declare a view; the function maps a layout to ``(shape, strides, offset)``."""
    return lambda function: _declare("view", name, function, options)


class Handle:
    """An op by name, looked up when first used."""

    __slots__ = ("_op", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._op: Op[Any, Any] | None = None

    @property
    def op(self) -> Op[Any, Any]:
        """The op itself."""
        if self._op is None:
            self._op = registry.get(self.name)
        return self._op

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """See the class."""
        return (self._op or self.op)(*args, **kwargs)
