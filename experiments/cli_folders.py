"""The folder that Hydra makes for a job before anybody has looked at its configuration."""

from __future__ import annotations

import time
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

_IMPORTED = time.time()


def remove_empty(folder: Path) -> None:
    """Removes a refused job's folder if it is new and empty, and the empty ones above that Hydra made with it."""
    settings = HydraConfig.get()
    start = Path(settings.runtime.cwd)
    if settings.mode == RunMode.MULTIRUN:
        top = start / settings.sweep.dir
    elif any(override.startswith("hydra.run.dir=") for override in settings.overrides.hydra):
        top = folder.parent  # which may be somebody's own
    else:
        top = start
    try:
        if folder.stat().st_mtime < _IMPORTED:
            return
        for path in (folder, *folder.parents):
            if path == top or not path.is_relative_to(top):
                return
            path.rmdir()
    except OSError:
        return
