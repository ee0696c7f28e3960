"""Fisher information, elastic weights, NLMS and whitening; the oracle of each test is the formula, in NumPy's float64.

What the first version of these functions did wrong (one output per backend, statistics of the first row, gradients of
the wrong sign, features that stay correlated) is a test of its own.
"""

from __future__ import annotations

import numpy as np
import pytest

import grilly_core as grilly
from grilly_core import nn

F = grilly.functional


def t64(array):
    return grilly.asarray(array, dtype="float64")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


class TestFisher:
    def test_information_is_gathered_three_ways(self, rng):
        g, f = rng.normal(size=(3, 4)), rng.uniform(size=(3, 4))
        cases = (
            ({}, 0.9 * f + 0.1 * g * g), ({"momentum": 0.25}, 0.25 * f + 0.75 * g * g),
            ({"use_ema": False}, f + g * g), ({"reset": True}, g * g),
        )  # fmt: skip
        for settings, want in cases:
            np.testing.assert_allclose(F.fisher_info(t64(g), t64(f), **settings).numpy(), want, rtol=1e-12)
        with pytest.raises(ValueError, match="momentum"):
            F.fisher_info(g, f, momentum=1.5)
        with pytest.raises(ValueError, match="one shape"):
            F.fisher_info(g, f[0])

    def test_scales(self):
        assert F.fisher_normalize([1.0, 3.0]).tolist() == [0.25, 0.75]
        assert F.fisher_normalize([0.0, 0.0]).tolist() == [0.0, 0.0]
        got = F.fisher_normalize(t64([2.0, 6.0]), "count", count=4, eps=0.5)
        assert got.tolist() == [1.0, 2.0]
        for wrong in ({"mode": "count"}, {"count": 3}, {"mode": "mean"}):
            with pytest.raises(ValueError, match="fisher_normalize"):
                F.fisher_normalize([1.0], **wrong)

    def test_natural_gradient_is_damped(self, rng):
        g, f = rng.normal(size=5), rng.uniform(0.1, 1, 5)
        np.testing.assert_allclose(
            F.natural_gradient(t64(g), t64(f), eps=0.1).numpy(), g / (f + 0.1), rtol=1e-12
        )

    @pytest.mark.parametrize("kind", ["empirical", "sampled"])
    def test_of_a_softmax_regression(self, rng, kind):
        """For logits Wx the gradient of a sample is (p - onehot(y)) x."""
        x, w = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
        y = rng.integers(0, 4, 6).astype(np.int32)
        model = nn.Linear(3, 4, bias=False, dtype="float64")
        with grilly.no_grad():
            model.weight.copy_(t64(w))
        z = np.exp(x @ w.T)
        p = z / z.sum(1, keepdims=True)
        eye = np.eye(4)
        of_class = (p[:, None, :] - eye[None]) ** 2  # (sample, class drawn, output)
        if kind == "empirical":
            want = of_class[np.arange(6), y][:, :, None] * x[:, None, :] ** 2
            got = nn.utils.fisher_diagonal(model, [(t64(x[:4]), y[:4]), (t64(x[4:]), y[4:])])
            np.testing.assert_allclose(got["weight"].numpy(), want.mean(0), rtol=1e-10)
        else:
            want = np.einsum("nc,nco->no", p, of_class)[:, :, None] * x[:, None, :] ** 2
            draws = [t64(x)] * 150
            got = nn.utils.fisher_diagonal(model, draws, kind="sampled", rng=grilly.Generator(3))
            np.testing.assert_allclose(got["weight"].numpy(), want.mean(0), rtol=0.25, atol=0.02)

    def test_of_a_gaussian_regression(self, rng):
        """Sampled: E (y - f)**2 x**2 = x**2; modes of training come back, frozen parameters have no entry."""
        x = rng.normal(size=(3, 2))
        model = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 1, dtype="float64"))
        model[1].bias.requires_grad_(False)
        model[0].eval()
        got = nn.utils.fisher_diagonal(
            model, [t64(x)] * 300, kind="sampled", likelihood="gaussian", rng=grilly.Generator(1)
        )
        assert list(got) == ["1.weight"]
        np.testing.assert_allclose(got["1.weight"].numpy()[0], (x**2).mean(0), rtol=0.2)
        assert [m.training for m in model.modules()] == [True, False, True]

    def test_what_is_refused(self):
        model = nn.Linear(1, 1)
        for data, kw, words in (
            ([], {}, "no samples"), ([np.ones((1, 1))], {}, "pairs"), ([], {"kind": "exact"}, "kind"),
            ([], {"likelihood": "poisson"}, "likelihood"),
        ):  # fmt: skip
            with pytest.raises((ValueError, TypeError), match=words):
                nn.utils.fisher_diagonal(model, data, **kw)


