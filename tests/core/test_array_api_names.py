"""Every name of the Array API standard 2024.12 is there and can be called as the standard writes it."""

from __future__ import annotations

import inspect

import pytest

import grilly

#: Signatures as the standard prints them; a line of names alone means elementwise functions of one or two arrays.
CREATION = """
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid(*arrays, indexing='xy')
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
"""
TYPES = """
astype(x, dtype, /, *, copy=True, device=None)
can_cast(from_, to, /)
finfo(type, /)
iinfo(type, /)
isdtype(dtype, kind)
result_type(*arrays_and_dtypes)
__array_namespace_info__()
"""
ONE = """
abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log
log1p log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan tanh trunc
"""
TWO = """
add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide
greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply
nextafter not_equal pow remainder subtract
"""
FUNCTIONS = """
clip(x, /, min=None, max=None)
matmul(x1, x2, /)
matrix_transpose(x, /)
tensordot(x1, x2, /, *, axes=2)
vecdot(x1, x2, /, *, axis=-1)
broadcast_arrays(*arrays)
broadcast_to(x, /, shape)
concat(arrays, /, *, axis=0)
expand_dims(x, /, *, axis=0)
flip(x, /, *, axis=None)
moveaxis(x, source, destination, /)
permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
roll(x, /, shift, *, axis=None)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
tile(x, repetitions, /)
unstack(x, /, *, axis=0)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False)
nonzero(x, /)
searchsorted(x1, x2, /, *, side='left', sorter=None)
where(condition, x1, x2, /)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
argsort(x, /, *, axis=-1, descending=False, stable=True)
sort(x, /, *, axis=-1, descending=False, stable=True)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
"""
LINALG = """
cholesky(x, /, *, upper=False)
cross(x1, x2, /, *, axis=-1)
det(x, /)
diagonal(x, /, *, offset=0)
eigh(x, /)
eigvalsh(x, /)
inv(x, /)
matmul(x1, x2, /)
matrix_norm(x, /, *, keepdims=False, ord='fro')
matrix_power(x, n, /)
matrix_rank(x, /, *, rtol=None)
matrix_transpose(x, /)
outer(x1, x2, /)
pinv(x, /, *, rtol=None)
qr(x, /, *, mode='reduced')
slogdet(x, /)
solve(x1, x2, /)
svd(x, /, *, full_matrices=True)
svdvals(x, /)
tensordot(x1, x2, /, *, axes=2)
trace(x, /, *, offset=0, dtype=None)
vecdot(x1, x2, /, *, axis=-1)
vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
"""
FFT = """
fft(x, /, *, n=None, axis=-1, norm='backward')
ifft(x, /, *, n=None, axis=-1, norm='backward')
fftn(x, /, *, s=None, axes=None, norm='backward')
ifftn(x, /, *, s=None, axes=None, norm='backward')
rfft(x, /, *, n=None, axis=-1, norm='backward')
irfft(x, /, *, n=None, axis=-1, norm='backward')
rfftn(x, /, *, s=None, axes=None, norm='backward')
irfftn(x, /, *, s=None, axes=None, norm='backward')
hfft(x, /, *, n=None, axis=-1, norm='backward')
ihfft(x, /, *, n=None, axis=-1, norm='backward')
fftfreq(n, /, *, d=1.0, dtype=None, device=None)
rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
fftshift(x, /, *, axes=None)
ifftshift(x, /, *, axes=None)
"""
DTYPES = """
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
"""
OPERATORS = """
abs add and array_namespace bool complex dlpack dlpack_device eq float floordiv ge getitem gt index int invert le lshift
lt matmul mod mul ne neg or pos pow rshift setitem sub truediv xor
"""
REFLECTED = "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor"


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def _standard(line: str) -> inspect.Signature:
    return inspect.signature(eval(f"lambda {line[line.index('(') + 1 : -1]}: None"))


def _calls(signature: inspect.Signature) -> list[tuple[tuple[object, ...], dict[str, object]]]:
    """The ways the standard lets a function be called: by position as far as it goes, and by name where it may."""
    ps = signature.parameters.values()
    only, both = (
        [p for p in ps if p.kind is k]
        for k in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    )
    named = [p for p in ps if p.kind is inspect.Parameter.KEYWORD_ONLY]
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in ps):
        return [((0, 0, 0), {p.name: 0 for p in named})]
    by_position = tuple(0 for _ in [*only, *both])
    required = tuple(0 for p in only if p.default is p.empty)
    return [
        (by_position, {p.name: 0 for p in named}),
        (tuple(0 for _ in only), {p.name: 0 for p in [*both, *named]}),
        (required, {p.name: 0 for p in both if p.default is p.empty}),
    ]


def _check(module: object, line: str) -> None:
    ours = inspect.signature(getattr(module, line[: line.index("(")]))
    for args, kwargs in _calls(_standard(line)):
        ours.bind(*args, **kwargs)  # raises TypeError where the call does not fit
    for p in _standard(line).parameters.values():
        mine = ours.parameters.get(p.name)
        if mine is not None and p.default not in (p.empty, None):
            assert mine.default == p.default, p.name


@pytest.mark.parametrize("line", _lines(CREATION + TYPES + FUNCTIONS))
def test_functions_take_the_calls_of_the_standard(line):
    _check(grilly, line)


@pytest.mark.parametrize("line", _lines(LINALG))
def test_linear_algebra_takes_the_calls_of_the_standard(line):
    _check(grilly.linalg, line)


@pytest.mark.parametrize("line", _lines(FFT))
def test_fourier_transforms_take_the_calls_of_the_standard(line):
    _check(grilly.fft, line)


@pytest.mark.parametrize("name", ONE.split())
def test_elementwise_functions_of_one_array(name):
    inspect.signature(getattr(grilly, name)).bind(0)


@pytest.mark.parametrize("name", TWO.split())
def test_elementwise_functions_of_two_arrays(name):
    inspect.signature(getattr(grilly, name)).bind(0, 0)


@pytest.mark.parametrize("name", DTYPES.split())
def test_dtypes(name):
    assert grilly.zeros(1, dtype=getattr(grilly, name)).dtype is getattr(grilly, name)


def test_constants():
    assert (grilly.e, grilly.pi, grilly.inf, grilly.newaxis) == (
        2.718281828459045,
        3.141592653589793,
        float("inf"),
        None,
    )
    assert grilly.nan != grilly.nan


def test_operators_and_attributes_of_a_tensor():
    reflected = [f"{side}{n}" for n in REFLECTED.split() for side in "ri"]
    for name in [*OPERATORS.split(), *reflected]:
        assert callable(getattr(grilly.Tensor, f"__{name}__")), name
    x = grilly.zeros(2, 3)
    assert (x.shape, x.ndim, x.T.shape, x.mT.shape) == ((2, 3), 2, (3, 2), (3, 2))
    assert x.dtype is grilly.float32
    assert x.to_device(x.device, stream=None) is x


def test_the_namespace_of_a_tensor_has_the_functions():
    x = grilly.zeros(1)
    assert x.__array_namespace__(api_version="2024.12").asarray is grilly.asarray
    with pytest.raises(ValueError, match=r"2024\.12"):
        x.__array_namespace__(api_version="1999.01")


def test_the_library_tells_what_it_can():
    info = grilly.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": None,
    }
    assert info.default_dtypes()["real floating"] is grilly.float32
    assert set(DTYPES.split()) <= set(info.dtypes())
    assert set(info.dtypes(kind="signed integer")) == {"int8", "int16", "int32", "int64"}
    assert info.default_device() in info.devices()
