"""The configuration that a run folder records, checked to be that run's."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from experiments.config.config_hash import config_hash
from experiments.config.settings import GROUPS
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import check_sealed
from experiments.tracking.strict_json import DamagedFile, read_json
from experiments.tracking.strict_yaml import read_yaml


def read_config(run: RunPaths, status: Mapping[str, Any] | None) -> tuple[dict[str, Any], str]:
    """The nested configuration of a run with this status, if it has one, and its hash.

    Raises DamagedFile, naming the file that is damaged or belongs to another run, and OSError if one cannot be read.
    """
    plain = read_yaml(run.config)
    if not isinstance(plain, dict) or not any(isinstance(plain.get(group), dict) for group in GROUPS):
        raise DamagedFile(run.config, "is not the configuration of a run")
    try:
        digest = config_hash(plain)
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DamagedFile(run.config, f"is not the configuration of a run: {error}") from None
    if status is not None:
        if status["config_hash"] != digest:
            raise _foreign(run, digest, str(status["config_hash"]))
        check_sealed(status, run.config)
    return plain, digest


def _foreign(run: RunPaths, configured: str, noted: str) -> DamagedFile:
    """The error that names the one of `config.yaml` and `status.json` with which the run's other files disagree."""
    if configured in _other_hashes(run):
        return DamagedFile(run.status, f"belongs to another run: its hash is {noted}, that of the rest {configured}")
    was = "was changed or belongs to another run"
    return DamagedFile(run.config, f"{was}: its hash is {configured}, that in {run.status.name} {noted}")


def _other_hashes(run: RunPaths) -> list[object]:
    from experiments.tracking import checkpoint  # imports torch, which the comparison of whole runs does not need

    hashes: list[object] = []
    with suppress(OSError, ValueError, AttributeError):
        hashes.append(read_json(run.result).get("config_hash"))
    for path in (run.last_checkpoint, run.best_checkpoint):
        with suppress(checkpoint.CheckpointError):
            hashes.append(checkpoint.load(path).get("config_hash"))
    return hashes
