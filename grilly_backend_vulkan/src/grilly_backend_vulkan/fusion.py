"""Generated kernels: a chain of elementwise operations becomes one shader, without a compiler on the user's machine.

The package ships a frame (``chain.comp``) that loads and stores four elements a thread and holds one function for each
operation. A chain is that module with another body of its function ``chain``: a list of calls. Every operation rounds
as it does by itself, so a fused chain gives the bits of its parts.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Callable
from typing import Any, Final

from grilly_backend_vulkan import shaders, spirv_text
from grilly_backend_vulkan.kernels.support import groups_for
from grilly_core.capture.fusion import Chain

__all__ = ["MAX_INPUTS", "MAX_OUTPUTS", "function_for", "fused_kernel", "module_of"]

MAX_INPUTS: Final = 8
MAX_OUTPUTS: Final = 4
_PUSH: Final = struct.Struct("<12Q2I")
_MASK: Final = 0x2545F491  # see chain.comp
_SAME: Final = frozenset({
    "neg", "abs", "sign", "floor", "sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "isnan", "add",
    "sub", "mul", "div", "floordiv", "pow", "atan2", "maximum", "minimum", "eq", "lt", "where",
})  # fmt: skip
_ACTIVATIONS: Final = {f"nn.{n}": n for n in ("relu", "relu_vjp", "sigmoid", "silu")}
_LOGICAL: Final = {"bitwise_and": "both", "bitwise_or": "either", "bitwise_xor": "differ"}
_ON_FLAGS: Final = frozenset({"eq", "where"})


def function_for(op: str, attrs: dict[str, Any], ins: tuple[str, ...], out: str) -> str | None:
    """Return the frame's function for an op on types, None if there is none."""
    if not {*ins, out} <= {"f32", "b1"}:
        return None
    if op in ("cast", "strided_copy"):
        return "copy" if out == "f32" or ins == ("b1",) else "truth"
    if op in _LOGICAL:
        return _LOGICAL[op] if {*ins, out} == {"b1"} else None
    if op == "nn.gelu":
        return {"none": "gelu", "tanh": "gelu_tanh"}[attrs["approximate"]]
    if op in _ACTIVATIONS:
        return _ACTIVATIONS[op]
    if op not in _SAME or ("b1" in ins[op == "where" :] and op not in _ON_FLAGS):
        return None
    return op


@functools.lru_cache(maxsize=1)
def _frame() -> bytes:
    return shaders.spirv("chain")


@functools.lru_cache(maxsize=256)
def module_of(steps: tuple[tuple[str, tuple[int, ...]], ...], inputs: int, outputs: tuple[int, ...]) -> bytes:
    """Return the SPIR-V of a chain.

    Parameters
    ----------
    steps : tuple of (str, tuple of int)
        Function and operands: inputs first, then results of earlier steps.
    inputs : int
    outputs : tuple of int
        The operands that are stored.
    """
    module = spirv_text.Module(_frame())
    number = module.find(spirv_text.TYPE_FLOAT, 32)
    pointer = module.find(spirv_text.TYPE_POINTER, spirv_text.IN_FUNCTION, number)
    integer = module.find(spirv_text.TYPE_INT, 32, 1)
    places = [module.find(spirv_text.CONSTANT, integer, i) for i in range(max(MAX_INPUTS, MAX_OUTPUTS))]
    chain = module.function("chain")
    parameters = [x for x in chain.body if x[0] == spirv_text.FUNCTION_PARAMETER]
    x, y = (operands[1] for _, operands in parameters)
    cells = [module.fresh() for _ in range(inputs + len(steps))]
    body = [chain.body[0], *parameters, spirv_text.instruction(spirv_text.LABEL, module.fresh())]
    body += [spirv_text.instruction(spirv_text.VARIABLE, pointer, c, spirv_text.IN_FUNCTION) for c in cells]

    def copied(source: int, target: int) -> None:
        value = module.fresh()
        body.append(spirv_text.instruction(spirv_text.LOAD, number, value, source))
        body.append(spirv_text.instruction(spirv_text.STORE, target, value))

    def element(array: int, place: int) -> int:
        found = module.fresh()
        body.append(spirv_text.instruction(spirv_text.ACCESS_CHAIN, pointer, found, array, places[place]))
        return found

    for i in range(inputs):
        copied(element(x, i), cells[i])
    for i, (name, operands) in enumerate(steps):
        value, function = module.fresh(), module.function(f"f_{name}").id
        given = [cells[o] for o in operands]
        body.append(spirv_text.instruction(spirv_text.FUNCTION_CALL, number, value, function, *given))
        body.append(spirv_text.instruction(spirv_text.STORE, cells[inputs + i], value))
    for i, operand in enumerate(outputs):
        copied(cells[operand], element(y, i))
    body += [spirv_text.instruction(spirv_text.RETURN), spirv_text.instruction(spirv_text.FUNCTION_END)]
    chain.body = body
    module.strip("main")
    return module.code()


def fused_kernel(chain: Chain) -> Callable[..., None]:
    """Return a kernel that runs a chain in one launch."""
    code = module_of(chain.steps, len(chain.inputs), tuple(i for i, _ in chain.outputs))
    name = shaders.register_shader(f"chain.{hashlib.sha256(code).hexdigest()[:16]}", spirv=code)
    flags = sum(1 << i for i, (code_, _) in enumerate(chain.inputs) if code_ == "b1")
    single = sum(1 << i for i, (_, one) in enumerate(chain.inputs) if one)
    out_flags = sum(1 << i for i, (_, code_) in enumerate(chain.outputs) if code_ == "b1")
    constants = (len(chain.inputs), len(chain.outputs), flags, single, out_flags)

    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        n = outs[0].spec.size
        sources = [stream.address(v) for v in ins] + [0] * (MAX_INPUTS - len(ins))
        targets = [stream.address(v) for v in outs] + [0] * (MAX_OUTPUTS - len(outs))
        push = _PUSH.pack(*sources, *targets, n, _MASK)
        stream.launch(stream.pipeline(name, constants), groups_for(-(-n // 4), 256), push, ins, outs)

    return kernel
