"""Every public name of PyTorch's `nn`, `functional`, `optim` and their parts is here, or is listed with the reason.

The oracle is ``dir`` of PyTorch 2.13. A listed name that we have, or that PyTorch lacks, fails as well.
"""

from __future__ import annotations

import importlib
import inspect
import types
import typing

import pytest

torch = pytest.importorskip("torch")

QUANTISED = (
    "quantisation-aware training and int8 layers of PyTorch's own formats; ours is functional.matmul_int8"
)
DISTRIBUTED = "more than one process or device"
DEPRECATED = "deprecated in PyTorch in favour of the name that we have"
HELPER = "a helper of PyTorch's own code, not for users"
NUMERIC = "kernels for scaled 8-bit floats, or for groups of products, that need NVIDIA's tensor cores"

OLD_INIT = [
    "constant", "dirac", "eye", "kaiming_normal", "kaiming_uniform", "normal", "orthogonal", "sparse", "uniform",
    "xavier_normal", "xavier_uniform",
]  # fmt: skip

ABSENT = {
    "nn": {
        "Container": DEPRECATED, "CrossMapLRN2d": DEPRECATED, "DataParallel": DISTRIBUTED, "SyncBatchNorm": DISTRIBUTED,
        "parallel": DISTRIBUTED, "RNNBase": HELPER, "RNNCellBase": HELPER, "factory_kwargs": HELPER, "modules": HELPER,
        "common_types": HELPER, "grad": "functions for the tape's own rules; autograd.grad gives the same gradients",
        "intrinsic": QUANTISED, "qat": QUANTISED, "quantizable": QUANTISED, "quantized": QUANTISED,
        "LinearCrossEntropyOptions": "how to cut the logits into parts to save memory, which outputs do not depend on",
    },
    "nn.functional": {
        "GRID_SAMPLE_INTERPOLATION_MODES": HELPER, "GRID_SAMPLE_PADDING_MODES": HELPER, "assert_int_or_pair": HELPER,
        "boolean_dispatch": HELPER, "has_torch_function": HELPER, "has_torch_function_unary": HELPER,
        "has_torch_function_variadic": HELPER, "handle_torch_function": HELPER, "reproducibility_notes": HELPER,
        "sparse_support_notes": HELPER, "tf32_notes": HELPER, "BroadcastingList1": HELPER, "BroadcastingList2": HELPER,
        "BroadcastingList3": HELPER, "ScalingType": NUMERIC, "SwizzleType": NUMERIC, "grouped_mm": NUMERIC,
        "scaled_grouped_mm": NUMERIC, "scaled_mm": NUMERIC, "grad": "see nn.grad",
        "multi_head_attention_forward": "what MultiheadAttention is made of, with 25 arguments; use the module",
    },
    "optim": {
        "SparseAdam": "there are no sparse tensors", "swap_in_optimizer_params_and_state": HELPER,
        "Adafactor": "not among the optimisers of the feature list",
        "Muon": "not among the optimisers of the feature list",
    },
    "optim.lr_scheduler": {"EPOCH_DEPRECATION_WARNING": HELPER},
    "optim.swa_utils": {"PARAM_LIST": HELPER},
    "nn.init": dict.fromkeys(OLD_INIT, DEPRECATED),
    "nn.utils": {
        "clip_grad": HELPER, "clip_grad_norm": DEPRECATED, "convert_parameters": HELPER, "init": HELPER,
        "memory_format": HELPER, "stateless": DEPRECATED,
        "convert_conv2d_weight_memory_format": "tensors have no memory format; kernels choose their own",
        "convert_conv3d_weight_memory_format": "tensors have no memory format; kernels choose their own",
        "spectral_norm": "the older form, by hooks, with other keys; parametrizations.spectral_norm",
        "remove_spectral_norm": "of the older form", "remove_weight_norm": "of the older form",
        "weight_norm": "the older form, by hooks, with other keys; parametrizations.weight_norm",
    },
    "nn.utils.parametrizations": {"auto": HELPER},
    "nn.utils.parametrize": {
        "OpaqueBase": HELPER, "get_swap_module_params_on_conversion": HELPER, "is_opaque_reference_type": HELPER,
        "is_traceable_wrapper_subclass": HELPER,
        "transfer_parametrizations_and_params": "moves the weights of PyTorch's own quantised layers",
    },
    "nn.utils.rnn": {
        "PackedSequence_": HELPER, "bind": HELPER, "copy_method_params": HELPER, "invert_permutation": HELPER,
    },
    "nn.utils.fusion": {},
}  # fmt: skip


