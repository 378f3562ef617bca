"""Who is scored: every strategy that applies, found by walking, with every kernel and named choice that it has."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import product

from experiments.oracles.setting import Setting
from surrogates import members
from surrogates.core import READINGS, EmptyCell, Op, Strategy
from surrogates.kernels import KERNELS

OVER_TRAINING = {"schedule", "clock"}  # choices without an effect on one call
AT_KINKS = {"rule"}  # without an effect almost everywhere
BY_NATURE = {"kernel", *OVER_TRAINING, *AT_KINKS}
SCORE_FUNCTION = "score_function"


@dataclass(frozen=True)
class Contender:
    """A strategy under a name; None is the score function. `on_noise`: the setting's noise is put on its input."""

    name: str
    strategy: Strategy | None
    on_noise: bool = False


def contenders(setting: Setting) -> list[Contender]:
    """All that apply to the setting's op, at the setting's scale: kernels at its noise's interquartile range.

    A strategy with the hard value and no noise of its own is there twice: at x, and at x + noise.
    """
    found = []
    for stem, cls in members.strategies().items():
        for name, strategy in variants(stem, cls, setting.op):
            for suffix, fitted in _fitted(strategy, setting):
                found.append(Contender(name + suffix, fitted))
                if setting.noisy and not fitted.soft_forward and not fitted.noisy(setting.op):
                    found.append(Contender(f"{name}{suffix} at x + noise", fitted, on_noise=True))
    if setting.op.declares("logits"):
        found.append(Contender(SCORE_FUNCTION, None))
    return found


def variants(stem: str, cls: type[Strategy], op: Op) -> Iterator[tuple[str, Strategy]]:
    """A strategy class with every combination of its named choices and of the forms of the op's readings."""
    hints = typing.get_type_hints(cls)
    choices: dict[str, list[str | None]] = {
        field.name: list(typing.get_args(hints[field.name]))
        for field in fields(cls)
        if field.name not in BY_NATURE and typing.get_origin(hints[field.name]) is typing.Literal
    }
    if "form" in hints:
        choices["form"] = [None, *sorted({form for reading in READINGS for form in op.forms(reading)})]
    for values in product(*choices.values()):
        words = [str(value) for value in values if value is not None]
        strategy = cls(**dict(zip(choices, values, strict=True)))  # type: ignore[arg-type]
        yield " ".join([stem, *words]), strategy


def _fitted(strategy: Strategy, setting: Setting) -> Iterator[tuple[str, Strategy]]:
    """The strategy at the setting's scale, under every kernel if it uses one; nothing if it does not apply."""
    used = strategy.uses(setting.op)
    for kernel in KERNELS if "kernel" in used else [None]:
        fitted = strategy if kernel is None else replace(strategy, kernel=kernel)
        try:
            fitted.check(setting.op)
        except EmptyCell:
            continue
        if "temperature" in used:
            fitted = _at_scale(fitted, setting, kernel)
        yield ("" if kernel is None else f" {kernel}"), fitted


def _at_scale(strategy: Strategy, setting: Setting, kernel: str | None) -> Strategy:
    width = 1.0
    if kernel is not None:
        width = KERNELS[setting.kernel].interquartile_range / KERNELS[kernel].interquartile_range
    try:
        return replace(strategy, temperature=setting.scale * width)
    except ValueError:  # outside the strategy's range
        return strategy
