"""Which function of grilly answers which ``torch.*`` name: creation, shapes, joining, indexing."""

# ruff: noqa: E501 - a table reads best with one entry a line

from __future__ import annotations

from typing import Any

from tests.peers.op_samples import Entry

import grilly

G: Any = grilly


def made(call: Any) -> Any:
    """Creation: PyTorch's layout, device and pinning arguments have no counterpart."""
    ignored = ("layout", "device", "pin_memory", "requires_grad", "memory_format", "out")
    return lambda *a, **k: call(*a, **{n: v for n, v in k.items() if n not in ignored})


def sizes(shape: Any) -> Any:
    """Sizes one by one or as one sequence."""
    return shape[0] if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape


def method(names: str) -> dict[str, Entry]:
    """Entries of tensor methods, which have PyTorch's signature."""
    return {n: Entry(lambda x, *a, _n=n, **k: getattr(x, _n)(*a, **k)) for n in names.split()}


def undefined(call: Any) -> Entry:
    """Uninitialised memory in PyTorch."""
    return Entry(call, compare="shapes", reason="uninitialised values")


def as_source(reduce: str) -> Any:
    """`scatter` with PyTorch's `reduce` argument."""
    return {"add": "sum", "multiply": "prod"}[reduce]


CREATION = {
    "arange": Entry(made(lambda *a, end=None, dtype=None: G.arange(*a, *(() if end is None else (end,)), dtype=dtype))),
    "linspace": Entry(made(lambda a, b, n, dtype=None: G.linspace(a, b, n, dtype=dtype)), tol=1e-4),
    "logspace": Entry(made(lambda a, b, n, base=10.0, dtype=None: G.logspace(a, b, n, base=base, dtype=dtype)), tol=2e-4),
    "eye": Entry(made(lambda n, m=None, dtype=None: G.eye(n, m, dtype=dtype))),
    "ones": Entry(made(lambda *s, dtype=None: G.ones(sizes(s), dtype=dtype))),
    "zeros": Entry(made(lambda *s, dtype=None: G.zeros(sizes(s), dtype=dtype))),
    "empty": undefined(made(lambda *s, dtype=None: G.empty(sizes(s), dtype=dtype))),
    "full": Entry(made(lambda s, v, dtype=None: G.full(s, v, dtype=dtype))),
    "ones_like": Entry(made(lambda x, dtype=None: G.ones_like(x, dtype=dtype))),
    "zeros_like": Entry(made(lambda x, dtype=None: G.zeros_like(x, dtype=dtype))),
    "empty_like": undefined(made(lambda x, dtype=None: G.empty_like(x, dtype=dtype))),
    "full_like": Entry(made(lambda x, v, dtype=None: G.full_like(x, v, dtype=dtype))),
    "new_zeros": Entry(made(lambda x, *s, dtype=None: x.new_zeros(*s, dtype=dtype))),
    "new_ones": Entry(made(lambda x, *s, dtype=None: x.new_ones(*s, dtype=dtype))),
    "new_full": Entry(made(lambda x, s, v, dtype=None: x.new_full(s, v, dtype=dtype))),
    "new_empty": undefined(made(lambda x, *s, dtype=None: x.new_empty(*s, dtype=dtype))),
    "scalar_tensor": Entry(made(lambda v, dtype=None: G.asarray(v, dtype=dtype or G.float32))),
    "tril_indices": Entry(made(lambda r, c, offset=0, dtype=None: G.tril_indices(r, c, k=offset))),
    "triu_indices": Entry(made(lambda r, c, offset=0, dtype=None: G.triu_indices(r, c, k=offset))),
    "meshgrid": Entry(lambda first, *rest, indexing="ij": G.meshgrid(*(first if isinstance(first, (list, tuple)) else (first, *rest)), indexing=indexing)),
    "clone": Entry(made(lambda x: x.clone())),
    "contiguous": Entry(made(lambda x: x.contiguous())),
    "alias_copy": Entry(lambda x: x.clone()),
    "to": Entry(lambda x, *a, **k: x.to(*(v for v in a if not isinstance(v, bool)), **{n: v for n, v in k.items() if n in ("dtype", "device")})),
    "item": Entry(lambda x: x.item()),
    "fill": Entry(lambda x, value: G.full_like(x, value)),
    "zero_": Entry(lambda x: x.zero_()),
}  # fmt: skip

