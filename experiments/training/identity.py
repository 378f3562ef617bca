"""Checks a run's configuration, and whether its pair is applicable, before it runs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from omegaconf import DictConfig

from experiments.config.choices import Choices, ConfigError, choose
from experiments.config.config_hash import config_hash
from experiments.training.build import drop_knobs, trial_model, used_knobs
from surrogates import EmptyCell


@dataclasses.dataclass(frozen=True)
class Identity:
    """A checked configuration. If its pair is not applicable, `missing` names the reading that its op lacks."""

    choices: Choices
    missing: str | None = None
    notes: Sequence[str] = ()

    @property
    def config_hash(self) -> str:
        """The hash of the configuration."""
        return config_hash(self.choices.plain)


class Identifier:
    """Checks the configurations of one sweep. Jobs with the same component, strategy, model and data share a model."""

    def __init__(self) -> None:
        self._known: dict[str, set[str] | Exception] = {}

    def __call__(self, config: DictConfig, overrides: Sequence[str]) -> Identity:
        """Checks one configuration, without loading data or using its device.

        Raises ConfigError if it cannot run.
        """
        choices = choose(config)
        used = self._used_knobs(choices)
        if isinstance(used, EmptyCell):
            return Identity(choices, str(used))
        if isinstance(used, Exception):
            raise used
        return Identity(choices, None, drop_knobs(choices.plain, used, overrides))

    def _used_knobs(self, choices: Choices) -> set[str] | Exception:
        """Those of `temperature` and `kernel` that have an effect, or the error of building the model."""
        parts = [choices.plain[group] for group in ("component", "strategy", "model", "data")]
        key = json.dumps([*parts, choices.settings.batch_size == 1])
        if key not in self._known:
            try:
                self._known[key] = used_knobs(trial_model(choices))
            except (EmptyCell, ConfigError) as error:
                self._known[key] = error
        return self._known[key]
