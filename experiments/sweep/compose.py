"""Composes the configurations of a sweep's jobs: once for each set of options; other values are set on a copy."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException


class Composer:
    """`composer(overrides)` equals Hydra's `load_sweep_config(master, overrides)`, in a tenth of its time."""

    def __init__(self, loader: Any, master: DictConfig) -> None:
        self.loader, self.master = loader, master
        self._parser = OverridesParser.create()
        self._parsed: dict[str, Override] = {}
        self._bases: dict[tuple[str, ...], DictConfig] = {}
        self._groups: dict[str, bool] = {}

    def __call__(self, overrides: Sequence[str]) -> DictConfig:
        """Composes one job's configuration.

        Raises the error that Hydra raises if an override does not fit.
        """
        parsed = [self._parse(override) for override in overrides]
        plain = [override for override in parsed if self._is_plain(override)]
        rest = tuple(str(override.input_line) for override in parsed if override not in plain)
        try:
            return self._set(self._base(rest), parsed, plain)
        except OmegaConfBaseException:  # so that Hydra gives its clearer message
            return self._compose(overrides)

    def _parse(self, override: str) -> Override:
        if override not in self._parsed:
            self._parsed[override] = self._parser.parse_override(override)
        return self._parsed[override]

    def with_number(self, overrides: Sequence[str], number: int) -> DictConfig:
        """Composes one job's configuration with its number and folder, which Hydra's own launcher would set."""
        config = self(overrides)
        with current(config), read_write(config.hydra.runtime), open_dict(config.hydra):
            config.hydra.job.id = config.hydra.job.num = number
            folder = Path(str(config.hydra.sweep.dir), str(config.hydra.sweep.subdir))
            config.hydra.runtime.output_dir = str(folder.absolute())
        return config

    def _is_plain(self, override: Override) -> bool:
        """Whether an override only sets a value of a key that is already there."""
        if override.type is None or override.package is not None or override.is_hydra_override():
            return False
        changes = not (override.is_add() or override.is_force_add() or override.is_delete())
        key = override.key_or_group
        if key not in self._groups:
            self._groups[key] = bool(self.loader.get_group_options(key.replace(".", "/")))
        return changes and not self._groups[key] and not isinstance(override.value(), dict)

    def _base(self, overrides: tuple[str, ...]) -> DictConfig:
        if overrides not in self._bases:
            self._bases[overrides] = self._compose(overrides)
        config = copy.deepcopy(self._bases[overrides])
        OmegaConf.copy_cache(from_config=self.master, to_config=config)
        return config

    def _compose(self, overrides: Sequence[str]) -> DictConfig:
        config = self.loader.load_sweep_config(self.master, list(overrides))
        assert isinstance(config, DictConfig)
        return config

    def _set(self, config: DictConfig, parsed: list[Override], plain: list[Override]) -> DictConfig:
        for override in plain:
            OmegaConf.update(config, override.key_or_group, override.value(), merge=True)
        own = [override for override in parsed if not override.is_hydra_override()]
        with open_dict(config.hydra):
            config.hydra.overrides.task = [override.input_line for override in own]
            names = config.hydra.job.config.override_dirname
            kept = sorted(str(one.input_line) for one in own if one.key_or_group not in names.exclude_keys)
            config.hydra.job.override_dirname = names.item_sep.join(kept).replace("=", names.kv_sep)
        return config


@contextmanager
def current(config: Any) -> Iterator[None]:
    """Makes HydraConfig return this configuration while the block runs, without the copy that `set_config` makes."""
    before = HydraConfig.instance().cfg
    HydraConfig.instance().cfg = config
    try:
        yield
    finally:
        HydraConfig.instance().cfg = before