SHAPES = {
    **method(
        "expand expand_as reshape view unflatten permute transpose t squeeze unsqueeze narrow chunk split "
        "flatten diagonal view_as unfold select tile repeat movedim sum_to_size"
    ),
    "T": Entry(lambda x: x.T),
    "H": Entry(lambda x: x.H),
    "mT": Entry(lambda x: x.mT),
    "mH": Entry(lambda x: x.mH),
    "reshape_as": Entry(lambda x, y: x.view_as(y)),
    "expand_copy": Entry(lambda x, *a: x.expand(*a)),
    "view_copy": Entry(lambda x, *a: x.view(*a)),
    "permute_copy": Entry(lambda x, dims: x.permute(dims)),
    "transpose_copy": Entry(lambda x, a, b: x.transpose(a, b)),
    "t_copy": Entry(lambda x: x.t()),
    "squeeze_copy": Entry(lambda x, *a, **k: x.squeeze(*a, **k)),
    "unsqueeze_copy": Entry(lambda x, d: x.unsqueeze(d)),
    "narrow_copy": Entry(lambda x, *a: x.narrow(*a)),
    "unbind_copy": Entry(lambda x, dim=0: x.unbind(dim)),
    "unfold_copy": Entry(lambda x, *a: x.unfold(*a)),
    "diagonal_copy": Entry(lambda x, *a, **k: x.diagonal(*a, **k)),
    "split_with_sizes": Entry(lambda x, s, dim=0: x.split(s, dim)),
    "split_with_sizes_copy": Entry(lambda x, s, dim=0: x.split(s, dim)),
    "unsafe_split": Entry(lambda x, s, dim=0: x.split(s, dim)),
    "unsafe_chunk": Entry(lambda x, n, dim=0: x.chunk(n, dim)),
    "slice": Entry(lambda x, dim=0, start=None, end=None, step=1: x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]),
    "ravel": Entry(lambda x: G.ravel(x)),
    "broadcast_to": Entry(lambda x, s: G.broadcast_to(x, s)),
    "broadcast_tensors": Entry(lambda *a: G.broadcast_arrays(*a)),
    "broadcast_shapes": Entry(lambda *a: G.broadcast_shapes(*((s,) if isinstance(s, int) else s for s in a))),
    "flip": Entry(lambda x, dims: G.flip(x, axis=dims)),
    "fliplr": Entry(lambda x: G.flip(x, axis=1)),
    "flipud": Entry(lambda x: G.flip(x, axis=0)),
    "roll": Entry(lambda x, shifts, dims=None: G.roll(x, shifts, axis=dims)),
    "rot90": Entry(lambda x, k=1, dims=(0, 1): G.rot90(x, k, axes=dims)),
    "cat": Entry(lambda ts, dim=0: G.concat(ts, axis=dim)),
    "stack": Entry(lambda ts, dim=0: G.stack(ts, axis=dim)),
    "unbind": Entry(lambda x, dim=0: G.unstack(x, axis=dim)),
    "hstack": Entry(lambda ts, *a: G.hstack(ts)),
    "vstack": Entry(lambda ts, *a: G.vstack(ts)),
    "dstack": Entry(lambda ts, *a: G.dstack(ts)),
    "column_stack": Entry(lambda ts, *a: G.column_stack(ts)),
    "tensor_split": Entry(lambda x, n, dim=0: G.tensor_split(x, n.tolist() if isinstance(n, G.Tensor) else n, axis=dim)),
    "hsplit": Entry(lambda x, n: G.hsplit(x, n)),
    "vsplit": Entry(lambda x, n: G.vsplit(x, n)),
    "dsplit": Entry(lambda x, n: G.dsplit(x, n)),
    "atleast_1d": Entry(lambda *a: G.atleast_1d(*a)),
    "atleast_2d": Entry(lambda *a: G.atleast_2d(*a)),
    "atleast_3d": Entry(lambda *a: G.atleast_3d(*a)),
    "tril": Entry(lambda x, diagonal=0: G.tril(x, k=diagonal)),
    "triu": Entry(lambda x, diagonal=0: G.triu(x, k=diagonal)),
    "diag": Entry(lambda x, diagonal=0: G.diag(x, k=diagonal)),
    "diagflat": Entry(lambda x, offset=0: G.diagflat(x, k=offset)),
    "diag_embed": Entry(lambda x, offset=0, dim1=-2, dim2=-1: G.diag_embed(x, offset=offset, axis1=dim1, axis2=dim2)),
    "repeat_interleave": Entry(lambda x, repeats=None, dim=None, output_size=None: G.repeat(G.arange(x.shape[0]), x) if repeats is None else G.repeat(x, repeats, axis=dim)),
    "constant_pad_nd": Entry(lambda x, pad, value=0: G.functional.pad(x, pad, "constant", value)),
}  # fmt: skip

