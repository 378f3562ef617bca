"""Trains a group of runs that differ only in stackable keys, from their requests to their results."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from experiments.data import load as load_data
from experiments.data.dataset import Dataset
from experiments.measuring.nonfinite import Diverged
from experiments.stacked.members import Ending, Member, claim_members, group_by_step
from experiments.stacked.trainer import StackedTrainer
from experiments.terminal.summary import closing_table
from experiments.tracking.environment import environment
from experiments.tracking.loggers.opening import LoggerFailed
from experiments.tracking.run_errors import LogChanged
from experiments.tracking.run_status import DONE, INTERRUPTED
from experiments.training.build import floating
from experiments.training.request import Outcome, Request
from experiments.training.run_files import end_early, open_record
from experiments.training.session import Session
from experiments.training.together import together


def run_group(requests: Sequence[Request | None]) -> list[Ending]:
    """Trains runs as one model; returns the outcome or the error of each, in their order.

    A run that diverges or cannot claim its folder leaves the others unchanged; any other error ends all runs. A run
    that does not train, or is None, keeps its replica slot, so the results of the others stay the same, bit for bit.
    Every request must pass `obstacle`.
    Raises Interrupted at a signal, after every checkpoint is written.
    """
    endings: dict[int, Ending] = {}
    with ExitStack() as held:
        members = claim_members(requests, endings, held)
        for some in group_by_step(members):
            endings.update(_train(some, len(requests)))
    return [endings[number] for number, request in enumerate(requests) if request is not None]


def _train(members: Sequence[Member], slots: int) -> dict[int, Ending]:
    settings = members[0].choices.settings
    loaded = load_data(members[0].choices.data)
    data = loaded.to(settings.device, floating(settings))
    argv, engine = members[0].request.argv, f"stacked of {slots}"
    environ = environment(argv, settings.threads, settings.device, loaded.hashes(), engine)
    endings: dict[int, Ending] = {}
    try:
        together(lambda member: _open(member, environ, endings), members)
        members = [member for member in members if member.number not in endings]
        if not members:
            return endings
        results = _session(members, slots, data, endings).train()

        def close(member: Member) -> None:
            endings[member.number] = _close(member, results[member.number])  # kept even if another member's close fails

        together(close, [member for member in members if member.number in results])
    except BaseException as error:
        for member in members:
            if member.number not in endings:
                endings[member.number] = _end_early(member, error)
        if not isinstance(error, Exception):
            raise
    return endings


def _open(member: Member, environ: Mapping[str, Any], endings: dict[int, Ending]) -> None:
    """Opens a member's files; ends the member if its log does not belong to its checkpoint, or a logger fails."""
    state = member.states[0] if member.states else None
    try:
        member.record = open_record(member.request, member.folder, member.choices, environ, state)
    except (LogChanged, LoggerFailed) as error:
        endings[member.number] = _end_early(member, error)


def _session(members: Sequence[Member], slots: int, data: Dataset, endings: dict[int, Ending]) -> Session:
    """Stacks the models, at their checkpoints if they have any. Copies of the first model fill empty slots."""
    by_number = {member.number: member for member in members}
    filled = [by_number.get(number, members[0]) for number in range(slots)]
    models = [
        member.model if member.number == number else copy.deepcopy(member.model) for number, member in enumerate(filled)
    ]
    trainer = StackedTrainer(models, [member.choices for member in filled], data)
    records = {number: member.record for number, member in by_number.items() if member.record is not None}

    def fail(number: int, error: Diverged) -> None:
        endings[number] = _end_early(by_number[number], error)

    session = Session(trainer, records, fail)
    if members[0].states:
        session.restore([member.states[0] for member in filled])
        for member in members:
            member.folder.say(f"resuming {member.folder.path} from step {trainer.step}")
            member.states = []
    return session


def _close(member: Member, result: Mapping[str, Any]) -> Outcome:
    assert member.record is not None
    member.record.close(success=True)
    member.folder.write_status(DONE)
    member.folder.say(closing_table(result, member.folder.path))
    return Outcome(member.folder.path, DONE, result)


def _end_early(member: Member, error: BaseException) -> Ending:
    try:
        return end_early(member.folder, member.record, error)
    except Exception as same:
        return same
    except BaseException:
        return Outcome(member.folder.path, INTERRUPTED, reason=str(error))
