"""Choosing each arm's learning rate and temperature: on validation data, on seeds that are not reported."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from statistics import fmean
from typing import Any

from experiments.compare.reading.run_record import RunRecord
from experiments.compare.statistics.blocks import Arm, Block, Setting
from experiments.compare.statistics.intervals import Interval, mean_interval
from experiments.compare.statistics.scoring import VALIDATION, Metric

_VALIDATION = Metric(VALIDATION)


@dataclass(frozen=True)
class Seeds:
    """The seeds on which settings are chosen and those that are reported; `why` says how they were told apart."""

    choosing: tuple[int, ...]
    reported: tuple[int, ...]
    why: str = ""


@dataclass
class Choice:
    """An arm's chosen setting. `curve` is each setting's validation accuracy on the choosing seeds.

    `edges` are the tuned keys whose chosen value is the grid's smallest or largest; `expected` is the validation
    accuracy that the best of `equal_trials` settings, drawn at random from those tried, has on average.
    """

    arm: Arm
    setting: Setting
    trials: int
    edges: list[str]
    curve: list[tuple[dict[str, Any], Interval]]
    equal_trials: int
    expected: float | None
    runs: list[RunRecord]  # the reported ones


def split_seeds(block: Block, given: tuple[int, ...] | None) -> Seeds:
    """Which seeds choose and which are reported; all are reported where nothing was tuned.

    Seeds that every setting has choose if each arm has others for one setting only, as in a sweep that was made in two
    steps; on a full grid the last third of the seeds choose.
    """
    every = sorted({seed for arm in block.arms for setting in arm.settings for seed in setting.runs})
    tuned = [arm for arm in block.arms if len(arm.settings) > 1]
    if given is not None:
        return Seeds(given, tuple(seed for seed in every if seed not in given), "chosen on the seeds given")
    if not tuned:
        return Seeds((), tuple(every))
    common = set.intersection(*(set(setting.runs) for arm in tuned for setting in arm.settings))
    single = [seed for seed in every if all(sum(seed in s.runs for s in arm.settings) <= 1 for arm in tuned)]
    if common and single:
        return Seeds(tuple(sorted(common)), tuple(single), "chosen on the seeds that every setting has")
    if len(every) == 1:
        return Seeds(tuple(every), tuple(every), "chosen and reported on the same seed, which flatters every strategy")
    last = every[-max(1, len(every) // 3) :]
    return Seeds(tuple(last), tuple(every[: -len(last)]), "chosen on the last third of the seeds")


def choose(block: Block, seeds: Seeds) -> list[Choice]:
    """The best setting of every arm; a tie goes to the one with more runs to report."""
    equal = min(len(arm.settings) for arm in block.arms)
    return [_choice(arm, seeds, equal) for arm in block.arms]


def _choice(arm: Arm, seeds: Seeds, equal: int) -> Choice:
    scored = [(setting, _scores(setting, seeds.choosing)) for setting in arm.settings]
    usable = [(setting, scores) for setting, scores in scored if scores]
    if len(arm.settings) == 1 or not usable:
        best = max(arm.settings, key=lambda setting: len(_reported(setting, seeds)))
    else:
        best = max(usable, key=lambda pair: (fmean(pair[1]), len(_reported(pair[0], seeds))))[0]
    curve = [(setting.values, mean_interval(scores)) for setting, scores in usable]
    means = [interval.mean for _, interval in curve]
    expected = expected_best(means, equal) if 1 <= equal <= len(means) else None
    return Choice(arm, best, len(arm.settings), _edges(arm, best), curve, equal, expected, _reported(best, seeds))


def _scores(setting: Setting, seeds: tuple[int, ...]) -> list[float]:
    scores = [_VALIDATION.of(setting.runs[seed]) for seed in seeds if seed in setting.runs]
    return [score for score in scores if score is not None]


def _reported(setting: Setting, seeds: Seeds) -> list[RunRecord]:
    return [setting.runs[seed] for seed in seeds.reported if seed in setting.runs]


def _edges(arm: Arm, best: Setting) -> list[str]:
    edges = []
    for key, value in best.values.items():
        tried = {setting.values.get(key) for setting in arm.settings}
        numbers = sorted(v for v in tried if isinstance(v, (int, float)))
        if len(numbers) > 1 and value in (numbers[0], numbers[-1]):
            edges.append(key)
    return edges


def expected_best(scores: list[float], trials: int) -> float:
    """E[max of `trials` scores drawn without replacement] = sum_r s_(r) C(r - 1, m - 1) / C(K, m), s_(1) the smallest.

    The r-th smallest of K is the best of m drawn if the m - 1 others are among the r - 1 below it. So that twelve
    trials can be held against four, as Dodge et al. 2019, arXiv 1909.03004, propose (they draw with replacement).
    """
    ways = comb(len(scores), trials)
    return sum(score * comb(rank, trials - 1) for rank, score in enumerate(sorted(scores))) / ways