def imported(name, value):
    """Whether a name is there only because PyTorch's file imports or annotates with it."""
    if isinstance(value, types.ModuleType):
        inside = value.__name__.startswith(("torch.nn.", "torch.optim."))
        return not inside or name in ("F", "parametrize")
    if isinstance(value, typing.TypeVar | typing.ParamSpec | type(typing.Any)) or name in (
        "Literal",
        "Callable",
    ):
        return True
    home = getattr(value, "__module__", "") or ""
    return (
        home
        in (
            "typing",
            "typing_extensions",
            "collections",
            "collections.abc",
            "functools",
            "bisect",
            "copy",
            "enum",
        )
        or (home.startswith("builtins") and name in ("annotations",))
        or value in (torch.Tensor, torch.optim.Optimizer)
        or name in ("annotations", "bisect_right", "inf", "TYPE_CHECKING", "ref", "DType")
    )


def public(path):
    module = importlib.import_module(f"torch.{path}")
    names = {n: getattr(module, n) for n in dir(module) if not n.startswith("_")}
    return {n for n, v in names.items() if not imported(n, v)}


def ours(path):
    module = importlib.import_module("grilly_core")
    for part in path.replace("nn.functional", "functional").split("."):
        module = getattr(module, part)
    return set(dir(module))


@pytest.mark.parametrize("path", ABSENT)
def test_names_of_torch_are_here_or_have_a_reason(path):
    there, here = public(path), ours(path)
    assert there - here == {name for name in ABSENT[path] if name in there} - here, "names without a reason"
    assert not set(ABSENT[path]) & here, "listed as absent, but here"
    assert all(reason for reason in ABSENT[path].values())
    module = importlib.import_module(f"torch.{path}")
    assert all(hasattr(module, name) for name in ABSENT[path]), "listed, but PyTorch has no such name"


def arguments(f):
    """Names of the arguments in order, without those of old PyTorch that we leave out."""
    old = {"size_average", "reduce", "_stacklevel", "self", "args", "kwargs"}
    return [p for p in inspect.signature(f).parameters if p not in old]


#: Arguments of PyTorch's that ours lack, each with the reason.
LACKING = {
    "LinearCrossEntropyLoss": {"options"}, "linear_cross_entropy": {"options"},  # see LinearCrossEntropyOptions
    "Hardtanh": {"min_value", "max_value"},  # deprecated for min_val and max_val
    "UninitializedBuffer": {"requires_grad"},  # no buffer does
    "normalize": {"out"},  # results are values
    # what they return says their name
    "adaptive_max_pool1d_with_indices": {"return_indices"}, "adaptive_max_pool2d_with_indices": {"return_indices"},
    "adaptive_max_pool3d_with_indices": {"return_indices"}, "fractional_max_pool2d_with_indices": {"return_indices"},
    "fractional_max_pool3d_with_indices": {"return_indices"}, "max_pool1d_with_indices": {"return_indices"},
    "max_pool2d_with_indices": {"return_indices"}, "max_pool3d_with_indices": {"return_indices"},
}  # fmt: skip

#: What PyTorch calls otherwise: its generators are other objects than ours.
RENAMED = {"generator": "rng"}


@pytest.mark.parametrize(
    "path", ["nn", "nn.functional", "optim", "optim.lr_scheduler", "nn.init", "nn.utils"]
)
def test_arguments_of_torch_are_taken(path):
    """Every argument that PyTorch's signature names is one of ours, so that no call with keywords fails."""
    module, found = importlib.import_module(f"torch.{path}"), {}
    our = importlib.import_module("grilly_core")
    for part in path.replace("nn.functional", "functional").split("."):
        our = getattr(our, part)
    for name in sorted(public(path) & ours(path)):
        theirs, mine = getattr(module, name), getattr(our, name)
        if not callable(theirs) or isinstance(theirs, types.ModuleType):
            continue
        try:
            wanted, taken = arguments(theirs), set(inspect.signature(mine).parameters)
        except ValueError:  # PyTorch's builtin functions have no signature
            continue
        lacking = {w for w in wanted if RENAMED.get(w, w) not in taken} - LACKING.get(name, set())
        if lacking and "kwargs" not in taken:
            found[name] = sorted(lacking)
    assert not found, "\n".join(f"{k}: {v}" for k, v in found.items())
