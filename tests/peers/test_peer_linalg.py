"""Gradients of linear algebra and of special functions against PyTorch 2.13, in float64 to 1e-8."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import grilly

L, T = grilly.linalg, torch.linalg


def matrices(m, n, batch=2, seed=0, definite=False, imaginary=False):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((batch, m, n))
    if imaginary:
        x = x + 1j * rng.standard_normal((batch, m, n))
    return x @ np.swapaxes(x, -1, -2).conj() + np.eye(m) if definite else x


def same_gradients(mine, theirs, *arrays, tol=1e-8):
    """A weighted sum of all results, with equal weights on both sides, has equal gradients."""
    ours = [
        grilly.tensor(
            a,
            dtype=grilly.complex128 if np.iscomplexobj(a) else grilly.float64,
            device="cpu",
            requires_grad=True,
        )
        for a in arrays
    ]
    peers = [torch.tensor(a, requires_grad=True) for a in arrays]
    found, expected = mine(*ours), theirs(*peers)
    found = found if isinstance(found, tuple) else (found,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    total, wanted = 0.0, 0.0
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tol, atol=tol)
        weight = np.random.default_rng(i).standard_normal(a.shape)
        a, b = (a.real, b.real) if a.dtype.is_complex else (a, b)
        total = total + (a * grilly.asarray(weight, dtype=grilly.float64, device="cpu")).sum()
        wanted = wanted + (b * torch.tensor(weight)).sum()
    total.backward()
    wanted.backward()
    for a, b in zip(ours, peers, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.resolve_conj().numpy(), rtol=tol, atol=tol)


def projector(u, s, vh):
    """What of singular vectors does not depend on their signs."""
    return s, (u * s[..., None, :] ** 2) @ u.mH, vh.mH @ (s[..., :, None] ** 3 * vh)


def reduced(lib):
    return lambda x: projector(*lib.svd(x, full_matrices=False))


def eigh(lib):
    """What of the eigenvectors does not depend on their signs."""

    def call(x):
        w, v = lib.eigh(x)
        return w, (v * w[..., None, :] ** 2) @ v.mT

    return call


def eig(lib):
    def call(x):
        w, v = lib.eig(x)
        return (v * w[..., None, :] ** 2) @ lib.inv(v)

    return call


def both(call):
    """The same call of both libraries."""
    return call(L), call(T)


CASES = {
    "cholesky": (*both(lambda lib: lib.cholesky), [matrices(3, 3, definite=True)]),
    "cholesky complex": (
        *both(lambda lib: lambda x: lib.cholesky((x + x.mH) / 2)), [matrices(3, 3, definite=True, imaginary=True)]
    ),
    "qr tall": (*both(lambda lib: lib.qr), [matrices(4, 3)]),
    "qr wide": (*both(lambda lib: lib.qr), [matrices(2, 4)]),
    "svd tall": (*both(reduced), [matrices(4, 3)]),
    "svd wide": (*both(reduced), [matrices(3, 4)]),
    "svd complex": (*both(reduced), [matrices(4, 3, imaginary=True)]),
    "svdvals": (*both(lambda lib: lib.svdvals), [matrices(3, 3)]),
    "eigh": (*both(eigh), [matrices(3, 3, definite=True)]),
    "eig": (*both(eig), [matrices(3, 3)]),
    "eigvals": (*both(lambda lib: lambda x: (lib.eigvals(x) ** 3).sum(-1)), [matrices(3, 3)]),
    "inv": (*both(lambda lib: lib.inv), [matrices(3, 3)]),
    "inv complex": (*both(lambda lib: lib.inv), [matrices(3, 3, imaginary=True)]),
    "pinv tall": (*both(lambda lib: lib.pinv), [matrices(4, 2)]),
    "pinv wide": (*both(lambda lib: lib.pinv), [matrices(2, 4)]),
    "det": (*both(lambda lib: lib.det), [matrices(3, 3)]),
    "det complex": (*both(lambda lib: lib.det), [matrices(3, 3, imaginary=True)]),
    "slogdet": (*both(lambda lib: lambda x: lib.slogdet(x)[1]), [matrices(3, 3)]),
    "slogdet complex": (*both(lambda lib: lambda x: tuple(lib.slogdet(x))), [matrices(3, 3, imaginary=True)]),
    "solve": (*both(lambda lib: lib.solve), [matrices(3, 3), matrices(3, 2)]),
    "solve complex": (
        *both(lambda lib: lib.solve), [matrices(3, 3, imaginary=True), matrices(3, 2, imaginary=True)]
    ),
    "solve_triangular": (
        *both(lambda lib: lambda a, b: lib.solve_triangular(a, b, upper=True)),
        [matrices(3, 3) + 3 * np.eye(3), matrices(3, 2)],
    ),
    "lu": (*both(lambda lib: lambda x: tuple(lib.lu(x))[1:]), [matrices(4, 4)]),
    "matrix_exp": (*both(lambda lib: lib.matrix_exp), [3 * matrices(3, 3)]),
    "matrix_power": (*both(lambda lib: lambda x: lib.matrix_power(x, -3)), [matrices(3, 3, definite=True)]),
    "nuclear norm": (*both(lambda lib: lambda x: lib.matrix_norm(x, ord="nuc")), [matrices(3, 4)]),
    "cond": (*both(lambda lib: lib.cond), [matrices(3, 3)]),
    "multi_dot": (
        *both(lambda lib: lambda *parts: lib.multi_dot(parts)),
        [matrices(2, 5)[0], matrices(5, 3)[0], matrices(3, 1)[0]],
    ),
    "householder_product": (*both(lambda lib: lib.householder_product), [matrices(4, 3), matrices(2, 3)[0]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    mine, theirs, arrays = CASES[name]
    same_gradients(mine, theirs, *arrays)


def test_the_determinant_of_a_singular_matrix_has_its_gradient():
    x = np.array([[[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 5.0]]])
    same_gradients(L.det, T.det, x)


def test_second_derivatives_of_a_solution():
    a, b = matrices(3, 3)[0], matrices(3, 1)[0]

    def twice(lib, grad, ta, tb):
        (first,) = grad((lib.solve(ta, tb) ** 2).sum(), [ta], create_graph=True)
        (second,) = grad((first**2).sum(), [ta])
        return second

    ours = [grilly.tensor(v, dtype=grilly.float64, device="cpu", requires_grad=True) for v in (a, b)]
    peers = [torch.tensor(v, requires_grad=True) for v in (a, b)]
    mine, theirs = twice(L, grilly.grad, *ours), twice(T, torch.autograd.grad, *peers)
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-8)


SPECIAL = {
    "erf": (-3, 3), "erfc": (-3, 6), "erfinv": (-0.999, 0.999), "lgamma": (-3.7, 40), "digamma": (-3.7, 40),
    "i0": (-12, 12),
    "special.i0e": (-12, 12), "special.i1": (-12, 12), "special.i1e": (-12, 12), "special.ndtr": (-6, 6),
    "special.ndtri": (0.001, 0.999), "special.log_ndtr": (-20, 5), "special.erfcx": (-3, 20), "special.entr": (0.01, 5),
    "logit": (0.01, 0.99), "sinc": (-3, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_and_their_gradients(name):
    low, high = SPECIAL[name]
    x = np.random.default_rng(1).uniform(low, high, 200)
    mine, theirs = grilly, torch
    for part in name.split("."):
        mine, theirs = getattr(mine, part), getattr(theirs, part)
    same_gradients(mine, theirs, x, tol=2e-8)
