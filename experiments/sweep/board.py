"""What TensorBoard shows of a sweep as a whole: the columns of HParams, and a text about its runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.config.config_hash import NOT_HASHED
from experiments.config.keys import hyperparameters
from experiments.sweep.manifest import lock_root, read_manifest
from experiments.sweep.plan import Job
from experiments.sweep.requests import chosen_options
from experiments.sweep.variation import variation
from experiments.terminal.console import short_path
from experiments.tracking.about import NAME, colouring, key_table, text_summary, varied_and_common
from experiments.tracking.event_file import EVENT_FILES, EventFile
from experiments.tracking.hparams import columns_summary

METRICS = {
    "accuracy/val": "validation accuracy",
    "accuracy/test": "test accuracy",
    "loss/val": "validation loss",
    "loss/train": "training loss",
    "grad_norm/total": "gradient norm",
    "accuracy/val_soft": "validation accuracy, soft",
}
NO_COLUMNS = ("experiment", "debug", *NOT_HASHED)  # keys that choose others, or that change no number
MOST_VALUES = 12  # values of one key in the text


def write_board(root: Path, jobs: Sequence[Job]) -> None:
    """Writes `about/` for all jobs in the root's manifest, in place of an earlier one; `jobs` are this command's."""
    folder = root / NAME
    with lock_root(root):
        entries = read_manifest(root)
        varied = variation(entry["overrides"] for entry in entries)
        earlier = list(folder.glob(EVENT_FILES))
        with EventFile(folder) as file:
            file.add(columns_summary([key for key in varied if key not in NO_COLUMNS] or ["strategy"], METRICS))
            text = _text(root, [entry["folder"] for entry in entries], varied, _common(jobs, varied))
            file.add(text_summary(NAME, text))
        for one in earlier:
            one.unlink()


def _common(jobs: Sequence[Job], varied: Mapping[str, object]) -> dict[str, object]:
    """The keys that have one value in all jobs."""
    rows = [hyperparameters(job.plain, chosen_options(job.config.hydra)) for job in jobs if job.plain]
    return {key: value for key, value in varied_and_common(rows)[1].items() if key not in varied}


def _text(root: Path, folders: Sequence[str], varied: Mapping[str, list[str]], common: Mapping[str, object]) -> str:
    """What varies, how to colour by it, where the means are, and what is the same in all runs; Markdown."""
    varies = (
        ["What varies:", key_table({key: _list_values(values) for key, values in varied.items()})] if varied else []
    )
    pattern = f"(?:^|/)({'|'.join(varied.get('strategy', []))})(?:/|$)"
    colours = [colouring(pattern)] if all(re.search(pattern, folder) for folder in folders) else []
    means = f"Means and bands over seeds: `hardgrad dashboard {shlex.quote(short_path(root))}`"
    same = ["The same in all runs of the last command:", key_table(common)]
    return "\n\n".join([f"{len(folders)} jobs in {short_path(root)}.", *varies, *colours, means, *same])


def _list_values(values: Sequence[str]) -> str:
    more = f", ... ({len(values)} values)" if len(values) > MOST_VALUES else ""
    return ", ".join(values[:MOST_VALUES]) + more
