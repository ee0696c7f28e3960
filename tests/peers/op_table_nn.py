"""Which function of grilly answers which name of ``torch.nn.functional``: the same name and signature."""

from __future__ import annotations

from typing import Any

import torch
from tests.peers.op_samples import Entry

import grilly

F: Any = grilly.functional

SAME = """
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
    adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear binary_cross_entropy
    binary_cross_entropy_with_logits celu channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d cosine_embedding_loss cosine_similarity cross_entropy ctc_loss elu
    gaussian_nll_loss gelu glu grid_sample group_norm hardshrink hardsigmoid hardswish hardtanh
    hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss layer_norm leaky_relu linear
    local_response_norm logsigmoid margin_ranking_loss max_pool1d max_pool2d max_pool3d max_unpool1d
    max_unpool2d max_unpool3d mish mse_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss
    nll_loss normalize one_hot pad pairwise_distance pdist pixel_shuffle pixel_unshuffle poisson_nll_loss prelu
    relu relu6 rms_norm scaled_dot_product_attention selu silu smooth_l1_loss soft_margin_loss softmin softplus
    softshrink softsign tanhshrink threshold triplet_margin_loss
    upsample_bilinear upsample_nearest unfold
"""
RANDOM = """
    alpha_dropout dropout dropout2d dropout3d feature_alpha_dropout fractional_max_pool2d fractional_max_pool3d
    rrelu
"""


def same(name: str) -> Any:
    """The function of that name."""
    return lambda *a, **k: getattr(F, name)(*a, **k)


def legacy(x: Any, a: Any, k: Any) -> bool:
    """Whether a loss is asked for with the arguments that `reduction` has replaced."""
    return k.get("reduce") is not None or k.get("size_average") is not None


def is_complex(x: Any, a: Any, k: Any) -> bool:
    """Whether the input is complex."""
    return isinstance(x, torch.Tensor) and x.is_complex()


LEGACY = (legacy, "size_average and reduce, which reduction has replaced")
COMPLEX = (is_complex, "complex input")
SPARSE = ((lambda x, a, k: k.get("sparse", False), "sparse gradients"),)
REVIEWED: dict[str, Any] = {
    "pad": ((lambda x, a, k: len(a) > 1 and a[1] != "constant" and min(a[0]) < 0, "cropping with mode"),),
    "prelu": ((lambda x, a, k: x.ndim == 0, "one weight for a 0-d input"),),
    "scaled_dot_product_attention": ((lambda x, a, k: k.get("dropout_p", 0) > 0, "random values: dropout"),),
    "batch_norm": ((lambda x, a, k: x.ndim == 1, "one axis, not (N, C, ...)"),),
    "feature_alpha_dropout": ((lambda x, a, k: x.ndim < 2, "one axis, not (N, C, ...)"),),
    "fractional_max_pool2d": ((lambda x, a, k: x.numel() == 0, "an empty batch"),),
    "fractional_max_pool3d": ((lambda x, a, k: x.numel() == 0, "an empty batch"),),
}


def looked_up(name: str) -> Any:
    """An embedding: PyTorch's samples give the table first."""
    return lambda weight, ids, *a, **k: getattr(F, name)(ids, weight, *a, **k)


def with_own_distance(*tensors: Any, distance_function: Any, **options: Any) -> Any:
    """The samples' distance is a module of PyTorch and takes only its tensors: ours of that name stands for it."""
    made = getattr(grilly.nn, type(distance_function).__name__)()
    return F.triplet_margin_with_distance_loss(*tensors, distance_function=made, **options)


ENTRIES = {
    "nn.functional.triplet_margin_with_distance_loss": Entry(with_own_distance, tol=1e-4),
    **{
        f"nn.functional.{n}": Entry(same(n), tol=1e-4, reviewed=(LEGACY, COMPLEX, *REVIEWED.get(n, ())))
        for n in SAME.split()
        if hasattr(F, n)
    },
    **{
        f"nn.functional.{n}": Entry(
            same(n), compare="shapes", reason="random values", reviewed=REVIEWED.get(n, ())
        )
        for n in RANDOM.split()
        if hasattr(F, n)
    },
    **{
        f"nn.functional.{n}": Entry(looked_up(n), tol=1e-4, reviewed=SPARSE)
        for n in ("embedding", "embedding_bag")
        if hasattr(F, n)
    },
    **{
        n: Entry(
            lambda x, dim, dtype=None, _n=n: getattr(F, _n)(x if dtype is None else x.to(dtype), dim=dim),
        )
        for n in ("softmax", "log_softmax")
    },
}
