"""What a run is known by before it runs: its checked configuration, and whether its pair is applicable."""

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
    """`missing` names the missing reading of a component and a strategy that do not go together."""

    choices: Choices
    missing: str | None = None
    notes: Sequence[str] = ()

    @property
    def config_hash(self) -> str:
        """The name of the configuration."""
        return config_hash(self.choices.plain)


class Identifier:
    """Identifies the configurations of one sweep; jobs that differ in other keys share one trial model."""

    def __init__(self) -> None:
        self._known: dict[str, set[str] | Exception] = {}

    def __call__(self, config: DictConfig, overrides: Sequence[str]) -> Identity:
        """Raises ConfigError for a configuration that cannot run; neither loads data nor asks for a device."""
        choices = choose(config)
        used = self._used_knobs(choices)
        if isinstance(used, EmptyCell):
            return Identity(choices, str(used))
        if isinstance(used, Exception):
            raise used
        return Identity(choices, None, drop_knobs(choices.plain, used, overrides))

    def _used_knobs(self, choices: Choices) -> set[str] | Exception:
        """The knobs that have an effect, or why no model can be built."""
        parts = [choices.plain[group] for group in ("component", "strategy", "model", "data")]
        key = json.dumps([*parts, choices.settings.batch_size == 1])
        if key not in self._known:
            try:
                self._known[key] = used_knobs(trial_model(choices))
            except (EmptyCell, ConfigError) as error:
                self._known[key] = error
        return self._known[key]
