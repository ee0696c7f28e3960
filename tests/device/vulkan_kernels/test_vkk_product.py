"""Products inside of kernels, ``stream.product``, recorded at once and from a template; NumPy is the oracle."""

from __future__ import annotations

import numpy as np

from grilly_backend_vulkan.relocatable import Bound
from grilly_core.tensor import Tensor


def _product(stream, outs, ins, attrs):
    stream.product(outs[0], *ins, attrs.get("precision", "highest"))


def test_a_kernel_may_make_a_product_of_views_with_strides(vk):
    stream, rng = vk.context.runtime.stream, np.random.default_rng(0)
    a, b = rng.standard_normal((70, 40)).astype(np.float32), rng.standard_normal((300, 40)).astype(np.float32)
    bound = Bound(_product)
    for kernel in (_product, bound, bound):  # made, observed, repeated
        for some in (slice(0, 300), slice(20, 290, 3)):
            left, right = vk.put(a), vk.put(b)[some].T
            out = vk.put(np.full((70, right.shape[1]), np.nan, np.float32))
            kernel(stream, [out._value], [left._value, right._value], {})
            np.testing.assert_allclose(Tensor(out._value).numpy(), a @ b[some].T, rtol=1e-4, atol=1e-4)
