"""A study from its file to its report."""

from __future__ import annotations

from pathlib import Path

from experiments.study.protocol import PlannedOnly, Protocol
from experiments.study.registration import check_registered, register
from experiments.study.stage import Caller
from experiments.study.study_file import read_study
from experiments.study.study_report import write_report
from experiments.terminal.console import fold, short_path


def run_study(path: Path, folder: Path, caller: Caller, dry_run: bool = False) -> None:
    """Runs what is missing of a study and writes its report, or with `dry_run` lists what would run.

    Raises a user error before work starts, Unfinished if runs have no score, OutputFailed for a full disk.
    """
    study = read_study(path)
    check_registered(path, folder)
    print(fold(f"question: {study.question}"), fold(f"expectation: {study.expectation}"), sep="\n")
    protocol = Protocol(study, folder, caller, dry_run)
    try:
        protocol.advance(lambda: register(path, folder))
    except PlannedOnly:
        reported = len(study.reporting_seeds)
        print(f"what follows depends on the runs above; each pair is reported with {reported} seeds")
        return
    if not dry_run:
        print(f"\nstudy: {short_path(write_report(protocol))}")
