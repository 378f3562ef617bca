"""The product that the laws run over: every op, strategy and kernel in the packages, and inputs for each.

Members are found by walking the packages, so a new file is tested because it exists.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import math
import pkgutil
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache

import pytest
import torch
from torch import Tensor

import surrogates.layers
import surrogates.ops
import surrogates.strategies
from surrogates.component import Component
from surrogates.core import EmptyCell, Op, Strategy
from surrogates.kernels import KERNELS, Kernel

SHARED_BASES = {"tempered", "samples", "staircase"}
FORMS_OF = {"ste": ("proxy", "smooth")}  # of which readings the strategy's `form` is a form; else that of its name
NO_EFFECT_ON_A_CALL = {"schedule", "final_temperature", "clock"}
FURTHER_INSTANCES: dict[str, list[dict[str, object]]] = {
    "ArgMax": [{"dim": 0}],
    "ArgMin": [{"dim": 0}],
    "Ceil": [{"step": 0.5, "low": -1.0, "high": 1.0}, {"step": 0.1}],
    "Clamp": [{"low": -2.0, "high": 0.5}],
    "Compare": [{"relation": relation} for relation in ("<=", "==")],
    "Floor": [{"step": 0.5, "low": -1.0, "high": 1.0}, {"step": 0.1}],
    "Heaviside": [{"zero": 0.0}],
    "Histogram": [{"bins": 3, "low": -1.0, "high": 2.0}],
    "Lookup": [{"step": 0.7, "low": -1.5}],
    "Max": [{"dim": 0}],
    "Median": [{"dim": 0}],
    "Min": [{"dim": 0}],
    "Permutation": [{"descending": True, "dim": 0}],
    "Quantile": [{"q": 0.3, "dim": 0}],
    "Quantize": [
        {"bits": 1},
        {"bits": 2, "low": -1.0, "high": 1.0},
        {"bits": 3, "low": -4.0, "high": 3.0, "bounds": "strict"},
    ],
    "Rank": [{"descending": True, "dim": 0}],
    "Sign": [{"zero": 1.0}],
    "Sort": [{"descending": True, "dim": 0}],
    "TopK": [{"k": 1}],
    "TopKMask": [{"k": 1}, {"k": 2, "dim": 0}],
}
# Where the inputs after the first have another shape: what draws them, from the first one's shape and a stream.
COMPANIONS: dict[str, Callable[[tuple[int, ...], torch.Generator], list[Tensor]]] = {
    "Lookup": lambda shape, stream: [torch.randn(5, generator=stream, dtype=torch.float64)],
    "VectorQuantize": lambda shape, stream: [torch.randn((7, *shape[-1:]), generator=stream, dtype=torch.float64)],
}
# Which outputs depend on the marked inputs, where neither the same place, nor the same row, nor all is the answer.
TOUCHED: dict[str, Callable[[Op, list[Tensor]], Tensor]] = {}
# Outputs with an infinite answer to give, where neither an infinite value nor a chosen infinite entry is the sign.
REACHED: dict[str, Callable[[Op, Tensor], Tensor]] = {
    "Rank": lambda op, x: x.isinf(),
    "Permutation": lambda op, x: over_ranks(op, x),
    "VectorQuantize": lambda op, x: x.isinf().any(-1, keepdim=True).expand_as(x),
    "Histogram": lambda op, x: over_rows(op, x.isinf().all(op.dim, keepdim=True), op.hard(x)),
}
ANSWERS_AN_EMPTY_ROW = {"Histogram", "Permutation", "Rank", "Sort", "VectorQuantize"}
HALF = (torch.bfloat16, torch.float16)
FULL = (torch.float64, torch.float32)


def classes(package: object, base: type) -> dict[str, type]:
    """The one class of each module that the module defines itself, by module stem."""
    found = {}
    for module in pkgutil.iter_modules(package.__path__):
        if module.name in SHARED_BASES:
            continue
        source = importlib.import_module(f"{package.__name__}.{module.name}")
        own = [c for c in vars(source).values() if inspect.isclass(c) and c.__module__ == source.__name__]
        members = [c for c in own if issubclass(c, base)]
        assert len(members) == 1, f"{source.__name__} must define exactly one {base.__name__}, it has {members}"
        found[module.name] = members[0]
    assert found
    return found


OP_CLASSES = classes(surrogates.ops, Op)
STRATEGY_CLASSES = classes(surrogates.strategies, Strategy)
LAYER_CLASSES = classes(surrogates.layers, Component)
READS = {cls: FORMS_OF.get(stem, (stem,)) for stem, cls in STRATEGY_CLASSES.items()}
OPS: list[Op] = [
    cls(**further)
    for cls in OP_CLASSES.values()
    for further in [{}, *FURTHER_INSTANCES.get(cls.__name__, [])]  # the constructor's defaults first
]


@dataclass(frozen=True)
class Cell:
    """An op under a strategy."""

    op: Op
    strategy: Strategy

    def __call__(self, *x: Tensor, T: Tensor | float = 0.3, noise: Tensor | None = None) -> Tensor:
        noise = self.noise(*x) if noise is None else noise
        return self.strategy(self.op, *x, T=T, noise=noise)

    def noise(self, *x: Tensor) -> Tensor | None:
        """The uniforms that the cell needs for these inputs, the same at every call; None if it needs none."""
        if not (self.strategy.noisy(self.op) and x[0].is_floating_point()):
            return None
        return uniform(x[0].new_empty(self.strategy.noise_shape(self.op, *x)))

    @property
    def grafts(self) -> bool:
        """Whether value and derivative come apart."""
        return hasattr(importlib.import_module(type(self.strategy).__module__), "graft")

    @property
    def drawn(self) -> bool:
        """Whether value or derivative come from a draw of noise."""
        return self.strategy.noisy(self.op)

    @property
    def hard_valued(self) -> bool:
        return not self.strategy.soft_forward and not self.drawn

    def carrier(self, *x: Tensor, **kwargs: object) -> Tensor:
        """The tensor whose derivative the cell has: its relaxation, what it grafts onto its value, or the value."""
        if type(self.strategy).relaxed is not Strategy.relaxed:  # the one that it grafts may be a stand-in
            given = {"T": 0.3, "noise": self.noise(*x), **kwargs}
            return self.strategy.relaxed(self.op, *x, **given)
        module = importlib.import_module(type(self.strategy).__module__)
        if not hasattr(module, "graft"):
            return self(*x, **kwargs)
        original = module.graft
        module.graft = lambda value, carrier: carrier
        try:
            return self(*x, **kwargs)
        finally:
            module.graft = original


@contextmanager
def constants_held(op: Op) -> Iterator[None]:
    """What a proxy of the op takes as constants (by `detached`) stays at its value in the first call in the block."""
    module = importlib.import_module(type(op).__module__)
    if not hasattr(module, "detached"):
        yield
        return
    original, first = module.detached, []

    def held(x: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        first.append(original(x))
        return first[0]

    module.detached = held
    try:
        yield
    finally:
        module.detached = original


def literals(annotation: object) -> list[object]:
    """The strings that a Literal, alone or in a union, allows."""
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    return [value for part in typing.get_args(annotation) for value in literals(part)]


def choices(cls: type, op: Op) -> Iterator[Strategy]:
    """Every strategy that the class's Literal fields and the op's named forms allow."""
    hints = typing.get_type_hints(cls)
    options: dict[str, list[object]] = {}
    for field in fields(cls):
        if field.name == "form":
            options["form"] = [None, *(form for reading in READS[cls] for form in op.forms(reading))]
        elif field.name not in NO_EFFECT_ON_A_CALL and literals(hints[field.name]):
            options[field.name] = literals(hints[field.name])
    for values in itertools.product(*options.values()):
        yield cls(**dict(zip(options, values, strict=True)))


@cache
def cells(op: Op, one_kernel: bool = False) -> tuple[Cell, ...]:
    """Every cell of an op that exists; a kernel that a strategy does not use on it counts once."""
    found: list[Cell] = []
    for cls in STRATEGY_CLASSES.values():
        for strategy in choices(cls, op):
            try:
                strategy.check(op)
            except EmptyCell:
                continue
            if one_kernel or "kernel" not in strategy.uses(op):
                strategy = with_default_kernel(strategy)
            if Cell(op, strategy) not in found:
                found.append(Cell(op, strategy))
    return tuple(found)


def with_default_kernel(strategy: Strategy) -> Strategy:
    values = {field.name: getattr(strategy, field.name) for field in fields(strategy)}
    return type(strategy)(**{**values, "kernel": type(strategy)().kernel})


@dataclass(frozen=True)
class Part:
    """Cells of one op: what one test of a law runs over."""

    op: Op
    cells: tuple[Cell, ...]


@cache
def parts(op: Op) -> tuple[Part, Part]:
    """The cells that the unit suite runs a law over, and the others.

    In the unit suite: the op as its class makes it by default, under every strategy, each with one of its kernels,
    which is another one from strategy to strategy and from op to op.
    """
    groups: dict[Strategy, list[Cell]] = {}
    for cell in cells(op):
        groups.setdefault(with_default_kernel(cell.strategy), []).append(cell)
    turn = itertools.count(OPS.index(op))
    quick = tuple(group[next(turn) % len(group)] for group in groups.values()) if op == type(op)() else ()
    return Part(op, quick), Part(op, tuple(cell for cell in cells(op) if cell not in quick))


def law(holds_for: Callable[[Cell], bool] = lambda cell: True) -> pytest.MarkDecorator:
    """A law over the product: parametrised by `part`, the parts beyond the unit suite's being slow."""
    parameters = []
    for op in OPS:
        for part, suffix, marks in zip(parts(op), ("", "-rest"), ([], [pytest.mark.slow]), strict=True):
            kept = Part(op, tuple(cell for cell in part.cells if holds_for(cell)))
            if kept.cells:
                parameters.append(pytest.param(kept, id=f"{op}{suffix}", marks=marks))
    return pytest.mark.parametrize("part", parameters)


