"""Prepares the runs of a stack: builds models, claims folders, and chooses checkpoints to resume from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import nn

from experiments.config.choices import Choices, choose
from experiments.terminal.console import fold
from experiments.tracking import checkpoint
from experiments.tracking.run_folder import RunFolder
from experiments.training.build import build_model, drop_unused_knobs, prepare
from experiments.training.needs import note_long
from experiments.training.record import Record
from experiments.training.request import Outcome, Request
from experiments.training.run_files import claim
from experiments.training.together import together

Ending = Outcome | Exception


class Built(NamedTuple):
    """A run with a model; its folder is not yet claimed."""

    number: int
    request: Request
    choices: Choices
    model: nn.Module
    notes: list[str]


@dataclass
class Member:
    """A run with a model and a claimed folder; `states` are its checkpoints, the newest first."""

    number: int
    request: Request
    choices: Choices
    model: nn.Module
    folder: RunFolder
    states: list[dict[str, Any]]
    record: Record | None = None

    @property
    def steps(self) -> list[int]:
        """The steps of the checkpoints, the newest first; [0] without a checkpoint."""
        return [int(state["trainer"]["step"]) for state in self.states] or [0]

    def go_back(self, step: int) -> None:
        """Keeps only the checkpoint of one step, in memory and on disk, so that all members resume from that step."""
        if self.steps[0] != step:
            checkpoint.go_back(self.folder.checkpoints, to_start=step == 0)
        self.states = [state for state in self.states if state["trainer"]["step"] == step][:1]


def claim_members(requests: Sequence[Request | None], endings: dict[int, Ending], held: ExitStack) -> list[Member]:
    """Builds the runs and claims their folders. An error of a run goes into `endings`; that run is not returned."""

    def claim_one(built: Built) -> Member | None:
        try:
            folder = held.enter_context(claim(built.request, built.choices))
            states = checkpoint.load_whole(folder.checkpoints, folder.config_hash) if folder.resumed else []
        except Exception as error:
            endings[built.number] = error
            return None
        for note in built.notes:
            folder.say(fold(f"note: {note}"))
        return Member(built.number, built.request, built.choices, built.model, folder, states)

    return [member for member in together(claim_one, _build(requests, endings)) if member is not None]


def _build(requests: Sequence[Request | None], endings: dict[int, Ending]) -> Iterator[Built]:
    """Builds each run's model before its folder is claimed."""
    for number, request in enumerate(requests):
        if request is None:
            continue
        try:
            choices = choose(request.config)
            prepare(choices.settings.threads, choices.settings.device)
            model = build_model(choices, training=True)
            notes = [*drop_unused_knobs(choices.plain, model, request.overrides), *note_long(choices)]
        except Exception as error:
            endings[number] = error
        else:
            yield Built(number, request, choices, model, notes)


def group_by_step(members: Sequence[Member]) -> Iterator[list[Member]]:
    """Yields groups of members that can resume from the same step.

    If a kill came while checkpoints were written, some members are one checkpoint ahead. All members start from the
    beginning if that takes fewer steps, for example if some have no checkpoint yet.
    """
    groups = _share_steps(members)
    last = members[0].choices.settings.max_steps if members else 0
    if len(groups) > 1 and sum(last - step for step in groups) > last:
        groups = {0: list(members)}
    for step, some in groups.items():
        for member in some:
            member.go_back(step)
        yield some


def _share_steps(members: Sequence[Member]) -> dict[int, list[Member]]:
    groups: dict[int, list[Member]] = {}
    left = list(members)
    while left:
        step = min(member.steps[0] for member in left)
        groups[step] = [member for member in left if step in member.steps]
        left = [member for member in left if member not in groups[step]]
    return groups
