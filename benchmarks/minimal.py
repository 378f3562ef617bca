"""The least that a straight-through op can do: a value by torch, and a derivative in as few kernels as one would write.

What is written here is compared with the op before it is timed; where it is missing or differs (torch has no function
of that name, or the op's derivative has changed), the op's own value stands in for it, and its derivative, computed
beforehand, for the derivative. The table says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from timing import Function, derivatives
from torch import Tensor

# Values where torch has no function of the op's name that takes the same inputs.
VALUES: dict[str, Function] = {
    "clamp": lambda x: torch.clamp(x, 0, 1),
    "compare": lambda x, y: (x > y).to(x.dtype),
    "heaviside": lambda x: (x >= 0).to(x.dtype),
    "lookup": lambda x, table: table[_index(x, table)],
    "quantize": lambda x: x.clamp(0, 1).mul(15).round().div(15),
    "threshold": lambda x, t: (x >= t).to(x.dtype),
    "where": lambda c, a, b: torch.where(c >= 0, a, b),
}

Backward = Callable[..., tuple[Tensor, ...]]
TEMPERATURE = 0.5  # of the proxies that have one


def _index(x: Tensor, table: Tensor) -> Tensor:
    return x.floor().clamp(0, len(table) - 1).long()


def _lookup(g: Tensor, x: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    return g, torch.zeros_like(table).index_add(0, _index(x, table), g)


def _maximum(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    first = g * torch.sigmoid((x - y) / TEMPERATURE)
    return first, g - first


def _minimum(g: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return _maximum(g, y, x)


def _threshold(g: Tensor, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    derivative = 0.5 * g * ((x - t).abs() <= 1)
    return derivative, -derivative


def _where(g: Tensor, c: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    weight = (0.5 * (c / TEMPERATURE + 1)).clamp(0, 1)
    first = g * weight
    return g * (a - b) * (c.abs() < TEMPERATURE) / (2 * TEMPERATURE), first, g - first


# Backward passes where the derivative is not 1 everywhere.
BACKWARDS: dict[str, Backward] = {
    # tanh(x / (2 T)), which takes a CPU four times as long written so
    "abs": lambda g, x: (g * (2 * torch.sigmoid(x / TEMPERATURE) - 1),),
    "compare": _threshold,
    "heaviside": lambda g, x: (0.5 * g * (x.abs() <= 1),),
    "lookup": _lookup,
    "maximum": _maximum,
    "minimum": _minimum,
    "quantize": lambda g, x: (g * ((x >= 0) & (x <= 1)),),
    "relu": lambda g, x: (g * torch.sigmoid(x / TEMPERATURE),),
    "sign": lambda g, x: (g * (x.abs() <= 1),),
    "threshold": _threshold,
    "where": _where,
}


class Minimal(torch.autograd.Function):
    """A value and a backward pass; `backward` None stands for the derivative 1."""

    @staticmethod
    def forward(ctx: Any, value: Function, backward: Backward | None, *x: Tensor) -> Tensor:
        ctx.backward_pass = backward
        if backward is not None:
            ctx.save_for_backward(*x)
        return value(*x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        if ctx.backward_pass is None:
            return None, None, gradient
        return None, None, *ctx.backward_pass(gradient, *ctx.saved_tensors)


def minimal(stem: str, ours: Function, hard: Function, x: list[Tensor]) -> tuple[Function, str]:
    """The peer of a straight-through op, and in words what of it is not written here."""
    slopes = derivatives(ours, x)
    value, backward, own = _value(stem, hard, x), _backward(stem, slopes, x), []
    if value is None:
        value = hard
        own.append("the op's own value")
    if backward is None and not (len(x) == 1 and bool((slopes[0] == 1).all())):
        backward = lambda g, *_: tuple(g * slope if slope.shape == g.shape else slope for slope in slopes)  # noqa: E731
        own.append("derivative computed beforehand")
    return lambda *x: Minimal.apply(value, backward, *x), f" ({', '.join(own)})" if own else ""


def _backward(stem: str, slopes: list[Tensor], x: list[Tensor]) -> Backward | None:
    """The written backward pass if it has these slopes."""
    written = BACKWARDS.get(stem)
    if written is None:
        return None
    with torch.no_grad():
        found = written(torch.ones_like(x[0]), *x)
    same = len(found) == len(slopes) and all(
        torch.allclose(*pair, atol=1e-5, rtol=1e-4) for pair in zip(found, slopes, strict=True)
    )
    return written if same else None


def _value(stem: str, hard: Function, x: list[Tensor]) -> Function | None:
    for candidate in (VALUES.get(stem), getattr(torch, stem, None)):
        if candidate is not None and _same(candidate, hard, x):
            return candidate
    return None


def _same(candidate: Function, hard: Function, x: list[Tensor]) -> bool:
    with torch.no_grad():
        try:
            found = candidate(*x)
        except (TypeError, RuntimeError):  # a function of that name that takes something else
            return False
        return isinstance(found, Tensor) and found.dtype == x[0].dtype and torch.allclose(found, hard(*x))