def kernels_of(op: Op) -> dict[str, Kernel]:
    """The kernels under which an op's smooth reading exists."""
    if not (op.takes_kernel() and op.declares("smooth")):
        return {}
    return {name: kernel for name, kernel in KERNELS.items() if kernel.has_mean or not op.needs_mean}


def arity(op: Op) -> int:
    """How many inputs the op takes."""
    return len(inspect.signature(op.hard).parameters)


def label(op: Op) -> str:
    return repr(op)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sample(
    op: Op, shape: tuple[int, ...] = (3, 4), dtype: torch.dtype = torch.float64, seed: int = 0, scale: float = 1.3
) -> list[Tensor]:
    """Inputs from a continuous law: kinks, jumps and ties have probability 0 in float64."""
    stream = generator(1000 + seed)
    drawn = [scale * torch.randn(shape, generator=stream, dtype=torch.float64) + 0.05]
    if type(op).__name__ in COMPANIONS:
        drawn += COMPANIONS[type(op).__name__](shape, stream)
    while len(drawn) < arity(op):
        drawn.append(scale * torch.randn(shape, generator=stream, dtype=torch.float64) + 0.05)
    return [t.to(dtype) for t in drawn]


def filled(op: Op, *x: Tensor) -> list[Tensor]:
    """The given tensors, of one shape, as inputs; those that must have another shape are drawn."""
    drawn = sample(op, tuple(x[0].shape), x[0].dtype)
    return [given if given.shape == t.shape else t for given, t in zip(x, drawn, strict=False)]


