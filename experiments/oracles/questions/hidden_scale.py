"""Whether a normalised optimizer hides the wrong scale of a gradient: the first of six binary layers, SGD and Adam."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from experiments.oracles import deep_binary, figures
from experiments.oracles.answer import Answer, Check, Table
from experiments.oracles.contenders import Contender, contenders
from experiments.oracles.sampling import sample
from experiments.oracles.scores import GradientScore, score
from experiments.oracles.setting import Setting, gradient
from experiments.plotting import style

Make = Callable[[list[Tensor]], torch.optim.Optimizer]
DRAWS, STEPS, SHOWN = 64, 200, (20, 200)  # samples of a step's gradient; steps; after which of them it is looked at
OPTIMIZERS: dict[str, Make] = {"SGD": partial(torch.optim.SGD, lr=10.0), "Adam": partial(torch.optim.Adam, lr=0.01)}
TRUE_DIRECTION = 0.95  # cosine of the mean
EXACT = "exact"


def answer() -> Answer:
    """Decrease of the exact loss by each estimator's gradient, as a share of that by the exact gradient."""
    setting, net = deep_binary.settings()[-1], deep_binary.network(deep_binary.DEPTHS[-1])
    arms = {figures.SHOWN[c.name]: c for c in contenders(setting) if c.name in figures.SHOWN}
    curves = {
        (by, name): _train(setting, net, arm, make)
        for by, make in OPTIMIZERS.items()
        for name, arm in {EXACT: None, **arms}.items()
    }
    scores = {name: score(sample(arm, setting).gradients, setting.truth) for name, arm in arms.items()}
    got = {key: [_share(curve, curves[key[0], EXACT], step) for step in SHOWN] for key, curve in curves.items()}
    title = (
        f"First layer at depth {deep_binary.DEPTHS[-1]}, {DRAWS} draws a step, one net: decrease of the exact loss "
        "as a share of the decrease by the exact gradient."
    )
    head = ("", "cosine of the mean", "best scale", *(f"{by}, {step} steps" for by in OPTIMIZERS for step in SHOWN))
    rows = [_row(name, one, [share for by in OPTIMIZERS for share in got[by, name]]) for name, one in scores.items()]
    return Answer(_checks(scores, got), [Table(title, head, rows)], figure=_figure(curves))


def _checks(scores: dict[str, GradientScore], got: dict[tuple[str, str], list[float]]) -> list[Check]:
    right = [name for name, one in scores.items() if (one.cosine or 0) > TRUE_DIRECTION]
    early = {by: [got[by, name][0] for name in right] for by in OPTIMIZERS}
    short = [name for name in right if (scores[name].scale or 0) > 1]
    slower = all(got["SGD", name][0] < 1 for name in short)
    words = {by: f"{min(shares):.2f} to {max(shares):.2f} under {by}" for by, shares in early.items()}
    return [
        Check(
            "under SGD estimators whose gradient is too short are slower than the exact gradient",
            f"share of the exact gradient's decrease after {SHOWN[0]} steps: "
            + ", ".join(f"{name} {got['SGD', name][0]:.2f}" for name in short),
            slower,
        ),
        Check(
            f"among estimators with the right direction (cosine above {TRUE_DIRECTION}) the decrease differs less under"
            " Adam",
            ", ".join(words.values()),
            max(early["Adam"]) - min(early["Adam"]) < 0.5 * (max(early["SGD"]) - min(early["SGD"])),
        ),
    ]


def _train(
    setting: Setting,
    net: deep_binary.DeepBinary,
    arm: Contender | None,
    optimizer: Make,
) -> Tensor:
    """The exact loss before each step and after the last, (STEPS + 1,); without an arm by the exact gradient."""
    weights = setting.parameters.clone().requires_grad_()
    made, losses = optimizer([weights]), []
    for step in range(STEPS):
        here = weights.detach().clone()
        losses.append(net.expected(here))
        moved = replace(setting, parameters=here)
        weights.grad = (
            gradient(net.expected, here) if arm is None else sample(arm, moved, step, DRAWS).gradients.mean(0)
        )
        made.step()
    return torch.stack([*losses, net.expected(weights.detach())])


def _share(curve: Tensor, exact: Tensor, step: int) -> float:
    return float((curve[0] - curve[step]) / (exact[0] - exact[step]))


def _row(name: str, found: GradientScore, shares: list[float]) -> tuple[str, ...]:
    return name, f"{found.cosine:.3f}", f"{found.scale:.3g}", *(f"{share:.2f}" for share in shares)


def _figure(curves: dict[tuple[str, str], Tensor]) -> Any:
    with style() as figure_class:
        figure = figure_class(figsize=(9, 3.2))
        for axes, by in zip(figure.subplots(1, 2), OPTIMIZERS, strict=True):
            for (optimizer, name), curve in curves.items():
                if optimizer == by:
                    axes.plot(curve, label=name, linewidth=1.2, **_line(name))
            axes.set(title=f"expected loss, {by}", xlabel="step")
            exact = curves[by, EXACT]
            axes.set_ylim(float(exact.min()) - 0.005, float(exact[0]) + 0.01)
        figure.subplots_adjust(left=0.06, right=0.99, top=0.9, bottom=0.33)
        figure.legend(*axes.get_legend_handles_labels(), loc="lower center", ncols=5)
    return figure


def _line(name: str) -> dict[str, Any]:
    """Returns colour and dash of a curve; the exact gradient's is grey."""
    if name == EXACT:
        return {"color": "0.6"}
    (contender,) = (contender for contender, label in figures.SHOWN.items() if label == name)
    look = figures.look_of(contender)
    return {"color": look.colour, "linestyle": look.dash}