class TestElasticWeights:
    def test_penalty_and_gradient_belong_together(self, rng):
        """One name, one meaning: the sum, its elements and its gradient agree."""
        p, old, f = (rng.normal(size=(2, 3)) for _ in range(3))
        x = t64(p).requires_grad_()
        total = F.ewc_penalty(x, t64(old), t64(f), 3.0)
        np.testing.assert_allclose(total.item(), 1.5 * (f * (p - old) ** 2).sum(), rtol=1e-12)
        parts = F.ewc_penalty(t64(p), t64(old), t64(f), 3.0, reduction="none")
        np.testing.assert_allclose(parts.numpy(), 1.5 * f * (p - old) ** 2, rtol=1e-12)
        total.backward()
        by_hand = F.ewc_gradient(t64(p), t64(old), t64(f), 3.0)
        np.testing.assert_allclose(x.grad.numpy(), 3.0 * f * (p - old), rtol=1e-12)
        np.testing.assert_allclose(by_hand.numpy(), x.grad.numpy(), rtol=1e-12)

    def test_lists_and_mappings_are_summed(self, rng):
        ps, olds, fs = ([rng.normal(size=n) for n in (2, 3)] for _ in range(3))
        want = sum(0.5 * (f * (p - o) ** 2).sum() for p, o, f in zip(ps, olds, fs, strict=True))
        tensors = [[t64(v) for v in part] for part in (ps, olds, fs)]
        assert F.ewc_penalty(*tensors).item() == pytest.approx(want, rel=1e-12)
        named = [dict(zip("ab", part, strict=True)) for part in tensors]
        assert F.ewc_penalty(*named).item() == pytest.approx(want, rel=1e-12)
        assert [tuple(v.shape) for v in F.ewc_penalty(*named, reduction="none")] == [(2,), (3,)]
        with pytest.raises(ValueError, match="ewc_penalty"):
            F.ewc_penalty(tensors[0], tensors[1][:1], tensors[2])
        with pytest.raises(ValueError, match="reduction"):
            F.ewc_penalty(*tensors, reduction="mean")

    def test_an_earlier_task_is_kept(self, rng):
        """The minimum of task B with the penalty is where its gradient and EWC's cancel."""
        xa, xb = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [0.5, 1.0]])
        model = nn.Linear(2, 1, bias=False, dtype="float64")
        with grilly.no_grad():
            model.weight.copy_(t64([[2.0, 0.0]]))  # solves task A, y = 2 x0, with noise below
        ewc = nn.utils.EWC(model, lambda: [(t64(xa), t64([[1.0]]))], 50.0, likelihood="gaussian")
        np.testing.assert_allclose(ewc.fisher["weight"].numpy(), [[1.0, 0.0]])
        yb = np.array([[3.0], [0.0]])
        opt = grilly.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(3000):
            opt.zero_grad()
            out = model(t64(xb))
            loss = 0.5 * ((out - t64(yb)) ** 2).sum() + ewc.penalty()
            loss.backward()
            opt.step()
        hessian = xb.T @ xb + np.diag([50.0, 0.0])
        want = np.linalg.solve(hessian, xb.T @ yb[:, 0] + np.array([100.0, 0.0]))
        np.testing.assert_allclose(model.weight.detach().numpy()[0], want, rtol=1e-6)
        assert abs(want[0] - 2.0) < 0.1
        ewc.consolidate(keep=0.5)
        np.testing.assert_allclose(ewc.optimal["weight"].numpy()[0], want, rtol=1e-6)
        assert ewc.fisher["weight"].numpy()[0, 0] >= 0.5
        assert ewc.penalty().item() == 0.0


