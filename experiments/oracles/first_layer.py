"""Trains the first layer of six binary layers by an estimator's gradient or the exact one; chooses learning rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from experiments.oracles import deep_binary
from experiments.oracles.contenders import Contender
from experiments.oracles.sampling import sample
from experiments.oracles.scores import score
from experiments.oracles.setting import Setting, gradient

Make = Callable[[list[Tensor], float], torch.optim.Optimizer]  # parameters and a learning rate to an optimizer
OPTIMIZERS: dict[str, Make] = {
    "SGD": lambda weights, lr: torch.optim.SGD(weights, lr),
    "Adam": lambda weights, lr: torch.optim.Adam(weights, lr),
}
STEPS, DRAWS = 200, 64  # steps of a training; samples of a step's gradient


def train(seed: int, arm: Contender | None, optimizer: Make, lr: float) -> Tensor:
    """The exact loss before each step and after the last, (STEPS + 1,); without an arm by the exact gradient."""
    setting, net = deep_binary.random_setting(deep_binary.DEPTHS[-1], seed)
    weights = setting.parameters.clone().requires_grad_()
    made, losses = optimizer([weights], lr), []
    for step in range(STEPS):
        here = weights.detach().clone()
        losses.append(net.expected(here))
        weights.grad = gradient(net.expected, here) if arm is None else _estimate(arm, setting, here, seed + step)
        made.step()
    return torch.stack([*losses, net.expected(weights.detach())])


def direction(arm: Contender, seeds: Sequence[int]) -> tuple[float, float]:
    """Mean cosine and median best scale of an estimator's gradient before training, over the nets of `seeds`."""
    found = [deep_binary.random_setting(deep_binary.DEPTHS[-1], seed)[0] for seed in seeds]
    scores = [score(sample(arm, setting).gradients, setting.truth) for setting in found]
    scales = torch.tensor([s.scale or 0.0 for s in scores])
    return sum(s.cosine or 0.0 for s in scores) / len(scores), float(scales.median())


def choose_rates(grids: Mapping[str, Sequence[float]], seeds: Sequence[int]) -> dict[str, float]:
    """By optimizer the smallest rate with which the exact gradient gets half of the largest decrease.

    Decreases are those after all steps, means over the nets of `seeds`; the largest is over all optimizers and rates.
    """
    decreases = {(by, lr): _decrease(seeds, OPTIMIZERS[by], lr) for by, grid in grids.items() for lr in grid}
    enough = 0.5 * max(decreases.values())
    return {by: next(lr for lr in sorted(grid) if decreases[by, lr] >= enough) for by, grid in grids.items()}


def _decrease(seeds: Sequence[int], optimizer: Make, lr: float) -> float:
    curves = [train(seed, None, optimizer, lr) for seed in seeds]
    return sum(float(curve[0] - curve[-1]) for curve in curves) / len(curves)


def _estimate(arm: Contender, setting: Setting, weights: Tensor, seed: int) -> Tensor:
    return sample(arm, replace(setting, parameters=weights), seed, DRAWS).gradients.mean(0)
