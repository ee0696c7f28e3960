"""Learning rules as functions: Fisher information, elastic weight consolidation, natural gradient, NLMS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grilly_core.errors import ShapeError
from grilly_core.functional._arguments import TensorLike, reduced, tensor
from grilly_core.ops import learning as ops
from grilly_core.ops import nn as nn_ops
from grilly_core.ops.structure import stack
from grilly_core.tensor import Tensor

__all__ = [
    "ewc_gradient", "ewc_penalty", "fisher_info", "fisher_normalize", "natural_gradient", "nlms_ensemble",
    "nlms_metrics", "nlms_predict", "nlms_update",
]  # fmt: skip


def fisher_info(
    gradients: TensorLike,
    fisher: TensorLike,
    momentum: float = 0.9,
    use_ema: bool = True,
    reset: bool = False,
) -> Tensor:
    """Diagonal Fisher information after one more gradient.

    Parameters
    ----------
    gradients, fisher : array_like
        Of one shape.
    momentum : float
        Share of the old information that a moving average keeps; without `use_ema` it has no part.
    use_ema : bool
        ``momentum * F + (1 - momentum) * g**2``; else the sum ``F + g**2``.
    reset : bool
        Begin anew with ``g**2``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> f = grilly.functional.fisher_info
    >>> round(f(grilly.tensor([2.0]), grilly.tensor([1.0]), momentum=0.5).item(), 4)
    2.5
    >>> f(grilly.tensor([2.0]), grilly.tensor([1.0]), use_ema=False).item()
    5.0
    """
    if not 0.0 <= momentum <= 1.0:
        raise ValueError(f"fisher_info: momentum must be from 0 to 1; received {momentum}.")
    g = tensor(gradients)
    return ops.fisher_info(g, tensor(fisher, like=g), momentum=momentum, use_ema=use_ema, reset=reset)


def fisher_normalize(
    fisher: TensorLike, mode: str = "sum", count: float | None = None, eps: float = 1e-8
) -> Tensor:
    """Scale Fisher information.

    Parameters
    ----------
    fisher : array_like
    mode : {"sum", "count"}
        ``"sum"``: elements sum to 1 (their sum counts as at least `eps`); ``"count"``: ``fisher / count + eps``.
    count : float, optional
        How many gradients were summed; only for ``"count"``, which needs it.
    eps : float

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.fisher_normalize(grilly.tensor([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    f = tensor(fisher)
    if mode == "sum" and count is None:
        return f / f.sum().clamp(min=eps)
    if mode == "count" and count is not None and count > 0:
        return f / count + eps
    raise ValueError(
        "fisher_normalize: expected mode 'sum' without a count, or 'count' with a positive one; received "
        f"mode={mode!r}, count={count}."
    )


Parameters = Any  #: one tensor, or a sequence or mapping of them


def _parts(value: Parameters) -> list[Any] | None:
    """Return the tensors of a sequence or mapping of them, None for one tensor."""
    if isinstance(value, Mapping):
        return [value[k] for k in sorted(value)]
    if isinstance(value, Sequence) and value and all(hasattr(v, "shape") for v in value):
        return list(value)
    return None


def _triples(current: Parameters, important: Parameters, fisher: Parameters, name: str) -> list[Any]:
    """Return (current, important, fisher) for each tensor."""
    lists = [_parts(v) for v in (current, important, fisher)]
    if all(part is None for part in lists):
        return [(current, important, fisher)]
    sizes = [None if part is None else len(part) for part in lists]
    kinds = [sorted(v) if isinstance(v, Mapping) else None for v in (current, important, fisher)]
    if len(set(sizes)) > 1 or any(k != kinds[0] for k in kinds):
        raise ShapeError(
            f"{name}: expected three tensors, three lists of equal length or three mappings with the same keys; "
            f"received {sizes} tensors."
        )
    return list(zip(*[part for part in lists if part is not None], strict=True))


def ewc_penalty(
    current_params: Parameters,
    important_params: Parameters,
    fisher: Parameters,
    lambda_ewc: float = 1.0,
    reduction: str = "sum",
) -> Any:
    """Elastic weight consolidation (Kirkpatrick et al. 2017): ``lambda / 2 * sum F (p - p*)**2``.

    Parameters
    ----------
    current_params, important_params, fisher : array_like, or sequences or mappings of them
        What the parameters are, what they were after the earlier task, and how much each matters to that.
    lambda_ewc : float
    reduction : {"sum", "none"}
        ``"none"`` gives every element's penalty, a list of tensors if lists or mappings are given (sorted by key).

    Examples
    --------
    >>> import grilly_core as grilly
    >>> p, old, f = grilly.tensor([1.0, 2.0]), grilly.zeros(2), grilly.tensor([1.0, 0.5])
    >>> grilly.functional.ewc_penalty(p, old, f, lambda_ewc=2.0).item()
    3.0
    """
    if reduction not in ("sum", "none"):
        raise ValueError(f"reduction: expected 'sum' or 'none'; received {reduction!r}.")
    found = []
    for p, old, f in _triples(current_params, important_params, fisher, "ewc_penalty"):
        x = tensor(p)
        found.append(ops.ewc_penalty(x, tensor(old, like=x), tensor(f, like=x), lambda_ewc=float(lambda_ewc)))
    if reduction == "none":
        return found[0] if _parts(current_params) is None else found
    total = reduced(found[0], "sum")
    for more in found[1:]:
        total = total + more.sum()
    return total


def ewc_gradient(
    current_params: TensorLike, important_params: TensorLike, fisher: TensorLike, lambda_ewc: float = 1.0
) -> Tensor:
    """Gradient of `ewc_penalty` for one tensor of parameters: ``lambda * F * (p - p*)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.ewc_gradient(grilly.tensor([3.0]), grilly.tensor([1.0]), grilly.tensor([0.5])).item()
    1.0
    """
    x = tensor(current_params)
    old, f = tensor(important_params, like=x), tensor(fisher, like=x)
    return ops.ewc_gradient(x, old, f, lambda_ewc=float(lambda_ewc))


def natural_gradient(gradients: TensorLike, fisher: TensorLike, eps: float = 1e-8) -> Tensor:
    """Gradient in the metric of a diagonal Fisher matrix: ``g / (F + eps)``.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.natural_gradient(grilly.tensor([1.0]), grilly.tensor([4.0])).item()
    0.25
    """
    g = tensor(gradients)
    return ops.natural_gradient(g, tensor(fisher, like=g), learning_rate=1.0, epsilon=float(eps))


def nlms_predict(x: TensorLike, w: TensorLike, bias: TensorLike = 0.0) -> Tensor:
    """Linear prediction ``x . w + bias`` of each row.

    Parameters
    ----------
    x : array_like, (B, D) or (D,)
    w : array_like, (D,)
    bias : float or array_like, ()

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.nlms_predict(grilly.tensor([[1.0, 2.0]]), grilly.tensor([3.0, 4.0]), 0.5).tolist()
    [11.5]
    """
    rows = tensor(x)
    weights = tensor(w, like=rows)
    if rows.ndim not in (1, 2) or tuple(weights.shape) != tuple(rows.shape[-1:]):
        raise ShapeError(
            "nlms_predict: expected x (B, D) or (D,) and weights (D,); received shapes "
            f"{tuple(rows.shape)} and {tuple(weights.shape)}."
        )
    return rows @ weights + tensor(bias, like=rows)


def nlms_update(
    x: TensorLike,
    y_true: TensorLike,
    w: TensorLike,
    bias: TensorLike,
    mu: float = 0.5,
    eps: float = 1e-6,
    *,
    batch: str = "mean",
) -> tuple[Tensor, Tensor]:
    """One step of normalised least mean squares: ``w += mu e x / (eps + |x|**2)`` for the error e of the prediction.

    Parameters
    ----------
    x : array_like, (D,) or (B, D)
    y_true : array_like, () or (B,)
    w : array_like, (D,)
    bias : float or array_like, ()
        Moves by ``mu e / (eps + |x|**2)``.
    mu : float
        Stable between 0 and 2.
    eps : float
    batch : {"mean", "sequence"}
        All rows at once, each with the mean of their steps, or one row after the other.

    Returns
    -------
    w : Tensor, (D,)
    bias : Tensor, ()

    Examples
    --------
    >>> import grilly_core as grilly
    >>> w, b = grilly.functional.nlms_update([3.0, 4.0], 5.0, grilly.zeros(2), 0.0, mu=1.0, eps=0.0)
    >>> [round(v, 4) for v in w.tolist()], round(b.item(), 4)
    ([0.6, 0.8], 0.2)
    """
    if not 0.0 < mu < 2.0:
        raise ValueError(f"nlms_update: mu must be between 0 and 2; received {mu}.")
    if batch not in ("mean", "sequence"):
        raise ValueError(f"nlms_update: batch must be 'mean' or 'sequence'; received {batch!r}.")
    rows = tensor(x)
    y, weights, b = (tensor(v, dtype=rows.dtype, like=rows) for v in (y_true, w, bias))
    parts = [(rows, y)]
    if batch == "sequence" and rows.ndim == 2:
        parts = [(rows[i], y[i]) for i in range(rows.shape[0])]
    for row, wanted in parts:
        weights, b, _, _ = ops.nlms_update(
            row, nlms_predict(row, weights, b), wanted, weights, b, learning_rate=mu, epsilon=eps
        )
    return weights, b


def nlms_ensemble(
    x: TensorLike,
    weights_list: Any,
    biases_list: Any,
    rmse: TensorLike | None = None,
    temperature: float = 1.0,
    combine: bool = False,
) -> Any:
    """Predictions of several linear experts, and if wanted their combination.

    Parameters
    ----------
    x : array_like, (D,) or (B, D)
    weights_list : array_like, (E, D), or E vectors
    biases_list : array_like, (E,), or E numbers
    rmse : array_like, (E,), optional
        Error of each expert; `combine` needs it, and it is for nothing else.
    temperature : float
    combine : bool
        Weigh the experts by ``softmax(-rmse / temperature)``.

    Returns
    -------
    predictions : Tensor, (E,) or (B, E)
        With `combine`, a tuple of the combination ``()`` or ``(B,)``, the gate ``(E,)`` and the predictions.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.nlms_ensemble([1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]], [0.0, 1.0]).tolist()
    [1.0, 3.0]
    """
    rows = tensor(x)
    w, b = _stacked(weights_list, rows), _stacked(biases_list, rows)
    if w.ndim != 2 or rows.ndim not in (1, 2) or w.shape[1] != rows.shape[-1] or b.shape != w.shape[:1]:
        raise ShapeError(
            "nlms_ensemble: expected x (B, D) or (D,), weights (E, D) and biases (E,); received shapes "
            f"{tuple(rows.shape)}, {tuple(w.shape)} and {tuple(b.shape)}."
        )
    if combine != (rmse is not None):
        raise ValueError("nlms_ensemble: combine=True needs rmse, and rmse is only for combine=True.")
    predictions = rows @ w.T + b
    if rmse is None:
        return predictions
    if not temperature > 0:
        raise ValueError(f"nlms_ensemble: temperature must be positive; received {temperature}.")
    gate = nn_ops.softmax(tensor(rmse, like=rows) / -temperature, axis=-1)
    return (predictions * gate).sum(dim=-1), gate, predictions


def _stacked(values: Any, like: Tensor) -> Tensor:
    if isinstance(values, list | tuple) and any(isinstance(v, Tensor) for v in values):
        whole: Tensor = stack([tensor(v, like=like) for v in values], axis=0)
        return whole
    return tensor(values, like=like)


def nlms_metrics(errors: TensorLike, update_count: int) -> dict[str, float]:
    """Root mean square and mean absolute value of errors, with the number of updates; 0 without errors.

    Examples
    --------
    >>> import grilly_core as grilly
    >>> grilly.functional.nlms_metrics([3.0, -4.0], 2)["mae"]
    3.5
    """
    e = tensor(errors).detach()
    if e.numel() == 0:
        return {"rmse": 0.0, "mae": 0.0, "update_count": update_count}
    return {
        "rmse": (e * e).mean().sqrt().item(), "mae": e.abs().mean().item(), "update_count": update_count,
    }  # fmt: skip
