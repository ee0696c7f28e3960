"""``matmul``, ``nn.linear``, ``nn.linear_act`` and ``nn.matmul_int8``: which kernel makes a product.

Products of f32 with enough terms are made of tiles, those of f16 and bf16 on cooperative matrices where the device has
them; everything else, and what has strides that neither reads, by the general kernel. By choice of the caller
(`matmul_precision`), f32 is made of three products of bf16, or of one.
"""

from __future__ import annotations

import math
from typing import Any, Final

from grilly_backend_vulkan.kernels import data, matmul_choice, matmul_general, matmul_matrices, matmul_tiles
from grilly_backend_vulkan.kernels.matmul_product import BATCH_AXES, Finish, Matrices, Product
from grilly_backend_vulkan.kernels.support import FLOATS, HALVES, INTEGERS, add
from grilly_core.layout import contiguous_strides

__all__ = ["has_matrices", "launch", "product", "register"]

_LEAST_WORK: Final = 1 << 18  # multiplications, below which tiles are mostly empty
_LEAST_SPLIT: Final = 1 << 27  # below which splitting the operands costs more than it gains
_PRODUCTS: Final = {"high": 3, "medium": 1}


def has_matrices(facts: Any, code: str) -> bool:
    """Whether the device multiplies matrices of this type as the shaders want it."""
    fits = facts.subgroup_min <= 32 <= facts.subgroup_max and (
        facts.subgroup_control or facts.subgroup_size == 32
    )
    return fits and matmul_matrices.SHAPES.get(code) in facts.cooperative


def launch(stream: Any, product: Product, code: str, precision: str = "highest") -> None:
    """Make a product of operands of type `code` by the fastest kernel that takes it."""
    p, facts = product, stream.facts
    work = p.m * p.n * p.k * p.batch
    sizes = (p.m, p.n, p.k, p.batch)
    fits = work >= _LEAST_WORK and min(p.m, p.n) > 8 and len(p.shape) <= BATCH_AXES
    if fits and code in ("f16", "bf16") and has_matrices(facts, code):
        chosen = matmul_choice.choose(facts, "f16", *sizes)
        if chosen is not None:
            matmul_matrices.launch(stream, p, *chosen, code)
            return
    if (
        fits
        and code == "f32"
        and precision in _PRODUCTS
        and work >= _LEAST_SPLIT
        and has_matrices(facts, "bf16")
    ):
        products = _PRODUCTS[precision]
        chosen = matmul_choice.choose(facts, "f16", p.m, p.n, p.k * products, p.batch)
        if chosen is not None:
            matmul_matrices.launch_split(stream, p, *chosen, products)
            return
    if fits and code == "f32" and matmul_tiles.operands(p) is not None:
        chosen = matmul_choice.choose(facts, "f32", *sizes)
        if chosen is not None:
            matmul_tiles.launch(stream, p, *chosen)
            return
    matmul_general.launch(stream, p, code)


def product(stream: Any, out: Any, a: Any, b: Any, precision: str = "highest") -> None:
    """Make ``out = a @ b`` of views of two matrices of one type, with any strides; `out` is packed.

    This is ``stream.product`` of kernels that are partly made of products.
    """
    sizes = (a.shape[0], b.shape[1], a.shape[1])
    launch(stream, Product.of(out, _of(a), _of(b), sizes), out.dtype.code, precision)


def _packed(stream: Any, view: Any) -> Matrices:
    """Copy a batch with too many axes to scratch memory."""
    steps = contiguous_strides(view.shape)
    target = data.copy_packed(stream, view, tuple(range(len(view.shape))))
    return Matrices(target, steps[-2], steps[-1], steps[:-2])


def _matmul(precision: str) -> Any:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        out, (a, b) = outs[0], ins
        sizes = (a.shape[-2], b.shape[-1], a.shape[-1])
        product = Product.of(out, _of(a), _of(b), sizes, a.shape[:-2])
        if len(product.shape) > BATCH_AXES:
            product = Product.of(out, _packed(stream, a), _packed(stream, b), sizes, a.shape[:-2])
        launch(stream, product, out.dtype.code, precision)

    return kernel


def _of(view: Any) -> Matrices:
    return Matrices(view, view.strides[-2], view.strides[-1], view.strides[:-2])


