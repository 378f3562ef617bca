"""Which derivative descends: gradient descent with a teacher and a student, from the spurious minimum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from experiments.oracles.answer import Answer, Check, Table
from experiments.oracles.intervals import mean_interval, share_interval, together
from experiments.oracles.students import beside_minimum, directions, random_students
from experiments.oracles.teacher_student import SLOPES, Problem, random_teachers
from experiments.oracles.verdicts import within, words
from experiments.plotting import COLOURS, style

ONE_SIDED = ("relu", "clipped relu")
TEACHERS, STUDENTS, SEED = 10, 10, 6000
STARTS, STEPS, RATE, REACHED = 40, 1500, 0.05, 0.01
BESIDE, LONG = 0.05, 3000  # distance from the spurious minimum across w; steps from there
DRAWN = 600  # of these steps
MARGIN = 0.1
RISE = 1e-12  # a larger increase of the loss is no rounding

Runs = dict[str, tuple[Tensor, Tensor]]  # by derivative, loss and |w| before each step, (steps, ...) each


def answer() -> Answer:
    """Six derivatives: from beside the spurious minimum, at random students, and from random starts."""
    p = random_teachers(TEACHERS, SEED)
    near = beside_minimum(p, BESIDE, SEED + 2)
    beside = {name: p.descend(slope, *near, RATE, LONG) for name, slope in SLOPES.items()}
    many = Problem(p.v_star.unsqueeze(1), p.w_star.unsqueeze(1))
    students, starts = random_students(p, STUDENTS, SEED + 3), random_students(p, STARTS, SEED + 5)
    angles = {name: directions(many, slope, *students) for name, slope in SLOPES.items()}
    losses = {name: many.descend(slope, *starts, RATE, STEPS)[0] for name, slope in SLOPES.items()}
    remarks = (
        f"{TEACHERS} random teachers of 4 units and 5 inputs that have a spurious minimum, |v*| = 1.5; seeds {SEED} to "
        f"{SEED + 6}. The derivatives disagree along w, where the loss is flat. This part changes the length of w, and "
        "through it the step. The theorem for the ReLU requires that the length of w stays away from 0."
    )
    checks = [*_check_rises(beside), _check_directions(angles), _check_starts(losses)]
    return Answer(checks, [_beside_table(beside, angles), _starts_table(losses)], remarks, _figure(beside))


def _rose(losses: Tensor) -> Tensor:
    """Whether the loss rose by more than rounding at any step."""
    return (losses.diff(dim=0) > RISE).any(0)


def _check_rises(beside: Runs) -> list[Check]:
    counts = {name: int(_rose(losses).sum()) for name, (losses, _) in beside.items()}
    two_sided = [name for name in SLOPES if name not in ONE_SIDED]
    return [
        Check(
            f"beside the spurious minimum the loss rises for every two-sided derivative, with all {TEACHERS} teachers",
            _count_text(counts, two_sided),
            all(counts[name] == TEACHERS for name in two_sided),
        ),
        Check(
            f"there it rises for no one-sided derivative, with any of {TEACHERS} teachers",
            _count_text(counts, ONE_SIDED),
            not any(counts[name] for name in ONE_SIDED),
        ),
    ]


def _count_text(counts: dict[str, int], names: Iterable[str]) -> str:
    return "share of teachers: " + ", ".join(
        f"{name} {words(share_interval(counts[name], TEACHERS))}" for name in names
    )


def _check_directions(angles: dict[str, tuple[Tensor, Tensor]]) -> Check:
    across = torch.stack([found for found, _ in angles.values()])
    least, scales = float(across[..., 0].min()), across[..., 1]
    return Check(
        "orthogonal to w, the expected gradient of all six derivatives has the true direction",
        f"smallest cosine {least:.10f}, best scale {scales.min():.2g} to {scales.max():.2g}",
        least > 1 - 1e-9,
    )


def _check_starts(losses: dict[str, Tensor]) -> Check:
    reached = _find_reached(losses)
    leads = {
        name: mean_interval((reached[name] - reached["identity"]).tolist(), level=together(len(SLOPES) - 1))
        for name in SLOPES
        if name != "identity"
    }
    return Check(
        "from random starts each derivative reaches the global minimum as often as the identity, within "
        f"{100 * MARGIN:.0f} points",
        "difference of shares: " + ", ".join(f"{name} {words(lead, '+.3f')}" for name, lead in leads.items()),
        within(leads.values(), -MARGIN, MARGIN),
    )


def _find_reached(losses: dict[str, Tensor]) -> dict[str, Tensor]:
    """By derivative and teacher the share of starts that end at the global minimum, (TEACHERS,)."""
    return {name: (found[-1] < REACHED).double().mean(-1) for name, found in losses.items()}


def _beside_table(beside: Runs, angles: dict[str, tuple[Tensor, Tensor]]) -> Table:
    rows = []
    for name, (losses, lengths) in beside.items():
        rising = (losses.diff(dim=0) > RISE).sum(0).double().median()
        highest, last = (losses.amax(0) / losses[0]).median(), (losses[-1] / losses[0]).median()
        cosines = mean_interval(angles[name][1][..., 0].mean(1).tolist())
        scales = angles[name][1][..., 1].median()
        rows.append(
            (
                name,
                f"{rising:.0f}",
                f"{highest:.3g}",
                f"{last:.3g}",
                f"{lengths.min():.2g}",
                words(cosines, ".3f"),
                f"{scales:.3g}",
            )
        )
    head = ("derivative", "rising steps", "highest loss", "last loss", "smallest length of w", "cosine", "best scale")
    title = (
        f"From beside the spurious minimum, {LONG} steps: medians of the teachers, losses relative to the start; the "
        f"smallest length of w of all. Cosine (mean, with its interval over teachers) and best scale (median) of the "
        f"whole gradient at {STUDENTS} random students a teacher."
    )
    return Table(title, head, rows)


def _starts_table(losses: dict[str, Tensor]) -> Table:
    reached = _find_reached(losses)
    rose = {name: _rose(found).double().mean(-1) for name, found in losses.items()}
    title = (
        f"{STARTS} random starts a teacher, {STEPS} steps: share of starts that end with a loss below {REACHED:g}, and "
        "share in which the loss rose, means of the teachers with their intervals."
    )
    rows = [(name, *(words(mean_interval(of[name].tolist())) for of in (reached, rose))) for name in SLOPES]
    return Table(title, ("derivative", "global minimum", "rose"), rows)


def _figure(beside: Runs) -> Any:
    with style() as figure_class:
        figure = figure_class(figsize=(9, 3.2))
        left, right = figure.subplots(1, 2)
        for (name, (losses, lengths)), colour in zip(beside.items(), COLOURS, strict=False):
            below = name == ONE_SIDED[0]  # one-sided derivatives have nearly the same curve
            drawn = {"color": colour, "linewidth": 3 if below else 1}
            left.plot(losses[:DRAWN, 0], label=name, **drawn)
            right.plot(lengths[:DRAWN, 0], **drawn)
        left.set(title="population loss, first teacher", xlabel="step")
        right.set(title="length of w, first teacher", xlabel="step", yscale="log")
        figure.subplots_adjust(left=0.06, right=0.99, top=0.9, bottom=0.28)
        figure.legend(*left.get_legend_handles_labels(), loc="lower center", ncols=6)
    return figure
