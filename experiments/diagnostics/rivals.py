"""Compares the running strategy's gradient with those of all others, on the same weights, batch and noise keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from experiments.diagnostics.point import Point
from experiments.measuring.alignment import cosine, scale
from experiments.tracking.tags import tag
from surrogates import hard_layers, members
from surrogates.core import Op, Strategy
from surrogates.hard_layer import HardLayer
from surrogates.members import OVER_TRAINING, variants

NOT_A_CHOICE = {*OVER_TRAINING, "temperature", "final_temperature", "kernel"}


def rival_tags(point: Point, gradient: Tensor) -> dict[str, float]:
    """Returns for every rival the cosine of r and g, and the scale <r, g> / <r, r>.

    g is the running strategy's gradient, r the rival's. `scale` measures g in units of r. A rival without a gradient
    has neither number.
    """
    values: dict[str, float] = {}
    for name, strategy in rivals(point):
        with_strategy(point, strategy)
        other = point.gradient()
        angle, factor = float(cosine(other, gradient)), float(scale(other, gradient))
        if angle == angle and factor == factor:
            values |= {tag(name, "cosine"): angle, tag(name, "scale"): factor}
    return values


def rivals(point: Point) -> list[tuple[str, Strategy]]:
    """Yields every strategy but the running one that applies to all hard layers, with every kernel and named choice.

    A rival takes the running temperature if there is one and the rival allows it; its kernel has the interquartile
    range of the running kernel.
    """
    layers = list(hard_layers(point.model).values())
    if not layers:
        return []
    running = layers[0].acting
    own = _identity(running, [layer.op for layer in layers])
    found = []
    for stem, cls in members.strategies().items():
        for name, strategy in variants(stem, cls, layers[0].op):
            for suffix, fitted in _fits(strategy, layers):
                if _identity(fitted, [layer.op for layer in layers]) != own:
                    found.append(((name + suffix).replace(" ", "-"), fitted))
    return found


def _fits(strategy: Strategy, layers: list[HardLayer]) -> Iterator[tuple[str, Strategy]]:
    """Yields the strategy under every kernel if it uses one, at the running temperature."""
    used = frozenset().union(*(strategy.uses(layer.op) for layer in layers))
    for kernel, fitted in members.under_each_kernel(strategy, [layer.op for layer in layers]):
        if "temperature" in used and layers[0].temperature is not None:
            fitted = members.at_width(fitted, float(layers[0].temperature), _running_kernel(layers[0]), fitted.kernel)
        yield ("" if kernel is None else f" {kernel}"), fitted


def _running_kernel(layer: HardLayer) -> str | None:
    return layer.acting.kernel if "kernel" in layer.acting.uses(layer.op) else None


def _identity(strategy: Strategy, ops: list[Op]) -> tuple[Any, ...]:
    """Returns the choices that distinguish strategies on these ops, at any temperature."""
    names = [field.name for field in fields(strategy) if field.name not in NOT_A_CHOICE]
    choices = {name: getattr(strategy, name) for name in names}
    uses_kernel = any("kernel" in strategy.uses(op) for op in ops)
    return type(strategy), choices, strategy.kernel if uses_kernel else None


def with_strategy(point: Point, strategy: Strategy) -> None:
    """Puts a strategy, at its own temperature, into all hard layers of the copy."""
    for layer in hard_layers(point.model).values():
        layer.strategy, layer.acting, layer.clock = strategy, strategy.at(0.0), None
        start = strategy.temperature_at(0.0) if "temperature" in strategy.uses(layer.op) else None
        layer.temperature = None if start is None else torch.tensor(start, device=point.theta.device)
