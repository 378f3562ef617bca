"""Sorts runs into blocks, whose strategies are compared, and each block into variants, trials and seeds.

- A *block* shares component, model, data and every setting that was varied for its own sake (`component.bits=2,4`).
- A *variant* of a block is a strategy with one setting of its options (`ste` with `strategy.carrier=identity`). Its
  name has the varied options whose values are not those of the strategy's file.
- A *trial* of a variant is one choice of the tuned keys (learning rate, temperature).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from experiments.compare.reading.run_record import RunRecord
from experiments.conf_folder import CONF
from experiments.config.keys import option_values
from experiments.config.settings import CONDUCT
from experiments.plotting import rank

TUNED = ("optimizer.lr", "strategy.temperature")
# Keys that set how, where and how often a run is logged; they do not change what is trained.
INCIDENTAL = (*CONDUCT, "threads", "device", "log_every", "detect_anomaly")
INCIDENTAL_DATA = ("data.root", "data.download")

Key = TypeVar("Key", bound=Hashable)
Options = tuple[tuple[str, str], ...]  # keys of a strategy and their values


@dataclass
class Trial:
    """One choice of the tuned keys, and its runs by seed."""

    values: dict[str, Any]
    runs: dict[int, RunRecord] = field(default_factory=dict)


@dataclass
class Variant:
    """A strategy with one setting of its options, in a block; `name` is unique in the block."""

    strategy: str
    name: str
    trials: list[Trial]

    @property
    def runs(self) -> list[RunRecord]:
        """All its runs."""
        return [run for trial in self.trials for run in trial.runs.values()]


@dataclass
class RunBlock:
    """Variants that differ in their strategy only; `absent` has the strategies that its component does not offer."""

    parts: tuple[str, ...]  # component, model, data, and the keys that were varied with their values
    variants: list[Variant]
    absent: dict[str, str]
    differing: dict[str, dict[str, Any]]  # key -> variant -> value, beside the strategy's own and the tuned keys

    @property
    def name(self) -> str:
        """Name of the block: all its parts."""
        return ", ".join(self.parts)

    @property
    def component(self) -> str:
        """Component of all its runs."""
        return self.parts[0]


def blocks(runs: Sequence[RunRecord], tuned: Sequence[str], notes: list[str]) -> list[RunBlock]:
    """Sorts runs into blocks, ordered by name; notes each run that repeats the setting and seed of another."""
    present = [run for run in runs if run.outcome != "n/a"]
    keys = _block_keys(present, tuned)
    named = _group(present, lambda run: _parts(run, keys, tuned))
    found = [_block(parts, members, tuned, notes) for parts, members in sorted(named.items())]
    for run in runs:
        if run.outcome == "n/a":
            for block in found:
                if block.component == run.options["component"] and run.options["strategy"] not in _strategies(block):
                    block.absent[run.options["strategy"]] = run.reason
    return found


def _strategies(block: RunBlock) -> set[str]:
    return {variant.strategy for variant in block.variants}


def _group(items: Iterable[RunRecord], key: Callable[[RunRecord], Key]) -> dict[Key, list[RunRecord]]:
    groups: dict[Key, list[RunRecord]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return dict(groups)


def _block_keys(runs: list[RunRecord], tuned: Sequence[str]) -> list[str]:
    """Returns the keys that make blocks: varied among runs of one strategy with the same options."""
    left_out = {*tuned, *INCIDENTAL, *INCIDENTAL_DATA}
    keys: dict[str, None] = {}
    options = ("component", "model", "data", "optimizer")
    for members in _group(runs, lambda run: tuple(run.options[group] for group in options)).values():
        by_strategy = _group(members, lambda run: run.options["strategy"]).values()
        for key in {key: None for run in members for key in run.config}:
            if key in left_out or key.startswith("strategy."):
                continue
            if any(len(_values(own, key)) > 1 for own in by_strategy):
                keys[key] = None
    return list(keys)


def _parts(run: RunRecord, keys: Sequence[str], tuned: Sequence[str]) -> tuple[str, ...]:
    parts = [run.options[group] for group in ("component", "model", "data")]
    if run.options["optimizer"] != "sgd" and "optimizer" not in tuned:
        parts.append(run.options["optimizer"])
    return (*filter(None, parts), *(f"{key}={run.config[key]}" for key in keys if key in run.config))


def _block(parts: tuple[str, ...], runs: list[RunRecord], tuned: Sequence[str], notes: list[str]) -> RunBlock:
    variants = []
    by_strategy = _group(runs, lambda run: run.options["strategy"])
    for strategy, members in sorted(by_strategy.items(), key=lambda pair: rank(pair[0])):
        varied = [key for key in _varied_keys(members) if key.startswith("strategy.") and key not in tuned]
        by_options = _group(members, partial(_options, varied))
        names = _names(strategy, list(by_options))
        for options, own in sorted(by_options.items(), key=lambda pair: names[pair[0]]):
            variants.append(Variant(strategy, names[options], _trials(own, tuned, notes)))
    return RunBlock(parts, variants, {}, _differences(variants, tuned))


def _options(varied: Sequence[str], run: RunRecord) -> Options:
    """The varied keys and their values, without keys that are null."""
    known = [(key.removeprefix("strategy."), run.config.get(key)) for key in varied]
    return tuple((key, str(value)) for key, value in known if value is not None)


def _names(strategy: str, found: Sequence[Options]) -> dict[Options, str]:
    """A unique name for each variant: the strategy and its values, without defaults if the names stay unique."""
    defaults = {(key, str(value)) for key, value in option_values(CONF, "strategy", strategy).items()}
    short = {options: _name(strategy, [pair for pair in options if pair not in defaults]) for options in found}
    return short if len(set(short.values())) == len(found) else {options: _name(strategy, options) for options in found}


def _name(strategy: str, options: Sequence[tuple[str, str]]) -> str:
    return f"{strategy} ({', '.join(f'{key}={value}' for key, value in options)})" if options else strategy


def _varied_keys(runs: Sequence[RunRecord]) -> list[str]:
    keys = {key: None for run in runs for key in run.config}
    return [key for key in keys if len(_values(runs, key)) > 1]


def _values(runs: Sequence[RunRecord], key: str) -> set[Any]:
    """The values of a key; a table without this column leaves it unknown, which is no value."""
    return {run.config.get(key) for run in runs if run.has_folder or key in run.config}


def _trials(runs: list[RunRecord], tuned: Sequence[str], notes: list[str]) -> list[Trial]:
    trials: dict[tuple[Any, ...], Trial] = {}
    for run in runs:
        config = {**run.config, "optimizer": run.options["optimizer"]}
        values = {key: config[key] for key in tuned if config.get(key) is not None}
        trial = trials.setdefault(tuple(values.items()), Trial(values))
        if run.seed in trial.runs:
            notes.append(f"skipped {run.path}: another run has the same setting and seed {run.seed}")
        trial.runs.setdefault(run.seed, run)
    return sorted(trials.values(), key=lambda trial: [_order(value) for value in trial.values.values()])


def _order(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, (int, float))
    return (not number, float(value) if number else 0.0, str(value))


def _differences(variants: list[Variant], tuned: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns the keys whose values differ between variants, except tuned keys and the strategy's own."""
    runs = [run for variant in variants for run in variant.runs]
    left_out = {*tuned, *CONDUCT, *INCIDENTAL_DATA}
    own = ("strategy.", "optimizer.") if "optimizer" in tuned else ("strategy.",)
    keys = [key for key in _varied_keys(runs) if key not in left_out and not key.startswith(own)]
    values = {
        key: {variant.name: sorted(map(str, _values(variant.runs, key))) or ["unknown"] for variant in variants}
        for key in keys
    }
    return {key: {name: ", ".join(found) for name, found in by_variant.items()} for key, by_variant in values.items()}
