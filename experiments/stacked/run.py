"""A group of runs that differ only in stackable keys, from their configurations to their results."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import nn

from experiments.config.choices import Choices, choose
from experiments.data import load as load_data
from experiments.data.dataset import Dataset
from experiments.measuring.nonfinite import Diverged
from experiments.stacked.memory import keep_freed_memory
from experiments.stacked.session import StackedSession
from experiments.stacked.together import together
from experiments.stacked.trainer import StackedTrainer
from experiments.terminal.console import Progress
from experiments.terminal.summary import closing_table
from experiments.tracking import checkpoint
from experiments.tracking.environment import environment
from experiments.tracking.run_errors import LogChanged
from experiments.tracking.run_folder import RunFolder
from experiments.tracking.run_status import DONE
from experiments.tracking.strict_json import write_json
from experiments.training.build import build_model, drop_unused_knobs, floating, prepare
from experiments.training.record import Record
from experiments.training.run import Outcome, Request, broken_off, claim, open_record, title

Ending = Outcome | Exception


class Built(NamedTuple):
    """A run of a group that has no folder yet."""

    number: int
    request: Request
    choices: Choices
    model: nn.Module
    notes: list[str]


@dataclass
class Member:
    """One run of a group; `states` are the checkpoints it could go on from, the newest first."""

    number: int
    request: Request
    choices: Choices
    plain: dict[str, Any]
    model: nn.Module
    folder: RunFolder
    states: list[dict[str, Any]]
    record: Record | None = None


def run_group(requests: Sequence[Request | None], compiled: bool = False) -> list[Ending]:
    """Trains runs as one model; how each ended, in their order: its outcome, or the error that kept it from running.

    A run that cannot have its folder, or diverges, does not touch the others; any other error ends all of them. The
    place of a run that does not train, or is None, is kept: so the others are the same numbers, bit for bit.
    Raises Interrupted with every run's checkpoint written. They must be such as `obstacle` has nothing against.
    """
    keep_freed_memory()
    endings: dict[int, Ending] = {}
    with ExitStack() as held:
        members = _members(requests, endings, held)
        for some in _by_step(members):
            endings.update(_train(some, len(requests), compiled))
    return [endings[number] for number, request in enumerate(requests) if request is not None]


def _members(requests: Sequence[Request | None], endings: dict[int, Ending], held: ExitStack) -> list[Member]:
    """Those that could be built and have their folder; what kept the others from it goes into `endings`."""

    def seated(built: Built) -> Member | None:
        try:
            folder = held.enter_context(claim(built.request, built.choices, built.choices.plain))
            states = checkpoint.load_whole(folder.checkpoints) if folder.resumed else []
        except Exception as error:
            endings[built.number] = error
            return None
        for note in built.notes:
            folder.say(f"note: {note}")
        return Member(built.number, built.request, built.choices, built.choices.plain, built.model, folder, states)

    return [member for member in together(seated, _built(requests, endings)) if member is not None]


def _built(requests: Sequence[Request | None], endings: dict[int, Ending]) -> Iterator[Built]:
    """The models, before anything is claimed."""
    for number, request in enumerate(requests):
        if request is None:
            continue
        try:
            choices = choose(request.config)
            prepare(choices.settings.threads, choices.settings.device)
            model = build_model(choices)
            notes = drop_unused_knobs(choices.plain, model, request.overrides)
        except Exception as error:
            endings[number] = error
        else:
            yield Built(number, request, choices, model, notes)


def _by_step(members: Sequence[Member]) -> Iterator[list[Member]]:
    """Those that can go on from one step, together: a kill between two checkpoints leaves some one checkpoint ahead.

    All begin again where that takes fewer steps, as where the kill came before some had a first checkpoint.
    """
    groups = _of_one_step(members)
    last = members[0].choices.settings.max_steps if members else 0
    if len(groups) > 1 and sum(last - step for step in groups) > last:
        groups = {0: list(members)}
    for step, some in groups.items():
        for member in some:
            _go_back(member, step)
        yield some


def _of_one_step(members: Sequence[Member]) -> dict[int, list[Member]]:
    groups: dict[int, list[Member]] = {}
    left = list(members)
    while left:
        step = min(_steps(member)[0] for member in left)
        groups[step] = [member for member in left if step in _steps(member)]
        left = [member for member in left if member not in groups[step]]
    return groups


def _go_back(member: Member, step: int) -> None:
    """Leaves the state of a step alone, also on the disk, where the next kill could part the members further."""
    if _steps(member)[0] != step:
        checkpoint.go_back(member.folder.checkpoints, to_start=step == 0)
    member.states = [state for state in member.states if state["trainer"]["step"] == step][:1]


def _steps(member: Member) -> list[int]:
    return [int(state["trainer"]["step"]) for state in member.states] or [0]


def _train(members: Sequence[Member], places: int, compiled: bool) -> dict[int, Ending]:
    settings = members[0].choices.settings
    loaded = load_data(members[0].choices.data)
    data = loaded.to(settings.device, floating(settings))
    first = members[0].request
    eager = f"stacked of {places}"
    engine = f"{eager}, compiled" if compiled else eager
    environ = environment(first.argv, settings.threads, settings.device, loaded.hashes(), engine)
    endings: dict[int, Ending] = {}
    try:
        together(lambda member: _open(member, environ, endings), members)
        members = [member for member in members if member.number not in endings]
        if not members:
            return endings
        session = _session(members, places, data, endings, compiled)
        session.train()

        def done(member: Member) -> None:
            if compiled and not session.trainer.compiles:  # the compiler failed
                write_json(member.folder.env, {**environ, "engine": eager})
            endings[member.number] = _done(member, session.results[member.number])  # whatever becomes of the others

        together(done, [member for member in members if member.number in session.results])
    except BaseException as error:
        for member in members:
            if member.number not in endings:
                endings[member.number] = _ended(member, error)
        if not isinstance(error, Exception):
            raise
    return endings


def _open(member: Member, environ: Mapping[str, Any], endings: dict[int, Ending]) -> None:
    """Opens a member's files, or takes it out of the group where its log is not the one that it goes on from."""
    state = member.states[0] if member.states else None
    try:
        settings = member.choices.settings
        member.record = open_record(member.request, member.folder, member.plain, settings, environ, state)
    except LogChanged as error:
        endings[member.number] = _ended(member, error)


