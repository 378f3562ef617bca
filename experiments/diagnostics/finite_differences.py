"""Compares a strategy's gradient with finite differences of the hard loss over wide windows.

For any L, (L(theta + h d) - L(theta - h d)) / 2h is exactly the derivative along d of the loss averaged over [-h, h]
along d. So a piecewise-constant loss has a derivative over a window in which decisions flip.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.diagnostics.agreement import agreement
from experiments.diagnostics.point import Point
from surrogates import hard_layers

DIRECTIONS = 64  # of each kind
FLIPS = (30, 300)  # hard outputs that must differ between the ends of a window; of 300, a single one weighs less
NARROWEST, WIDEST = 1e-4, 1.0  # h in units of |theta|; at 1 the window reaches the origin


@dataclass(frozen=True)
class FiniteDifference:
    """One direction: h in units of |theta|, flipped outputs, the predicted and the measured derivative."""

    window: float
    flips: int
    predicted: float
    measured: float


def difference_tags(point: Point, gradient: Tensor) -> dict[str, float]:
    """Returns the agreement along random and coordinate directions, by name, with its windows and flips."""
    values: dict[str, float] = {}
    for kind, directions in (("random", _gaussian), ("coordinate", _coordinates)):
        for needed in FLIPS if hard_layers(point.model) else (0,):
            found = _differences(point, gradient, directions(point), needed)
            values |= {f"{kind}/{needed}_flips/{name}": value for name, value in _summary(found, point).items()}
    return values


def _summary(found: list[FiniteDifference], point: Point) -> dict[str, float]:
    values = {"directions": float(len(found))}
    if found:
        values["window"] = _median([one.window for one in found])
        values["fewest_flips"] = float(min(one.flips for one in found))
    pairs = point.theta.new_tensor([(one.predicted, one.measured) for one in found]).view(-1, 2)
    agreed = agreement(pairs[:, 0], pairs[:, 1], point.step)
    return values if agreed is None else values | agreed.tags()


def _differences(point: Point, gradient: Tensor, directions: Iterator[Tensor], needed: int) -> list[FiniteDifference]:
    """Returns the directions along which enough outputs flip; each search begins at the median of the windows found."""
    found: list[FiniteDifference] = []
    for direction in directions:
        window = _median([one.window for one in found]) if found else NARROWEST
        one = _narrowest(point, gradient, direction, needed, window)
        found += [] if one is None else [one]
    return found


def _narrowest(
    point: Point, gradient: Tensor, direction: Tensor, needed: int, window: float
) -> FiniteDifference | None:
    """Measures in the first of `window`, 2 `window`, ... with enough flips; None if the widest has too few."""
    one = _difference(point, gradient, direction, window)
    if one.flips < needed and _difference(point, gradient, direction, WIDEST).flips < needed:
        return None
    while one.flips < needed and window < WIDEST:
        window = min(2 * window, WIDEST)
        one = _difference(point, gradient, direction, window)
    return one


def _difference(point: Point, gradient: Tensor, direction: Tensor, window: float) -> FiniteDifference:
    h = window * (float(point.theta.norm()) or 1.0)
    up, down = point.hard(h * direction), point.hard(-h * direction)
    return FiniteDifference(window, up.flips(down), float(gradient @ direction), (up.loss - down.loss) / (2 * h))


def _gaussian(point: Point) -> Iterator[Tensor]:
    """Draws unit vectors, uniform on the sphere, on the CPU, so that they are the same on every device."""
    generator = _generator(point)
    for _ in range(DIRECTIONS):
        drawn = torch.randn(len(point.theta), generator=generator, dtype=torch.float64).to(point.theta.device)
        yield drawn / drawn.norm()


def _coordinates(point: Point) -> Iterator[Tensor]:
    """Draws coordinate vectors, without repetition, from all parameters."""
    for index in torch.randperm(len(point.theta), generator=_generator(point))[:DIRECTIONS].tolist():
        direction = torch.zeros_like(point.theta)
        direction[index] = 1.0
        yield direction


def _generator(point: Point) -> torch.Generator:
    return torch.Generator().manual_seed((point.seed * 1_000_003 + point.step) % 2**63)


def _median(numbers: list[float]) -> float:
    return sorted(numbers)[len(numbers) // 2]
