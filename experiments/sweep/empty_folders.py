"""Removes empty run folders: Hydra makes one before a run is refused, or resumes in its earlier folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hydra.core.hydra_config import HydraConfig


def remove_empty(folder: Path, since: float) -> None:
    """Removes a run's folder if it is empty and newer than `since`, and empty parents that Hydra made."""
    settings = HydraConfig.get()
    chosen = any(override.startswith("hydra.run.dir=") for override in settings.overrides.hydra)
    top = (
        folder.parent if chosen else Path(settings.runtime.cwd)
    )  # the user may have made the parent of a chosen folder
    try:
        if folder.stat().st_mtime >= since:
            _remove(folder, top)
    except OSError:
        return


def remove_empty_below(root: Path, folders: Iterable[Path]) -> None:
    """Removes empty job folders below a sweep's root, and the folders above them that become empty."""
    for folder in folders:
        try:
            _remove(folder, root)
        except OSError:
            continue


def _remove(folder: Path, top: Path) -> None:
    """Removes a folder and then those above it, up to `top`.

    Raises OSError at the first folder that is not empty.
    """
    for path in (folder, *folder.parents):
        if path == top or not path.is_relative_to(top):
            return
        path.rmdir()
