"""All ops and strategies, found by walking their packages, and the variants of a strategy."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Any

from surrogates.core import OPS, READINGS, STRATEGIES, EmptyCell, Op, Strategy
from surrogates.kernels import KERNELS

OVER_TRAINING = {"schedule", "clock"}  # choices that do not affect a single call
NOT_VARIED = {"kernel", "rule", *OVER_TRAINING}  # `rule` has no effect almost everywhere


def ops() -> dict[str, type[Op]]:
    """The ops by the stem of their module."""
    return OPS.classes


def strategies() -> dict[str, type[Strategy]]:
    """The strategies by the stem of their module, without shared bases."""
    return STRATEGIES.classes


def variants(stem: str, cls: type[Strategy], op: Op) -> Iterator[tuple[str, Strategy]]:
    """A strategy class with every combination of its named choices and the op's forms."""
    hints = typing.get_type_hints(cls)
    choices: dict[str, list[str | None]] = {
        field.name: list(typing.get_args(hints[field.name]))
        for field in fields(cls)
        if field.name not in NOT_VARIED and typing.get_origin(hints[field.name]) is typing.Literal
    }
    if "form" in hints:
        choices["form"] = [None, *sorted({form for reading in READINGS for form in op.forms(reading)})]
    for values in product(*choices.values()):
        words = [str(value) for value in values if value is not None]
        strategy = cls(**dict(zip(choices, values, strict=True)))  # type: ignore[arg-type]
        yield " ".join([stem, *words]), strategy


def under_each_kernel(strategy: Strategy, ops: Sequence[Op]) -> Iterator[tuple[str | None, Strategy]]:
    """The strategy under every kernel with which it applies to all ops, by kernel; unchanged if it uses no kernel."""
    kernels: Iterable[Any] = KERNELS if any("kernel" in strategy.uses(op) for op in ops) else [None]
    for kernel in kernels:
        fitted = strategy if kernel is None else replace(strategy, kernel=kernel)
        try:
            for op in ops:
                fitted.check(op)
        except EmptyCell:
            continue
        yield kernel, fitted


def at_width(strategy: Strategy, T: float, law: str | None, kernel: str | None) -> Strategy:
    """The strategy at temperature T of `law`; for another `kernel`, at the T of equal interquartile range.

    Unchanged if that T is outside the strategy's range.
    """
    if law is not None and kernel is not None:
        T *= KERNELS[law].interquartile_range / KERNELS[kernel].interquartile_range
    try:
        return replace(strategy, temperature=T)
    except ValueError:
        return strategy