def extremes(op: Op, dtype: torch.dtype) -> list[Tensor]:
    """Ordinary, huge and infinite numbers, in rows that have an infinite maximum and rows that have not."""
    big = min(1e30, torch.finfo(dtype).max)
    rows = [
        [0.3, -0.4, 1.7, -2.2],
        [math.inf, 0.2, -0.3, 1.0],
        [-math.inf, 0.2, -0.3, 1.0],
        [-math.inf] * 4,
        [math.inf, -math.inf, math.inf, 0.0],
        [big, -big, 1.0, -1.0],
    ]
    x = torch.tensor(rows, dtype=dtype)
    x = x.t().contiguous() if getattr(op, "dim", -1) == 0 else x
    return filled(op, x, *[x.flip(-1)] * (arity(op) - 1))


def uniform(like: Tensor, seed: int = 7) -> Tensor:
    """Uniform noise on (0, 1), at least float32."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    return torch.rand(like.shape, generator=generator(seed), dtype=torch.float64).clamp(1e-6, 1 - 1e-6).to(dtype)


def rowwise_noise(cell: Cell, batch: list[Tensor]) -> list[Tensor]:
    """The noise of each row of a batch by itself, stacked; nothing for a cell without noise."""
    rows = [cell.noise(*(t[i] for t in batch)) for i in range(len(batch[0]))]
    return [] if rows[0] is None else [torch.stack([u.roll(i) for i, u in enumerate(rows)])]


def same(a: Tensor, b: Tensor) -> bool:
    """Equal bit for bit up to the sign of zero, NaN equal to NaN."""
    return (
        a.shape == b.shape
        and a.dtype == b.dtype
        and torch.equal(a.isnan(), b.isnan())
        and torch.equal(a.masked_fill(a.isnan(), 0), b.masked_fill(b.isnan(), 0))
    )


def gradients(function: Callable[..., Tensor], x: list[Tensor], weight: Tensor | None = None) -> list[Tensor | None]:
    """The derivative of sum(weight * function(*x)) by each input; None where the graph does not reach it."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in x]
    y = function(*leaves)
    if not y.requires_grad:
        return [None] * len(x)
    weight = torch.ones_like(y) if weight is None else weight
    return list(torch.autograd.grad(y, leaves, weight, allow_unused=True))


