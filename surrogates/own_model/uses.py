"""The table of uses: the torch calls that keep the derivative of a comparison, an index or a cast, by name."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from surrogates.own_model import indices, masks, scattering, subscripts
from surrogates.own_model.use import Use

LIFTED: dict[Callable[[Use], Tensor], tuple[str, ...]] = {
    masks.to_numbers: (
        "float", "double", "half", "bfloat16", "to", "type", "type_as", "cpu", "cuda", "int", "long",
        "short", "char", "byte",
    ),
    masks.same: (
        "mul", "multiply", "__mul__", "__rmul__", "__imul__", "div", "divide", "true_divide", "__truediv__", "sub",
        "subtract", "__sub__", "__rsub__", "rsub", "__isub__", "neg", "sum", "mean", "cumsum", "cat", "stack",
    ),
    masks.add: ("add", "__add__", "__radd__", "__iadd__"),
    masks.reshape: (
        "unsqueeze", "squeeze", "view", "reshape", "view_as", "reshape_as", "expand", "expand_as", "broadcast_to",
        "transpose", "swapaxes", "permute", "movedim", "flatten", "unflatten", "t", "select", "narrow", "contiguous",
        "clone", "repeat", "flip", "roll",
    ),
    subscripts.item: ("__getitem__",),
    masks.where: ("where",),
    masks.masked_fill: ("masked_fill",),
    masks.both: ("logical_and", "bitwise_and", "__and__", "__rand__", "__iand__"),
    masks.either: ("logical_or", "bitwise_or", "__or__", "__ror__", "__ior__"),
    masks.one_of: ("logical_xor", "bitwise_xor", "__xor__", "__rxor__", "__ixor__"),
    masks.negate: ("logical_not", "bitwise_not", "__invert__"),
    indices.one_hot: ("one_hot",),
    indices.gather: ("gather",),
    indices.take_along_dim: ("take_along_dim",),
    indices.index_select: ("index_select",),
    indices.embedding: ("embedding",),
    indices.equal: ("eq", "__eq__"),
    indices.not_equal: ("ne", "not_equal", "__ne__"),
    indices.ranks: ("argsort",),
    scattering.scatter: ("scatter",),
    scattering.scatter_add: ("scatter_add",),
}  # fmt: skip
KEEP_INDEX = (masks.reshape, masks.to_numbers, subscripts.item)  # an index stays one if its result holds integers
