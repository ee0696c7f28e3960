"""`Module`: the base of everything that has parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from grilly_core.nn import state
from grilly_core.nn.explicit import backward, outermost, scope
from grilly_core.nn.hooks import Hooks, RemovableHandle
from grilly_core.nn.parameter import Buffer, Parameter
from grilly_core.nn.registration import Registered
from grilly_core.ops.creation import zeros_like
from grilly_core.tensor import Tensor

if TYPE_CHECKING:
    from grilly_core.device import Device

__all__ = ["Module"]


class Module(Registered):
    """Base class of all layers and models, with PyTorch's semantics.

    Assigning a `Parameter` or a `Module` to an attribute registers it; so does assigning a list, tuple or dict
    that holds some, at any depth. Override `forward` and call the module itself.

    Attributes
    ----------
    training : bool
        Whether layers such as dropout act as in training.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> class Scale(grilly.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = grilly.nn.Parameter(grilly.tensor(2.0))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(grilly.tensor(3.0)).item()
    6.0
    """

    training: bool
    _hooks: Hooks | None
    _last: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Prepare the registers, so that attributes work before ``super().__init__()``."""
        self = super().__new__(cls)
        self.__dict__.update(training=True, _hooks=None, _last=None)
        return self

    def __init__(self) -> None:
        """Nothing is left to do here; subclasses may take any arguments."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; override."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward().")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` and the hooks; arrays are taken as tensors on the module's device."""
        if scope.inside:
            if self._hooks is None:
                return self.forward(*args, **kwargs)
            return self._hooks.call(self, args, kwargs)
        return outermost(self, args, kwargs)

    def backward(self, grad_output: Any = None) -> Any:
        """Pull a gradient back through the last call of this module, adding to the parameters' `.grad`.

        Only a call of this very module (not one from inside another) in training mode, with gradients on, can be
        gone back through, once. Gradients stop at its inputs, so modules can be chained by hand.

        Parameters
        ----------
        grad_output : array_like, or tuple of them
            Gradient of the output; may be left out for a single element.

        Returns
        -------
        Tensor, tuple of Tensor or None
            Gradients of the inputs that were floating arrays or tensors that require grad.

        Examples
        --------
        >>> import grilly_core as grilly, numpy as np
        >>> layer = grilly.nn.ReLU()
        >>> y = layer(np.array([-1.0, 2.0], np.float32))
        >>> layer.backward(grilly.ones(2)).tolist()
        [0.0, 1.0]
        """
        return backward(self, grad_output)

    # -- what is inside ------------------------------------------------------------------------------------

    def named_modules(self, memo: set[int] | None = None, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yield this module and all below it with their dotted names, each once, depth first."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, child in self._of_kind("module"):
            yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        """Yield this module and all below it, each once."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules directly below this one, each once."""
        seen: set[int] = set()
        for name, child in self._of_kind("module"):
            if id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def children(self) -> Iterator[Module]:
        """Yield the modules directly below this one."""
        for _, child in self.named_children():
            yield child

    def _named(self, kind: str, prefix: str, recurse: bool, unique: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules(prefix=prefix) if recurse else [(prefix, self)]:
            for name, tensor in module._of_kind(kind):
                if unique and id(tensor) in seen:
                    continue
                seen.add(id(tensor))
                yield f"{path}.{name}" if path else name, tensor

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with their dotted names; one under two names comes once.

        Examples
        --------
        >>> import grilly_core as grilly
        >>> [name for name, _ in grilly.nn.Linear(2, 3).named_parameters()]
        ['weight', 'bias']
        """
        return self._named("parameter", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with their dotted names; one under two names comes once."""
        return self._named("buffer", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # -- modes and places ----------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and below; returns the module."""
        if not isinstance(mode, bool):
            raise TypeError(f"train: mode must be a bool; received {mode!r}.")
        for module in self.modules():
            module.training = mode
            if not mode:
                module.__dict__["_last"] = None
        return self

    def eval(self) -> Self:
        """Set evaluation mode here and below; returns the module."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freeze or unfreeze all parameters; returns the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or with ``set_to_none=False`` fill them with zeros."""
        for parameter in self.parameters():
            if parameter.grad is not None:
                parameter.grad = None if set_to_none else zeros_like(parameter.grad)

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Call `fn` on every module below, then on this one; returns the module."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, device: Device | str | None = None, dtype: Any = None) -> Self:
        """Move all parameters and buffers to a device, and the floating ones to a dtype; returns the module.

        Parameters
        ----------
        *args
            A device, a dtype, both, or a tensor to follow.
        device : Device or str, optional
        dtype : DType, optional
            A floating one.

        Examples
        --------
        >>> import grilly_core as grilly
        >>> grilly.nn.Linear(1, 1).to(grilly.float64).weight.dtype
        grilly.float64
        """
        place, kind = state.destination(args, device, dtype)
        for t in self._cells():
            state.move(t, place, kind)
        return self

    def _cells(self) -> Iterator[Tensor]:
        yield from self.parameters()
        yield from self.buffers()

    def cpu(self) -> Self:
        """Move everything to the CPU; returns the module."""
        return self.to("cpu")

    def vulkan(self, index: int = 0) -> Self:
        """Move everything to a Vulkan device; returns the module."""
        return self.to(f"vulkan:{index}")

    def float(self) -> Self:
        """Cast the floating parameters and buffers to float32; returns the module."""
        return self.to(dtype="float32")

    def double(self) -> Self:
        """Cast the floating parameters and buffers to float64; returns the module."""
        return self.to(dtype="float64")

    def half(self) -> Self:
        """Cast the floating parameters and buffers to float16; returns the module."""
        return self.to(dtype="float16")

    def bfloat16(self) -> Self:
        """Cast the floating parameters and buffers to bfloat16; returns the module."""
        return self.to(dtype="bfloat16")

    # -- state ---------------------------------------------------------------------------------------------

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> dict[str, Any]:
        """Return all parameters and persistent buffers by dotted name, and what `get_extra_state` gives.

        The result is a snapshot: training on changes nothing in it, and nothing is copied until then.

        Parameters
        ----------
        prefix : str
            Put before every name.
        keep_vars : bool
            Return the module's own tensors instead.

        Examples
        --------
        >>> import grilly_core as grilly
        >>> sorted(grilly.nn.Linear(2, 3).state_dict())
        ['bias', 'weight']
        """
        return state.save(self, prefix, keep_vars)

    def get_extra_state(self) -> Any:
        """Return what else belongs into the state dict, as ``_extra_state``; override it with `set_extra_state`."""
        raise NotImplementedError(f"{type(self).__name__} has no extra state: override get_extra_state.")

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` returned; called once everything else has been loaded."""
        raise NotImplementedError(f"{type(self).__name__} has no extra state: override set_extra_state.")

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> state.IncompatibleKeys:
        """Copy values into the parameters and persistent buffers.

        Everything is checked first: after an error nothing has changed. A shape that does not fit is always an
        error; `strict` is about names only.

        Parameters
        ----------
        state_dict : mapping of str to array_like
            Such as `state_dict` returns, here or in PyTorch.
        strict : bool
            Whether missing and unexpected names are errors.

        Returns
        -------
        IncompatibleKeys
            ``(missing_keys, unexpected_keys)``.

        Raises
        ------
        StateDictError
            Naming each key, with both shapes where they differ.
        """
        return state.load(self, state_dict, strict)

    # -- hooks ---------------------------------------------------------------------------------------------

    def _hook(self, kind: str, hook: Callable[..., Any], with_kwargs: bool, prepend: bool) -> RemovableHandle:
        if self._hooks is None:
            self.__dict__["_hooks"] = Hooks()
        hooks = self._hooks
        assert hooks is not None
        return hooks.add(kind, hook, with_kwargs, prepend)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before `forward`; it may return other arguments.

        With `with_kwargs` it is called as ``hook(module, args, kwargs)`` and returns None or both.
        """
        return self._hook("pre", hook, with_kwargs, prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after `forward`; it may return another output.

        With `with_kwargs` it is called as ``hook(module, args, kwargs, output)``.
        """
        return self._hook("post", hook, with_kwargs, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the inputs are known.

        Both are tuples; the hook may return another `grad_input`.
        """
        return self._hook("backward", hook, False, prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` when the gradient of the output is known; it may return another."""
        return self._hook("backward_pre", hook, False, prepend)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before a state dict is collected here or above."""
        return self._hook("save_pre", hook, False, False)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, {})`` once a state dict has been collected; it may change it."""
        return self._hook("save", hook, False, False)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, {}, strict, missing, unexpected, errors)`` before loading.

        The state dict is a copy that the hook may change, for example to rename keys; the last three are lists.
        """
        return self._hook("load_pre", hook, False, False)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` once a state dict has been loaded."""
        return self._hook("load", hook, False, False)

    # -- looks ---------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Return what stands between the brackets of the repr; override."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): {_indented(repr(child))}" for name, child in self._of_kind("module")]
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        body = "\n  ".join([extra, *lines] if extra else lines)
        return f"{type(self).__name__}(\n  {body}\n)"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        import copy

        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for name, value in self.__dict__.items():
            made.__dict__[name] = None if name == "_last" else _copied(value, memo, copy.deepcopy)
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}

    def __setstate__(self, content: dict[str, Any]) -> None:
        self.__dict__.update(content)


def _copied(value: Any, memo: dict[int, Any], deepcopy: Callable[..., Any]) -> Any:
    if isinstance(value, Tensor) and not isinstance(value, Parameter | Buffer):
        if id(value) not in memo:  # a new cell for the same unchanging value
            memo[id(value)] = Tensor(value._value)
        return memo[id(value)]
    return deepcopy(value, memo)


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")
