"""`grilly.fft` against PyTorch and NumPy in double precision: values, first and second gradients."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

import grilly

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
MANY = ["fft2", "ifft2", "fftn", "ifftn", "rfft2", "irfft2", "rfftn", "irfftn"]
FROM_REAL = {"rfft", "ihfft", "rfft2", "rfftn"}
NORMS = ["backward", "ortho", "forward", None]


def data(name, shape=(4, 6, 9), seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return x if name in FROM_REAL else x + 1j * rng.standard_normal(shape)


def both(array):
    dtype = grilly.complex128 if array.dtype.kind == "c" else grilly.float64
    return grilly.tensor(array, dtype=dtype, requires_grad=True), torch.tensor(array, requires_grad=True)


def agree(ours, theirs):
    expected = theirs.detach()
    if isinstance(expected, torch.Tensor):
        expected = expected.resolve_conj().resolve_neg()  # NumPy knows no lazy conjugates
    expected = expected.numpy()
    np.testing.assert_allclose(
        ours.detach().numpy(), expected, rtol=0, atol=1e-12 * max(1, np.abs(expected).max())
    )


def same_gradients(function, peer, array):
    """Values, gradients of a weighted sum, and gradients of a sum of squares of those."""
    (x, tx), rng = both(array), np.random.default_rng(1)
    y, ty = function(x), peer(tx)
    agree(y, ty)
    # a weight that itself depends on y, so that a second gradient exists
    w = rng.standard_normal(ty.shape)
    tw, w = torch.tensor(w), grilly.asarray(w, dtype=grilly.float64)
    (tg,) = torch.autograd.grad((tw * _size(torch, ty)).sum(), tx, create_graph=True)
    (g,) = grilly.grad((w * _size(grilly, y)).sum(), [x], create_graph=True)
    agree(g, tg)
    (tgg,) = torch.autograd.grad(_size(torch, tg).sum(), tx)
    (gg,) = grilly.grad(_size(grilly, g).sum(), [x])
    agree(gg, tgg)


def _size(module, x):
    """The fourth power of the size, or of the number."""
    parts = (module.real(x), module.imag(x)) if "complex" in str(x.dtype) else (x,)
    square = sum(p * p for p in parts)
    return square * square


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n, axis", [(None, -1), (5, 0), (12, 1), (1, 2)])
def test_one_axis(name, norm, n, axis):
    def of(module, **how):
        return lambda x: getattr(module.fft, name)(x, n=n, norm=norm, **how)

    same_gradients(of(grilly, axis=axis), of(torch, dim=axis), data(name))
    x, _ = both(data(name))
    agree(of(grilly, dim=axis)(x), of(grilly, axis=axis)(x))


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    "s, axes", [(None, None), ((5, 8), (0, 2)), ((4, -1), (2, 1)), (None, (1, 0)), ((7, 3), None)]
)
def test_several_axes(name, norm, s, axes):
    how = {"norm": norm} if s is None else {"norm": norm, "s": s}

    def of(module, key):
        chosen = how if axes is None else {**how, key: axes}
        return lambda x: getattr(module.fft, name)(x, **chosen)

    same_gradients(of(grilly, "axes"), of(torch, "dim"), data(name))


@pytest.mark.parametrize("name", ["fftn", "rfftn"])
def test_one_of_three_axes(name):
    same_gradients(
        lambda x: getattr(grilly.fft, name)(x, axes=1),
        lambda x: getattr(torch.fft, name)(x, dim=1),
        data(name),
    )


@pytest.mark.parametrize("n", [1, 2, 3, 16, 17, 97, 360, 1009, 4096])
def test_lengths_in_single_precision(n):
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((2, n)) + 1j * rng.standard_normal((2, n))).astype(np.complex64)
    y = grilly.fft.fft(x)
    assert y.dtype is grilly.complex64
    expected = np.fft.fft(x.astype(np.complex128))
    assert np.abs(y.numpy() - expected).max() <= 6e-8 * (2 + np.log2(n)) * np.abs(expected).max()
    np.testing.assert_allclose(grilly.fft.ifft(y).numpy(), x, atol=2e-6)


@pytest.mark.parametrize("n", [7, 8, 64, 1000])
def test_real_round_trip_keeps_odd_lengths(n):
    x = np.random.default_rng(n).standard_normal((3, n)).astype(np.float32)
    np.testing.assert_allclose(grilly.fft.irfft(grilly.fft.rfft(x), n=n).numpy(), x, atol=1e-5)
    y = grilly.fft.irfftn(grilly.fft.rfftn(x), s=x.shape)
    np.testing.assert_allclose(y.numpy(), x, atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(name, n):
    ours, peer = getattr(grilly.fft, name), getattr(np.fft, name)
    np.testing.assert_array_equal(ours(n, d=0.5, dtype=grilly.float64).numpy(), peer(n, 0.5))
    assert ours(n).dtype is grilly.float32


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
@pytest.mark.parametrize("axes", [None, 1, (0, 2)])
def test_shifts(name, axes):
    x = np.arange(4 * 5 * 3).reshape(4, 5, 3)
    expected = getattr(np.fft, name)(x, axes)
    np.testing.assert_array_equal(getattr(grilly.fft, name)(x, axes=axes).numpy(), expected)
    np.testing.assert_array_equal(getattr(grilly.fft, name)(x, dim=axes).numpy(), expected)


def test_types():
    assert grilly.fft.fft(np.arange(4)).dtype is grilly.complex64
    assert grilly.fft.fft(np.ones(4, np.float16)).dtype is grilly.complex64
    assert grilly.fft.rfft(grilly.ones(4, dtype=grilly.float64)).dtype is grilly.complex128
    assert grilly.fft.irfft(grilly.ones(4)).dtype is grilly.float32


def test_errors_help():
    x = np.ones((2, 3), np.float32)
    for call, error, word in (
        (lambda: grilly.fft.fft(x, norm="orthogonal"), ValueError, "norm"),
        (lambda: grilly.fft.fft(x, n=0), ValueError, "at least 1"),
        (lambda: grilly.fft.irfft(x[:, :1]), ValueError, "at least 1"),
        (lambda: grilly.fft.rfft(x + 1j), TypeError, "real"),
        (lambda: grilly.fft.fft(x, axis=0, dim=1), TypeError, "same"),
        (lambda: grilly.fft.fft2(x, axes=(0, 1), dim=(1, 0)), TypeError, "same"),
        (lambda: grilly.fft.fftn(x, axes=(1, 1)), ValueError, "twice"),
        (lambda: grilly.fft.fftn(x, s=(2,), axes=(0, 1)), ValueError, "sizes"),
        (lambda: grilly.fft.fft(x, axis=2), IndexError, "axis"),
        (lambda: grilly.fft.rfftn(np.float32(1)), ValueError, "at least one axis"),
    ):
        with pytest.raises(error, match=word):
            call()


def test_the_names_are_those_of_the_array_api_and_of_pytorch():
    transforms = ["fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn", "hfft", "ihfft"]
    standard = {*transforms, "fftfreq", "rfftfreq", "fftshift", "ifftshift"}
    assert standard < set(dir(grilly.fft))
    hermitian = {"hfft2", "hfftn", "ihfft2", "ihfftn"}
    assert set(dir(grilly.fft)) - standard == {"fft2", "ifft2", "rfft2", "irfft2"} | hermitian
    assert all(hasattr(torch.fft, name) for name in dir(grilly.fft))
    for name in transforms:
        expected = ["s", "axes"] if name.endswith("n") else ["n", "axis"]
        assert list(inspect.signature(getattr(grilly.fft, name)).parameters)[1:4] == [*expected, "norm"]
