"""Who is scored: every strategy that applies, found by walking, with every kernel and named choice that it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from experiments.oracles.setting import Setting
from surrogates import members
from surrogates.core import EmptyCell, Strategy
from surrogates.kernels import KERNELS

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
        for name, strategy in members.variants(stem, cls, setting.op):
            for suffix, fitted in _fitted(strategy, setting):
                found.append(Contender(name + suffix, fitted))
                if setting.noisy and not fitted.soft_forward and not fitted.noisy(setting.op):
                    found.append(Contender(f"{name}{suffix} at x + noise", fitted, on_noise=True))
    if setting.op.declares("logits"):
        found.append(Contender(SCORE_FUNCTION, None))
    return found


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
