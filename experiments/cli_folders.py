"""The folder that Hydra makes for a job before anybody has looked at its configuration."""

from __future__ import annotations

from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode


def remove_empty(folder: Path, since: float) -> None:
    """Removes a refused job's folder if it is empty and newer than `since`, and empty ones above it made by Hydra."""
    settings = HydraConfig.get()
    start = Path(settings.runtime.cwd)
    if settings.mode == RunMode.MULTIRUN:
        top = start / settings.sweep.dir
    elif any(override.startswith("hydra.run.dir=") for override in settings.overrides.hydra):
        top = folder.parent  # which may be somebody's own
    else:
        top = start
    try:
        if folder.stat().st_mtime < since:
            return
        for path in (folder, *folder.parents):
            if path == top or not path.is_relative_to(top):
                return
            path.rmdir()
    except OSError:
        return