def _linear(precision: str) -> Any:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        out, (x, weight, bias) = outs[0], ins
        width = x.shape[-1]
        right = Matrices(weight, weight.strides[0], weight.strides[1]).transposed
        sizes = (math.prod(x.shape[:-1]), weight.shape[0], width)
        product = Product.of(out, Matrices(x, width, 1), right, sizes, finish=Finish(bias))
        launch(stream, product, out.dtype.code, precision)

    return kernel


def _linear_act(precision: str) -> Any:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        out, (x, weight, bias, residual) = outs[0], ins
        sizes = (math.prod(x.shape[:-1]), weight.shape[0], x.shape[-1])
        right = Matrices(weight, x.shape[-1], 1).transposed
        finish = Finish(bias, residual, attrs["activation"])
        product = Product.of(out, Matrices(x, x.shape[-1], 1), right, sizes, finish=finish)
        launch(stream, product, out.dtype.code, precision)

    return kernel


def _relu_vjp(precision: str) -> Any:
    def kernel(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
        out, (a, b, y) = outs[0], ins
        sizes = (a.shape[-2], b.shape[-1], a.shape[-1])
        finish = Finish(residual=y, activation="relu_vjp")
        product = Product.of(out, _of(a), _of(b), sizes, a.shape[:-2], finish)
        launch(stream, product, out.dtype.code, precision)

    return kernel


def _int8(stream: Any, outs: Any, ins: Any, attrs: dict[str, Any]) -> None:
    out, (a, b) = outs[0], ins
    sizes = (a.shape[-2], b.shape[-1], a.shape[-1])
    product = Product.of(out, _of(a), _of(b), sizes, a.shape[:-2])
    if len(product.shape) > BATCH_AXES:
        product = Product.of(out, _packed(stream, a), _packed(stream, b), sizes, a.shape[:-2])
    chosen = matmul_choice.choose(stream.facts, "i8", *sizes, product.batch)
    assert chosen is not None  # asked in `_suits_int8`
    matmul_matrices.launch(stream, product, *chosen, "i8")


def _suits_int8(c: Any) -> bool:
    facts, (a, b) = c.runtime.facts, c.ins
    if not has_matrices(facts, "i8") or a.shape[-1] == 0:
        return False
    return matmul_choice.choose(facts, "i8", a.shape[-2], b.shape[-1], a.shape[-1], 1) is not None


def _one_dtype(c: Any) -> bool:
    return len({s.dtype for s in c.ins if s is not None}) == 1


def _suits_relu_vjp(c: Any) -> bool:
    a, b, y = c.ins
    same = a.shape[:-2] == b.shape[:-2] == y.shape[:-2]
    return _one_dtype(c) and same and y.contiguous and len(a.shape) - 2 <= BATCH_AXES


def register(kernels: Any, runtime: Any) -> None:
    """Declare the kernels of this module."""
    add(kernels, "matmul", _matmul("highest"), INTEGERS | FLOATS)
    add(kernels, "nn.linear", _linear("highest"), FLOATS, layout="contiguous", when=_one_dtype)
    for precision in _PRODUCTS:

        def asked(c: Any, precision: str = precision) -> bool:
            return c.policy.matmul_precision == precision and _one_dtype(c)

        def gated(c: Any, precision: str = precision) -> bool:
            return c.policy.matmul_precision == precision and _suits_relu_vjp(c)

        f32 = frozenset({"f32"})
        kernels.add("nn.matmul_relu_vjp", _relu_vjp(precision), dtypes=f32, when=gated, priority=2)
        kernels.add("matmul", _matmul(precision), dtypes=f32, when=asked, priority=2)
        for name, kernel in (("nn.linear", _linear), ("nn.linear_act", _linear_act)):
            kernels.add(name, kernel(precision), dtypes=f32, layout="contiguous", when=asked, priority=2)
    act = _linear_act("highest")
    kernels.add("nn.linear_act", act, dtypes=HALVES | {"f32"}, layout="contiguous", when=_one_dtype)
    add(kernels, "nn.matmul_relu_vjp", _relu_vjp("highest"), HALVES | {"f32"}, when=_suits_relu_vjp)
    kernels.add("nn.matmul_int8", _int8, dtypes=frozenset({"i8", "i32"}), when=_suits_int8)
