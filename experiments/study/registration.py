"""The copy of the study file in the study's folder, which the folder's runs were made with."""

from __future__ import annotations

import hashlib
from pathlib import Path

from experiments.config.values import ConfigError
from experiments.study.study_file import read_study
from experiments.terminal.console import short_path
from experiments.tracking.flat_config import differences
from experiments.tracking.outputs import check_folder, output_file
from experiments.tracking.run_status import run_folders
from experiments.tracking.strict_yaml import read_yaml

COPY = "study.yaml"
HASH = "study.sha256"  # in the format of sha256sum


def check_registered(path: Path, folder: Path) -> None:
    """Refuses a file that is not the one the folder's runs were made with; comments and layout do not count.

    Raises ConfigError if the file or its copy was changed, OutputRefused if the folder cannot be written to.
    """
    check_folder(folder)
    copy, noted = folder / COPY, folder / HASH
    if next(iter(run_folders(folder)), None) is None:
        return
    if not copy.is_file() or not noted.is_file() or noted.read_text().split()[:1] != [digest(copy)]:
        raise ConfigError(f"{short_path(copy)} is missing or was changed after its runs began; choose another --folder")
    changed = differences(read_yaml(copy), dict(read_study(path).content))
    if changed:
        raise ConfigError(
            f"{path} was changed after runs were made in {short_path(folder)}: {'; '.join(changed)}. "
            "A registered study stays as it is: undo the change, or choose another --folder"
        )


def register(path: Path, folder: Path) -> None:
    """Copies the file and writes its hash, unless there are runs, which keep theirs."""
    if next(iter(run_folders(folder)), None) is None:
        content = path.read_bytes()
        with output_file(folder / COPY) as file:
            file.write(content)
        with output_file(folder / HASH) as file:
            file.write(f"{hashlib.sha256(content).hexdigest()}  {COPY}\n".encode())


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