def touched(op: Op, marks: list[Tensor]) -> Tensor:
    """Outputs of `hard` that depend on a marked input: at its place, in its row, or all for an input of another shape.

    Outputs over a row stand in the place of the row's dimension, which may be gone, changed in length, or be two.
    """
    name = type(op).__name__
    if name in TOUCHED:
        return TOUCHED[name](op, marks)
    apart = [bool(mark.any()) for mark in marks if mark.shape != marks[0].shape]
    mark = torch.stack([mark for mark in marks if mark.shape == marks[0].shape]).any(0)
    if not op.elementwise:
        output = op.hard(*(torch.zeros(mark.shape) for mark in marks))
        mark = over_rows(op, mark, output)
    return mark | any(apart)


def over_rows(op: Op, mark: Tensor, output: Tensor) -> Tensor:
    """Whether a row has a mark, in the shape of an output over the rows."""
    dim = getattr(op, "dim", -1)
    rows = mark.any(dim, keepdim=True)
    if output.dim() < mark.dim():
        return rows.squeeze(dim)
    if output.dim() > mark.dim():
        rows = rows.unsqueeze(dim)
    return rows.expand_as(output)


def over_ranks(op: Op, x: Tensor) -> Tensor:
    """Ranks that an infinite entry has, in the shape of a permutation matrix."""
    hard = op.hard(x)
    place = op.dim % x.dim()
    entries = x.unsqueeze(place).expand_as(hard)
    return torch.where(hard > 0, entries, 0).isinf().any(place + 1, keepdim=True).expand_as(hard)


def reached(op: Op, x: list[Tensor]) -> Tensor:
    """Outputs of `hard` with an infinite answer to give: an infinite input, or an infinite entry that is chosen."""
    if type(op).__name__ in REACHED:
        return REACHED[type(op).__name__](op, x[0])
    if op.elementwise:
        return touched(op, [t.isinf() for t in x])
    hard = op.hard(*x)
    if not op.keeps_shape:
        return hard.isinf()
    return over_rows(op, torch.where(hard > 0, x[0], 0).isinf(), hard)


def spread(op: Op, x: list[Tensor]) -> Tensor:
    """Where an output of `hard` depends on a NaN."""
    return touched(op, [t.isnan() for t in x])


def steady(op: Op, x: list[Tensor], radius: float = 0.02) -> Tensor:
    """Outputs of `hard` without a jump within `radius` of x, tried in all directions of the cube's corners."""
    base, calm = op.hard(*x), None
    for seed in range(24):
        signs = [torch.randint(0, 2, t.shape, generator=generator(seed + 50 * i)) * 2 - 1 for i, t in enumerate(x)]
        moved = op.hard(*(t + radius * s for t, s in zip(x, signs, strict=True)))
        near = (moved - base).abs() <= 1.5 * radius
        calm = near if calm is None else calm & near
    return calm


def total(count: Callable[[Op], int]) -> int:
    return sum(count(op) for op in OPS)
