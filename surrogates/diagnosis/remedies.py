"""Ops that can replace a torch operation, by its name, and the strategies that apply to each."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field

import torch

from surrogates import members
from surrogates.core import EmptyCell, Op, Strategy

# Torch's names that are not the op's, to stems of modules in surrogates/ops; missing modules are ignored.
STEMS = {
    **dict.fromkeys(("gt", "ge", "lt", "le", "eq", "ne", "nonzero"), ("compare", "threshold", "where")),
    **dict.fromkeys(("long", "int", "short", "char", "byte", "to", "type"), ("trunc", "round")),
    **dict.fromkeys(("__floordiv__", "__rfloordiv__", "floor_divide"), ("floor",)),
    **dict.fromkeys(("bucketize", "searchsorted", "digitize"), ("compare", "floor", "lookup")),
    **dict.fromkeys(("histc", "histogram", "bincount"), ("histogram",)),
    **dict.fromkeys(("clip", "hardtanh", "relu6", "clamp_min", "clamp_max"), ("clamp",)),
    **dict.fromkeys(("topk",), ("top_k_mask", "top_k")),
    **dict.fromkeys(("nanmedian", "nanquantile"), ("median", "quantile")),
    **dict.fromkeys(("sort", "argsort", "msort"), ("permutation", "rank", "sort")),
    **dict.fromkeys(("fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine"), ("quantize",)),
    "adaptive_max_pool1d": ("max",),
    "adaptive_max_pool2d": ("max",),
    "aminmax": ("min", "max"),
    "kthvalue": ("sort", "median", "quantile"),
    "bool": ("compare",),
    "amax": ("max",),
    "amin": ("min",),
    "one_hot": ("argmax",),
    "sgn": ("sign",),
    "absolute": ("abs",),
    "fix": ("trunc",),
    "div": ("floor", "trunc"),
}
INDICES_OF = {  # the second result, which has no graph
    "max": ("argmax",), "min": ("argmin",), "topk": ("permutation", "top_k_mask"), "sort": ("permutation", "rank"),
    "median": ("permutation",), "kthvalue": ("permutation",),
}  # fmt: skip


@dataclass(frozen=True)
class Remedy:
    """An op, and the strategies that apply to it and give it another derivative than torch's.

    First the strategies that keep the op's value, then those without noise; straight-through before the others.
    """

    op: type[Op]
    strategies: tuple[type[Strategy], ...]

    def __str__(self) -> str:
        names = ", ".join(strategy.__name__ for strategy in self.strategies)
        return f"{self.op.__module__}.{self.op.__name__} with {names}"


@dataclass(frozen=True)
class Trial:
    """A change that was tried on the model, and the parameters that got a gradient with it.

    `by_op` maps names of ops to names of strategies, the keyword arguments of `through`; empty for another change.
    """

    change: str
    parameters: tuple[str, ...]
    by_op: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.change} gives a gradient to {', '.join(self.parameters)}"


def remedies(name: str, indices: bool = False) -> tuple[Remedy, ...]:
    """The ops for a torch operation, with their strategies; `indices` means that its integer result was used."""
    found = members.ops()
    names = (name,) if name in found else STEMS.get(name, ())
    if indices:
        names = INDICES_OF.get(name, names)
    offers = (remedy(found[known]()) for known in names if known in found)
    return tuple(offer for offer in offers if offer.strategies)


def remedy(op: Op) -> Remedy:
    """The op with the strategies that apply to it, without `subgradient`, which has torch's own derivative."""
    found = [(name, cls()) for name, cls in members.strategies().items() if name != "subgradient"]
    apply = [(s.soft_forward, s.noisy(op), name != "ste", name, type(s)) for name, s in found if _exists(s, op)]
    return Remedy(type(op), tuple(strategy for *_, strategy in sorted(apply, key=lambda key: key[:4])))


def stem(cls: type[Op] | type[Strategy]) -> str:
    """The name of an op or a strategy: that of its file."""
    return cls.__module__.rpartition(".")[2]


def always_flat(name: str) -> bool | None:
    """Whether the named op's derivative is 0 almost everywhere; None if this library has no such elementwise op."""
    cls = members.ops().get(name)
    if cls is None or not cls.elementwise:
        return None
    op = cls()
    count = len(inspect.signature(op.hard).parameters)
    x = [torch.linspace(-3.17, 2.71, 101).roll(7 * i).requires_grad_() for i in range(count)]
    with torch.enable_grad():
        derivatives = torch.autograd.grad(op.subgradient(*x, rule=op.rules[0]).sum(), x)
    return not any(bool(d.any()) for d in derivatives)


def _exists(strategy: Strategy, op: Op) -> bool:
    try:
        strategy.check(op)
    except EmptyCell:
        return False
    return True
