"""The stacks of an earlier command, for the jobs that are still to end: the same members, in the same places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.sweep.manifest import Stack

Places = tuple[int | None, ...]  # of a stack's replicas: the number of the job, None where the run is over


def restored(hashes: Mapping[int, str], stacks: Sequence[Stack]) -> dict[Stack, Places]:
    """The stacks to which jobs, given by their configurations' hashes, belong: the last one that names each.

    What a replica computes may depend, in its last bit, on the shape of its stack, and not on what else is in it: so a
    run that is over keeps its place, with nothing of its own in it.
    """
    owner = {member: stack for stack in stacks for member in stack.members}
    seated: dict[Stack, dict[str, int]] = {}
    for job, digest in hashes.items():
        if digest in owner:
            seated.setdefault(owner[digest], {}).setdefault(digest, job)
    return {stack: tuple(map(jobs.get, stack.members)) for stack, jobs in seated.items()}
