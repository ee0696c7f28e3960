"""Learning one task after another: Fisher information of a model, and elastic weight consolidation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from grilly_core import autograd
from grilly_core.apply import as_tensor
from grilly_core.config import enable_grad, no_grad
from grilly_core.functional.activations import log_softmax
from grilly_core.functional.learning import ewc_penalty
from grilly_core.functional.losses import nll_loss
from grilly_core.nn.module import Module
from grilly_core.ops.creation import zeros_like
from grilly_core.ops.random import multinomial, randn
from grilly_core.random import Generator
from grilly_core.tensor import Tensor

__all__ = ["EWC", "fisher_diagonal"]


def fisher_diagonal(
    model: Module,
    data: Iterable[Any],
    *,
    kind: str = "empirical",
    likelihood: str = "categorical",
    rng: Generator | None = None,
) -> dict[str, Tensor]:
    """Diagonal of the Fisher information of a model's parameters: the mean of squared gradients of single samples.

    The model runs in evaluation mode, one sample at a time, since squares of sums are not sums of squares.

    Parameters
    ----------
    model : Module
    data : iterable
        Batches of inputs ``(N, ...)``, or pairs of inputs and targets. ``"empirical"`` needs the targets.
    kind : {"empirical", "sampled"}
        Gradients of the targets' log-likelihood, or of that of targets drawn from the model's own distribution, which
        is the Fisher information proper (Kunstner et al. 2019).
    likelihood : {"categorical", "gaussian"}
        Outputs are logits of classes, or means of normal variables with variance 1.
    rng : Generator, optional
        For drawing targets.

    Returns
    -------
    dict of str to Tensor
        For each parameter that requires grad, by name.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> model = grilly.nn.Linear(1, 1, bias=False)
    >>> grilly.nn.init.ones_(model.weight)
    Parameter(tensor([[1.]], requires_grad=True))
    >>> x, y = grilly.tensor([[1.0], [2.0]]), grilly.tensor([[0.0], [0.0]])
    >>> grilly.nn.utils.fisher_diagonal(model, [(x, y)], likelihood="gaussian")["weight"].item()
    8.5
    """
    if kind not in ("empirical", "sampled"):
        raise ValueError(f"fisher_diagonal: kind must be 'empirical' or 'sampled'; received {kind!r}.")
    if likelihood not in ("categorical", "gaussian"):
        raise ValueError(
            f"fisher_diagonal: likelihood must be 'categorical' or 'gaussian'; received {likelihood!r}."
        )
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    totals = {name: zeros_like(p.detach()) for name, p in named.items()}
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    count = 0
    try:
        for x, y in _samples(data, kind):
            grads = _score(model, list(named.values()), x, y, likelihood, rng)
            for name, g in zip(named, grads, strict=True):
                if g is not None:
                    totals[name] = totals[name] + g * g
            count += 1
    finally:
        for module, mode in modes:
            module.training = mode
    if not count:
        raise ValueError("fisher_diagonal: data has no samples.")
    return {name: total / count for name, total in totals.items()}


def _samples(data: Iterable[Any], kind: str) -> Iterable[tuple[Tensor, Tensor | None]]:
    """Yield single samples, each as a batch of one."""
    for batch in data:
        pair = isinstance(batch, tuple | list) and len(batch) == 2
        if kind == "empirical" and not pair:
            raise TypeError("fisher_diagonal: kind='empirical' needs pairs of inputs and targets.")
        xs = as_tensor(batch[0] if pair else batch)
        ys = as_tensor(batch[1], xs) if kind == "empirical" else None
        for i in range(xs.shape[0]):
            yield xs[i : i + 1], None if ys is None else ys[i : i + 1]


def _score(
    model: Module, params: list[Tensor], x: Tensor, y: Tensor | None, likelihood: str, rng: Generator | None
) -> tuple[Tensor | None, ...]:
    """Gradients of the negative log-likelihood of one sample."""
    with enable_grad():
        out = model(x)
        if likelihood == "categorical":
            logp = log_softmax(out, dim=-1)
            rows = logp.reshape(-1, logp.shape[-1])
            if y is None:
                y = multinomial(rows.detach().exp(), 1, rng=rng)
            loss = nll_loss(rows, y.reshape(-1), reduction="sum")
        else:
            if y is None:
                y = out.detach() + randn(*out.shape, dtype=out.dtype, device=out.device, rng=rng)
            loss = 0.5 * ((out - y) * (out - y)).sum()
        return tuple(autograd.grad(loss, params, allow_unused=True))


class EWC:
    """Elastic weight consolidation (Kirkpatrick et al. 2017): what mattered to earlier tasks is held in place.

    Parameters
    ----------
    model : Module
        Trained on the first task.
    dataset_fn : callable
        Takes nothing and returns the batches of the task that was learnt last, as `fisher_diagonal` takes them.
    lambda_ewc : float
    kind, likelihood, rng
        As `fisher_diagonal` takes them.

    Attributes
    ----------
    fisher : dict of str to Tensor
    optimal : dict of str to Tensor
        The parameters when the Fisher information was taken.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> model, x = grilly.nn.Linear(3, 2), grilly.randn(4, 3)
    >>> ewc = grilly.nn.utils.EWC(model, lambda: [(x, grilly.tensor([0, 1, 0, 1]))])
    >>> ewc.penalty().item()
    0.0
    """

    def __init__(
        self,
        model: Module,
        dataset_fn: Callable[[], Iterable[Any]],
        lambda_ewc: float = 1000.0,
        *,
        kind: str = "empirical",
        likelihood: str = "categorical",
        rng: Generator | None = None,
    ) -> None:
        self.model = model
        self.dataset_fn = dataset_fn
        self.lambda_ewc = lambda_ewc
        self._how: Mapping[str, Any] = {"kind": kind, "likelihood": likelihood, "rng": rng}
        self.fisher: dict[str, Tensor] = {}
        self.optimal: dict[str, Tensor] = {}
        self.consolidate(0.0)

    def consolidate(self, keep: float = 1.0) -> None:
        """Hold the parameters where they are now, after another task was learnt.

        Parameters
        ----------
        keep : float
            Share of the earlier tasks' information that is added to the new one's.
        """
        new = fisher_diagonal(self.model, self.dataset_fn(), **self._how)
        self.fisher = {
            n: f + keep * self.fisher[n] if keep and n in self.fisher else f for n, f in new.items()
        }
        with no_grad():
            self.optimal = {n: p.detach().clone() for n, p in self.model.named_parameters() if n in new}

    def penalty(self) -> Tensor:
        """Return ``lambda / 2 * sum F (p - p*)**2``, to be added to the loss of the next task."""
        current = {n: p for n, p in self.model.named_parameters() if n in self.fisher}
        total: Tensor = ewc_penalty(current, self.optimal, self.fisher, self.lambda_ewc)
        return total