def _session(
    members: Sequence[Member], places: int, data: Dataset, endings: dict[int, Ending], compiled: bool
) -> StackedSession:
    """Stacks the models as each would begin alone, or goes on from the checkpoints.

    Copies of the first one are in the places of others.
    """
    seated = {member.number: member for member in members}
    filled = [seated.get(number, members[0]) for number in range(places)]
    models = [
        member.model if member.number == number else copy.deepcopy(member.model) for number, member in enumerate(filled)
    ]
    trainer = StackedTrainer(models, [member.choices for member in filled], data, compiled)
    records = {number: member.record for number, member in seated.items() if member.record is not None}
    steps = trainer.settings.max_steps
    lines = {
        number: Progress(title(member.plain), steps, trainer.step, member.folder) for number, member in seated.items()
    }

    def failed(number: int) -> None:
        error = Diverged(trainer.faults[number], {})
        endings[number] = _ended(seated[number], error)

    session = StackedSession(trainer, records, lines, failed)
    if members[0].states:
        session.restore([member.states[0] for member in filled])
        for member in members:
            member.folder.say(f"continuing {member.folder.path} from step {trainer.step}")
            member.states = []
    return session


def _done(member: Member, result: Mapping[str, Any]) -> Outcome:
    assert member.record is not None
    member.record.close(success=True)
    member.folder.write_status(DONE)
    member.folder.say(closing_table(result, member.folder.path))
    return Outcome(member.folder.path, DONE, result)


def _ended(member: Member, error: BaseException) -> Ending:
    try:
        return broken_off(member.folder, member.record, error)
    except Exception as same:
        return same
    except BaseException:
        return Outcome(member.folder.path, "INTERRUPTED", reason=str(error))