class TestNLMS:
    def test_update_is_haykins(self, rng):
        x, w, y, b = rng.normal(size=3), rng.normal(size=3), 1.5, 0.3
        error = y - (x @ w + b)
        got_w, got_b = F.nlms_update(t64(x), t64(y), t64(w), t64(b), mu=0.7, eps=0.1)
        np.testing.assert_allclose(got_w.numpy(), w + 0.7 * error * x / (0.1 + x @ x), rtol=1e-12)
        np.testing.assert_allclose(got_b.item(), b + 0.7 * error / (0.1 + x @ x), rtol=1e-12)

    def test_a_batch_is_a_mean_or_a_sequence(self, rng):
        x, y, w = rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=3)
        steps = [F.nlms_update(t64(r), t64(v), t64(w), 0.0) for r, v in zip(x, y, strict=True)]
        mean_w, mean_b = F.nlms_update(t64(x), t64(y), t64(w), 0.0)
        np.testing.assert_allclose(mean_w.numpy(), np.mean([s[0].numpy() for s in steps], axis=0), rtol=1e-12)
        np.testing.assert_allclose(mean_b.item(), np.mean([s[1].item() for s in steps]), rtol=1e-12)
        now = (t64(w), t64(0.0))
        for r, v in zip(x, y, strict=True):
            now = F.nlms_update(t64(r), t64(v), *now)
        got = F.nlms_update(t64(x), t64(y), t64(w), 0.0, batch="sequence")
        np.testing.assert_allclose(got[0].numpy(), now[0].numpy(), rtol=1e-12)
        np.testing.assert_allclose(got[1].item(), now[1].item(), rtol=1e-12)

    def test_it_learns_a_linear_system(self, rng):
        w, b = grilly.zeros(3), 0.0
        true = np.array([1.0, -2.0, 0.5])
        for _ in range(300):
            x = rng.normal(size=3).astype(np.float32)
            w, b = F.nlms_update(x, np.float32(x @ true + 0.25), w, b)
        np.testing.assert_allclose(w.numpy(), true, atol=1e-3)
        np.testing.assert_allclose(b.item(), 0.25, atol=1e-3)

    def test_experts_are_combined_by_their_errors(self, rng):
        """More than 64 experts, rows in a batch."""
        x, w, b, rmse = (rng.normal(size=s) for s in ((5, 3), (70, 3), 70, 70))
        predictions = x @ w.T + b
        got = F.nlms_ensemble(t64(x), t64(w), t64(b))
        np.testing.assert_allclose(got.numpy(), predictions, rtol=1e-10)
        one = F.nlms_ensemble(t64(x[0]), [t64(v) for v in w], [t64(v) for v in b])
        np.testing.assert_allclose(one.numpy(), predictions[0], rtol=1e-10)
        gate = np.exp(-rmse / 0.5) / np.exp(-rmse / 0.5).sum()
        mixed = F.nlms_ensemble(t64(x), t64(w), t64(b), t64(rmse), 0.5, combine=True)
        for value, want in zip(mixed, (predictions @ gate, gate, predictions), strict=True):
            np.testing.assert_allclose(value.numpy(), want, rtol=1e-9)
        with pytest.raises(ValueError, match="rmse"):
            F.nlms_ensemble(x, w, b, combine=True)

    def test_predictions_metrics_and_refusals(self):
        assert F.nlms_predict([[1.0, 2.0]], [3.0, 4.0]).tolist() == [11.0]
        assert F.nlms_metrics([3.0, -4.0], 7) == {
            "rmse": pytest.approx(12.5**0.5), "mae": 3.5, "update_count": 7,
        }  # fmt: skip
        assert F.nlms_metrics([], 0) == {"rmse": 0.0, "mae": 0.0, "update_count": 0}
        with pytest.raises(ValueError, match="between 0 and 2"):
            F.nlms_update([1.0], 1.0, [1.0], 0.0, mu=2.0)
        with pytest.raises(ValueError, match="weights"):
            F.nlms_predict([[1.0, 2.0]], [3.0])
        with pytest.raises(ValueError, match="batch"):
            F.nlms_update([1.0], 1.0, [1.0], 0.0, batch="random")