INDEXING = {
    "gather": Entry(lambda x, dim, index, sparse_grad=False: x.gather(dim, index), reviewed=((lambda x, a, k: x.ndim != a[1].ndim, "an empty index with other axes"),)),
    "take": Entry(lambda x, index: G.take(x, index)),
    "take_along_dim": Entry(lambda x, index, dim=None: G.take_along_axis(G.ravel(x), G.ravel(index), axis=0) if dim is None else G.take_along_axis(x, index, axis=dim)),
    "index_select": Entry(lambda x, dim, index: x.index_select(dim, index)),
    "index_add": Entry(lambda x, dim, index, source, alpha=1: x.index_add(dim, index, source if alpha == 1 else source * alpha)),
    "index_copy": Entry(lambda x, dim, index, source: G.index_copy(x, index, source, axis=dim)),
    "index_fill": Entry(lambda x, dim, index, value: G.index_fill(x, index, value, axis=dim)),
    "index_reduce": Entry(lambda x, dim, index, source, reduce, include_self=True: G.index_reduce(x, index, source, reduce, axis=dim, include_self=include_self)),
    "index_put": Entry(lambda x, indices, values, accumulate=False: G.index_put(x, indices, values, accumulate=accumulate)),
    "put": Entry(lambda x, index, source, accumulate=False: G.put(x, index, source, accumulate=accumulate)),
    "scatter": Entry(lambda x, dim, index, src=None, value=None, reduce=None: x.scatter(dim, index, value if src is None else src) if reduce is None else G.scatter_reduce(x, index, value if src is None else src, as_source(reduce), axis=dim)),
    "scatter_add": Entry(lambda x, dim, index, src: x.scatter_add(dim, index, src)),
    "scatter_reduce": Entry(lambda x, dim, index, src, reduce, include_self=True: G.scatter_reduce(x, index, src, reduce, axis=dim, include_self=include_self)),
    "masked_fill": Entry(lambda x, mask, value: x.masked_fill(mask, value)),
    "masked_select": Entry(lambda x, mask: G.masked_select(x, mask)),
    "masked_scatter": Entry(lambda x, mask, source: G.masked_scatter(x, mask, source)),
    "select_scatter": Entry(lambda x, src, dim, index: G.select_scatter(x, src, index, axis=dim)),
    "slice_scatter": Entry(lambda x, src, dim=0, start=None, end=None, step=1: G.slice_scatter(x, src, start, end, step, axis=dim)),
    "diagonal_scatter": Entry(lambda x, src, offset=0, dim1=0, dim2=1: G.diagonal_scatter(x, src, offset=offset, axis1=dim1, axis2=dim2)),
    "nonzero": Entry(lambda x, as_tuple=False: G.nonzero(x) if as_tuple else x.nonzero()),
    "argwhere": Entry(lambda x: G.argwhere(x)),
    "unravel_index": Entry(lambda x, shape: G.unravel_index(x, shape)),
}  # fmt: skip

ENTRIES = {**CREATION, **SHAPES, **INDEXING}
