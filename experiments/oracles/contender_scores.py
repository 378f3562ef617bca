"""Scores every contender in every setting."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import experiments.oracles
from experiments.oracles.contenders import Contender, contenders
from experiments.oracles.sampling import sample
from experiments.oracles.scores import GradientScore, score
from experiments.oracles.setting import Setting


@dataclass(frozen=True)
class ContenderScore:
    """A contender's score in a setting, and its cost for one draw."""

    setting: str
    contender: str
    score: GradientScore
    microseconds: float
    saved_bytes: float

    def plain(self) -> dict[str, Any]:
        """Returns the row for JSON."""
        plain = asdict(self)
        return {**{k: plain[k] for k in ("setting", "contender")}, **plain["score"], "resolved": self.score.resolved,
                "microseconds": self.microseconds, "saved_bytes": self.saved_bytes}  # fmt: skip


def all_settings() -> list[Setting]:
    """Returns the settings of all modules of this package."""
    found: list[Setting] = []
    for info in pkgutil.iter_modules(experiments.oracles.__path__):
        if info.name == "__main__":
            continue
        module = importlib.import_module(f"{experiments.oracles.__name__}.{info.name}")
        found += module.settings() if hasattr(module, "settings") else []
    return found


def score_all(setting: Setting, draws: int | None = None) -> Iterator[ContenderScore]:
    """Scores every contender that applies."""
    for contender in contenders(setting):
        yield score_contender(contender, setting, draws)


def score_contender(contender: Contender, setting: Setting, draws: int | None = None) -> ContenderScore:
    """Scores one contender."""
    got = sample(contender, setting, draws=draws)
    count = len(got.gradients)
    result = score(got.gradients, setting.truth)
    return ContenderScore(setting.name, contender.name, result, 1e6 * got.seconds / count, got.saved_bytes / count)
