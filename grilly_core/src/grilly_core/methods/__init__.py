"""The methods of `Tensor`, named and defaulted as in PyTorch.

`axis` and `keepdims` are accepted beside `dim` and `keepdim`.
"""

from grilly_core.methods.base import ValuesIndices
from grilly_core.methods.elementwise import ElementwiseMethods
from grilly_core.methods.mixtures import MixtureMethods
from grilly_core.methods.reduce import ReduceMethods
from grilly_core.methods.shape import ShapeMethods
from grilly_core.methods.statistics import StatisticsMethods
from grilly_core.methods.write import WriteMethods

__all__ = ["TensorMethods", "ValuesIndices"]


class TensorMethods(
    ShapeMethods, ReduceMethods, StatisticsMethods, ElementwiseMethods, MixtureMethods, WriteMethods
):
    """Everything a tensor can be asked that is an op."""

    __slots__ = ()
