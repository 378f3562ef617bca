"""Lists the strategies to score: all that apply, with every kernel and named choice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from experiments.oracles.setting import Setting
from surrogates import members
from surrogates.core import Strategy

SCORE_FUNCTION = "score_function"


@dataclass(frozen=True)
class Contender:
    """A strategy and its name; None is the score function. `on_noise`: the setting's noise is added to its input."""

    name: str
    strategy: Strategy | None
    on_noise: bool = False


def contenders(setting: Setting) -> list[Contender]:
    """Lists all that apply to the setting's op, each kernel with the interquartile range of the setting's noise.

    A strategy with the hard value and no own noise is listed twice: at x, and at x + noise.
    """
    found = []
    for stem, cls in members.strategies().items():
        for name, strategy in members.variants(stem, cls, setting.op):
            for suffix, fitted in _fits(strategy, setting):
                found.append(Contender(name + suffix, fitted))
                if setting.noisy and not fitted.soft_forward and not fitted.noisy(setting.op):
                    found.append(Contender(f"{name}{suffix} at x + noise", fitted, on_noise=True))
    if setting.op.declares("logits"):
        found.append(Contender(SCORE_FUNCTION, None))
    return found


def _fits(strategy: Strategy, setting: Setting) -> Iterator[tuple[str, Strategy]]:
    """Yields the strategy at the setting's scale, with every kernel if it uses one; nothing if it does not apply."""
    for kernel, fitted in members.under_each_kernel(strategy, [setting.op]):
        if "temperature" in strategy.uses(setting.op):
            fitted = members.at_width(fitted, setting.scale, setting.kernel, kernel)
        yield ("" if kernel is None else f" {kernel}"), fitted
