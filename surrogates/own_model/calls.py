"""The table of calls: the functions, Tensor methods and operators of torch that are replaced, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.own_model import (
    activations,
    bernoulli,
    buckets,
    elementwise,
    fake_quantize,
    groups,
    histograms,
    multinomial,
    orders,
    pooling,
    reading,
    selection,
)
from surrogates.own_model.masks import reshape
from surrogates.own_model.ops_of_calls import ops_of
from surrogates.own_model.uses import LIFTED

GETTERS: tuple[Any, ...] = (Tensor.T, Tensor.mT)
INPLACE = ("__iadd__", "__isub__", "__imul__", "__iand__", "__ior__", "__ixor__")

# for each function that gives the meaning of calls in ops: the names of these calls
ELEMENTWISE: dict[Callable[..., Tensor], tuple[str, ...]] = {
    elementwise.round: ("round",),
    elementwise.floor: ("floor",),
    elementwise.ceil: ("ceil",),
    elementwise.trunc: ("trunc", "fix"),
    elementwise.sign: ("sign",),
    elementwise.heaviside: ("heaviside",),
    elementwise.floor_divide: ("floor_divide", "__floordiv__"),
    elementwise.reversed_floor_divide: ("__rfloordiv__",),
    elementwise.div: ("div", "divide"),
    elementwise.abs: ("abs", "absolute", "__abs__"),
    elementwise.relu: ("relu",),
    elementwise.maximum: ("maximum",),
    elementwise.minimum: ("minimum",),
    elementwise.clamp: ("clamp", "clip"),
    elementwise.clamp_min: ("clamp_min",),
    elementwise.clamp_max: ("clamp_max",),
    activations.hardtanh: ("hardtanh",),
    activations.relu6: ("relu6",),
    activations.hardsigmoid: ("hardsigmoid",),
    activations.hardswish: ("hardswish",),
    activations.softshrink: ("softshrink",),
    activations.leaky_relu: ("leaky_relu",),
    activations.prelu: ("prelu",),
    activations.threshold: ("threshold",),
    activations.hardshrink: ("hardshrink",),
    fake_quantize.fake_quantize_per_tensor_affine: ("fake_quantize_per_tensor_affine",),
    fake_quantize.fake_quantize_per_channel_affine: ("fake_quantize_per_channel_affine",),
}
SELECTION: dict[Callable[..., Any], tuple[str, ...]] = {
    selection.max: ("max",),
    selection.min: ("min",),
    selection.amax: ("amax",),
    selection.amin: ("amin",),
    selection.topk: ("topk",),
    selection.sort: ("sort",),
    selection.msort: ("msort",),
    selection.aminmax: ("aminmax",),
    selection.median: ("median",),
    selection.kthvalue: ("kthvalue",),
    selection.quantile: ("quantile",),
    pooling.max_pool1d: ("max_pool1d",),
    pooling.max_pool2d: ("max_pool2d",),
    pooling.adaptive_max_pool1d: ("adaptive_max_pool1d",),
    pooling.adaptive_max_pool2d: ("adaptive_max_pool2d",),
    groups.scatter_reduce: ("scatter_reduce",),
    groups.index_reduce: ("index_reduce",),
    histograms.histc: ("histc",),
    histograms.histogram: ("histogram",),
}
COMPARISONS: dict[Callable[..., Tensor], tuple[str, ...]] = {
    reading.greater: ("gt", "greater", "__gt__"),
    reading.greater_equal: ("ge", "greater_equal", "__ge__"),
    reading.less: ("lt", "less", "__lt__"),
    reading.less_equal: ("le", "less_equal", "__le__"),
    reading.equal: ("eq", "__eq__"),
    reading.not_equal: ("ne", "not_equal", "__ne__"),
}
INDICES: dict[Callable[..., Tensor], tuple[str, ...]] = {
    reading.argmax: ("argmax",),
    reading.argmin: ("argmin",),
    orders.sort: ("argsort",),
    buckets.bucketize: ("bucketize",),
    buckets.searchsorted: ("searchsorted",),
}
DRAWS: dict[Callable[..., Tensor], tuple[str, ...]] = {
    bernoulli.bernoulli: ("bernoulli",),
    multinomial.multinomial: ("multinomial",),
}
# for each call that returns values and indices: how ops read the indices
POSITIONS: dict[str, Callable[..., Tensor]] = {
    "max": reading.argmax, "min": reading.argmin, "topk": orders.topk, "sort": orders.sort, "median": orders.median,
    "kthvalue": orders.kthvalue,
}  # fmt: skip
# conversions of a floating tensor, hard if the result holds integers or bools
CASTS = {None: ("to", "type", "type_as", "long", "int", "short", "char", "byte", "bool")}
# for each call that is hard only with certain words: these words
HARD_WITH = {
    "grid_sample": ("nearest",), "index_reduce": ("amax", "amin"), "scatter_reduce": ("amax", "amin"),
}  # fmt: skip
WITHOUT_VALUES = (
    "dim", "size", "numel", "nelement", "ndimension", "stride", "is_floating_point", "is_complex", "element_size",
    "__len__", "__repr__", "__format__", "__hash__",
)  # fmt: skip
OPERATORS = {
    "__floordiv__": "//", "__rfloordiv__": "//", "__abs__": "abs", "__eq__": "==", "eq": "==", "ne": "!=",
    "gt": ">", "ge": ">=", "lt": "<", "le": "<=", "__getitem__": "[]",
}  # fmt: skip


class Call(NamedTuple):
    """A function of torch: its name, its meaning in ops, and whether it writes into its first argument.

    `ops` are the names of the ops that its meaning may contain.
    """

    name: str
    meaning: Any
    inplace: bool
    ops: tuple[str, ...] = ()


def functions(name: str) -> Iterator[tuple[Any, bool]]:
    """Everything in torch with this name, and whether it is an in-place variant."""
    owners: tuple[ModuleType | type, ...] = (Tensor,) if name.startswith("__") else (torch, Tensor, F, torch.special)
    for variant in (name, f"{name}_"):
        for owner in owners:
            if callable(getattr(owner, variant, None)):  # torch.float is a dtype
                yield getattr(owner, variant), variant != name


def by_function(table: Mapping[Any, tuple[str, ...]]) -> dict[Any, Call]:
    """A table with torch's functions as keys."""
    return {
        function: Call(OPERATORS.get(name, name) + "_" * inplace, meaning, inplace or name in INPLACE, ops_of(meaning))
        for meaning, names in table.items()
        for name in names
        for function, inplace in functions(name)
    }


def has_hard_word(call: Call, given: Iterable[Any]) -> bool:
    """Whether the arguments have a word that makes the call hard; True if the call is hard without one."""
    words = HARD_WITH.get(call.name.rstrip("_"))
    return words is None or any(isinstance(x, str) and x in words for x in given)


CALLS = by_function(ELEMENTWISE | SELECTION)
MARKED = by_function(COMPARISONS | INDICES)
DRAWN = by_function(DRAWS)
USES = by_function(LIFTED) | {getter.__get__: Call("T", reshape, False) for getter in GETTERS}
CONVERSIONS = by_function(CASTS)
NEUTRAL = by_function({None: WITHOUT_VALUES})
