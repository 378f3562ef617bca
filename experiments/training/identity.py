"""What a run is known by before it runs: its resolved configuration, the hash of that, and whether its cell exists."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig

from experiments.config.choices import Choices, ConfigError, choose, config_hash
from experiments.training.build import build_model, drop_knobs, used_knobs
from surrogates import EmptyCell


@dataclasses.dataclass(frozen=True)
class Identity:
    """`missing` names the reading that is not there, for a component and a strategy that do not go together."""

    plain: dict[str, Any]
    config_hash: str
    missing: str | None
    notes: list[str]


class Identifier:
    """Identifies the configurations of one sweep, whose overrides tell them apart.

    A model is built once for all that have the same one.
    """

    def __init__(self) -> None:
        self._known: dict[str, set[str] | Exception] = {}
        self._found: dict[tuple[str, ...], Identity] = {}

    def __call__(self, config: DictConfig, overrides: Sequence[str]) -> Identity:
        """Raises ConfigError for a configuration that cannot run; neither loads data nor asks for a device."""
        key = tuple(overrides)
        if key not in self._found:
            self._found[key] = self._identify(config, overrides)
        return self._found[key]

    def _identify(self, config: DictConfig, overrides: Sequence[str]) -> Identity:
        choices = choose(config)
        used = self._used(choices)
        if isinstance(used, EmptyCell):
            return Identity(choices.plain, config_hash(choices.plain), str(used), [])
        if isinstance(used, Exception):
            raise used
        notes = drop_knobs(choices.plain, used, overrides)
        return Identity(choices.plain, config_hash(choices.plain), None, notes)

    def _used(self, choices: Choices) -> set[str] | Exception:
        parts = [choices.plain[group] for group in ("component", "strategy", "model", "data")]
        key = json.dumps([*parts, choices.settings.batch_size == 1])
        if key not in self._known:
            here = dataclasses.replace(choices.settings, device="cpu")
            try:
                self._known[key] = used_knobs(build_model(dataclasses.replace(choices, settings=here)))
            except (EmptyCell, ConfigError) as error:
                self._known[key] = error
        return self._known[key]