class TestWhitening:
    @pytest.mark.parametrize("method", ["pca", "zca", "cholesky"])
    def test_covariance_becomes_the_identity(self, rng, method):
        x = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4)) + 3.0
        out, mean, w = F.whitening_transform(t64(x), method=method, eps=0.0)
        np.testing.assert_allclose(np.cov(out.numpy().T, bias=True), np.eye(4), atol=1e-9)
        np.testing.assert_allclose(out.numpy().mean(0), 0.0, atol=1e-12)
        np.testing.assert_allclose(mean.numpy(), x.mean(0), rtol=1e-12)
        again, _, _ = F.whitening_transform(t64(x), mean, w)
        np.testing.assert_allclose(again.numpy(), out.numpy(), rtol=1e-12)

    def test_matrices_are_kessys(self, rng):
        """Table 1 of Kessy et al. 2018."""
        x = rng.normal(size=(50, 3)) @ rng.normal(size=(3, 3))
        c = np.cov(x.T, bias=True)
        values, axes = np.linalg.eigh(c)
        axes = axes * np.where(np.diag(axes) < 0, -1, 1)
        want = {
            "pca": np.diag(values**-0.5) @ axes.T, "zca": axes @ np.diag(values**-0.5) @ axes.T,
            "cholesky": np.linalg.inv(np.linalg.cholesky(c)),
        }  # fmt: skip
        for method, matrix in want.items():
            got = F.whitening_batch_stats(t64(x), method, eps=0.0)[1]
            np.testing.assert_allclose(got.numpy(), matrix, rtol=1e-7, atol=1e-9)

    def test_standardising_uses_all_rows(self, rng):
        x = rng.normal(size=(20, 3)) * 4 + 1
        out, mean, std = F.whitening_transform(t64(x))
        np.testing.assert_allclose(out.numpy(), (x - x.mean(0)) / x.std(0), rtol=1e-10)
        np.testing.assert_allclose(std.numpy(), x.std(0), rtol=1e-12)
        np.testing.assert_allclose(mean.numpy(), x.mean(0), rtol=1e-12)

    def test_a_constant_feature_is_finite_forward_and_back(self):
        x = grilly.tensor([[1.0, 2.0], [1.0, 4.0]]).requires_grad_()
        out, _, _ = F.whitening_transform(x)
        assert out.tolist() == [[0.0, -1.0], [0.0, 1.0]]
        (out * grilly.tensor([[1.0, 2.0], [3.0, 5.0]])).sum().backward()
        assert np.isfinite(x.grad.numpy()).all()

    @pytest.mark.parametrize("method", ["standardize", "zca", "cholesky"])
    def test_gradients_are_central_differences(self, rng, method):
        weights = t64(rng.normal(size=(6, 2)))

        def f(x):
            return (F.whitening_transform(x, method=method)[0] * weights).sum()

        assert grilly.gradcheck(f, (t64(rng.normal(size=(6, 2))).requires_grad_(),))

    def test_what_is_refused(self):
        x = np.ones((3, 2))
        with pytest.raises(ValueError, match="both"):
            F.whitening_transform(x, mean=[0.0, 0.0])
        with pytest.raises(ValueError, match="method"):
            F.whitening_batch_stats(x, "ica")
        with pytest.raises(ValueError, match="leave method out"):
            F.whitening_transform(x, [0.0, 0.0], [1.0, 1.0], method="pca")
        with pytest.raises(ValueError, match="whitening_apply"):
            F.whitening_apply(x, [0.0], [1.0, 1.0])


class TestComputeDoor:
    """The same rules from arrays to arrays."""

    def test_nlms_and_statistics(self, rng):
        x, w, y = (rng.normal(size=s).astype(np.float32) for s in ((4, 3), 3, 4))
        with grilly.Compute("cpu") as compute:
            prediction = x @ w
            got = compute.learning.nlms_update(x, prediction, y, w, np.float32(0.0), learning_rate=0.5)
            want, _ = F.nlms_update(x, y, w, 0.0)
            np.testing.assert_allclose(got[0], want.numpy(), rtol=1e-5)
            np.testing.assert_allclose(got[2], 0.5 * 0.99995, rtol=1e-6)
            np.testing.assert_allclose(got[3], y - prediction, rtol=1e-6)
            low = compute.learning.nlms_update(x, prediction, y, w, np.float32(0.0), learning_rate=0.1)
            assert low[2] == np.float32(0.1)
            out, mean, var = compute.learning.whitening_transform(x, np.zeros(3), np.ones(3), momentum=0.25)
            np.testing.assert_allclose(mean, 0.25 * x.mean(0), rtol=1e-5)
            np.testing.assert_allclose(var, 0.75 + 0.25 * x.var(0), rtol=1e-5)
            np.testing.assert_allclose(out, (x - mean) / np.sqrt(var + 1e-6), rtol=1e-5)

    @pytest.mark.parametrize("shared", [False, True])
    def test_contrastive_gradient_is_that_of_the_loss(self, rng, shared):
        """The oracle is the tape through `info_nce_loss`; the temperature changes the loss."""
        a, p = (rng.normal(size=(3, 4)).astype(np.float32) for _ in "ap")
        n = rng.normal(size=(5, 4) if shared else (3, 5, 4)).astype(np.float32)
        tensors = [grilly.asarray(v).requires_grad_() for v in (a, p, n)]
        loss = F.info_nce_loss(*tensors, temperature=0.5)
        loss.backward()
        with grilly.Compute("cpu") as compute:
            losses = compute.contrastive.contrastive_loss(a, p, n, temperature=0.5)
            grads = compute.contrastive.contrastive_gradient(a, p, n, temperature=0.5)
            assert not np.allclose(losses, compute.contrastive.contrastive_loss(a, p, n, temperature=0.07))
        np.testing.assert_allclose(losses.mean(), loss.item(), rtol=1e-5)
        for got, x in zip(grads, tensors, strict=True):
            np.testing.assert_allclose(got, x.grad.numpy(), rtol=1e-4, atol=1e-6)
