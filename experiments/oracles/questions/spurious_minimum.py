"""Which derivative descends: gradient descent with a teacher and a student, from the spurious minimum."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from experiments.measuring.alignment import cosine, scale
from experiments.oracles import teacher_student
from experiments.oracles.answer import Answer, Check, Table
from experiments.oracles.setting import normal
from experiments.oracles.teacher_student import SLOPES, Problem, Slope
from experiments.plotting import COLOURS, style

STILL = ("relu", "clipped relu")
STARTS, STEPS, RATE, REACHED = 40, 1500, 0.05, 0.01
FROM = 0.05  # from the spurious minimum along a direction across w


def answer() -> Answer:
    """Six derivatives: 3000 steps at rate 0.05, and the angle to the truth at ten random students."""
    p = teacher_student.problem()
    v, w = p.spurious()
    aside = normal((5,), 63)
    aside = aside - (aside @ p.w_star) * p.w_star
    w = w + FROM * aside / aside.norm()
    runs = {name: p.descend(slope, v, w, steps=3000) for name, slope in SLOPES.items()}
    rises = {name: int((losses.diff() > 1e-12).sum()) for name, (losses, _) in runs.items()}
    found = {name: _against_truth(p, slope) for name, slope in SLOPES.items()}
    across = [float(scale) for tangential, _ in found.values() for scale in tangential[:, 1]]
    still = [name for name in SLOPES if rises[name] == 0]
    rows = [
        (
            name,
            str(rises[name]),
            f"{losses.max():.4f}",
            f"{losses[-1]:.4f}",
            f"{lengths.min():.2g}",
            *_texts(found[name][1]),
        )
        for name, (losses, lengths) in runs.items()
    ]
    reached, rising = _from_random_starts(p)
    least = min(float(tangential[:, 0].min()) for tangential, _ in found.values())
    checks = [
        Check(
            "the identity's loss rises, the ReLU's never does",
            f"rising steps: identity {rises['identity']}, ReLU {rises['relu']}",
            rises["identity"] > 0 == rises["relu"],
        ),
        Check(
            "the loss rises for every two-sided derivative and for no one-sided one",
            f"never rising: {', '.join(still)}",
            set(still) == set(STILL),
        ),
        Check(
            "orthogonal to w, the expected gradient of all six derivatives has the true direction",
            f"smallest cosine {least:.10f}, best scale {min(across):.2g} to {max(across):.2g}",
            least > 1 - 1e-9,
        ),
        Check(
            "from random starts all six reach the global minimum about equally often: shares within 0.3 of each other",
            ", ".join(f"{name} {share:.2f}" for name, share in reached.items()),
            max(reached.values()) - min(reached.values()) < 0.3,
        ),
    ]
    head = ("derivative", "rising steps", "highest loss", "last loss", "smallest length of w", "cosine", "best scale")
    start = runs["relu"][0][0]
    title = (
        f"Loss at the start {start:.4f}; 2999 steps. Cosine (mean) and best scale (median) are those of the whole "
        "gradient at ten random students."
    )
    found_at_random = Table(
        f"{STARTS} random starts, {STEPS} steps at rate {RATE:g}: share of starts that end with a loss below "
        f"{REACHED:g}, and share in which the loss rose.",
        ("derivative", "global minimum", "rose"),
        [(name, f"{reached[name]:.3g}", f"{rising[name]:.3g}") for name in SLOPES],
    )
    remarks = (
        "The derivatives disagree along w, where the loss is flat. This part changes the length of w, and through it "
        "the step. The theorem for the ReLU requires that the length of w stays away from 0; the table gives its "
        f"smallest value. With {STARTS} starts a share has a standard error of up to {0.5 / STARTS**0.5:.2f}."
    )
    return Answer(checks, [Table(title, head, rows), found_at_random], remarks, _figure(runs))


def _from_random_starts(p: Problem) -> tuple[dict[str, float], dict[str, float]]:
    """By derivative the share of starts that end at the global minimum, and that in which the loss rose."""
    reached, rising = {}, {}
    for name, slope in SLOPES.items():
        losses = torch.stack(
            [p.descend(slope, normal((4,), 500 + i), normal((5,), 600 + i), RATE, STEPS)[0] for i in range(STARTS)]
        )
        reached[name] = float((losses[:, -1] < REACHED).double().mean())
        rising[name] = float((losses.diff() > 1e-12).any(1).double().mean())
    return reached, rising


def _texts(whole: Tensor) -> tuple[str, str]:
    return f"{whole[:, 0].mean():.3f}", f"{whole[:, 1].median():.3g}"


def _against_truth(p: Problem, slope: Slope) -> tuple[Tensor, Tensor]:
    """Over ten students, cosine and best scale of the expected gradient across w, and of all of it, (10, 2) each."""
    across, whole = [], []
    for seed in range(100, 110):
        v, w = normal((4,), seed), normal((5,), seed + 50)
        mean, truth, u = p.mean(slope, v, w), p.gradient_w(v, w), w / w.norm()
        across.append(_direction(mean - (mean @ u) * u, truth))
        whole.append(_direction(mean, truth))
    return torch.stack(across), torch.stack(whole)


def _direction(mean: Tensor, truth: Tensor) -> Tensor:
    return torch.stack([cosine(mean, truth), scale(mean, truth)])


def _figure(runs: dict[str, tuple[Tensor, Tensor]]) -> Any:
    with style() as figure_class:
        figure = figure_class(figsize=(9, 3.2))
        left, right = figure.subplots(1, 2)
        for (name, (losses, lengths)), colour in zip(runs.items(), COLOURS, strict=False):
            left.plot(losses, color=colour, label=name, linewidth=1.1)
            right.plot(lengths, color=colour, linewidth=1.1)
        left.set(title="population loss", xlabel="step")
        right.set(title="length of w", xlabel="step", yscale="log")
        figure.subplots_adjust(left=0.06, right=0.99, top=0.9, bottom=0.28)
        figure.legend(*left.get_legend_handles_labels(), loc="lower center", ncols=6)
    return figure
