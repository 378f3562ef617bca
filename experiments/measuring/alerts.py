"""Finds faults of a training that continues: parameters without a gradient, and learned values at their floor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from experiments.measuring.learned_values import floors
from experiments.measuring.parameter_names import trained_parameters

SHARE = 0.1  # of training: a parameter without a gradient for this long is named


class Alerts:
    """Describes each fault of one model once, from the values that a training of `steps` steps logs.

    - A parameter whose gradient was exactly 0, or None, at every logged step for a tenth of training.
    - A learned scale or clip that reached its floor.
    """

    def __init__(self, model: nn.Module, steps: int) -> None:
        self.model, self.steps = model, steps
        self.floors = floors(model)
        self.zero_since: dict[str, int] = {}  # by parameter: the first logged step of those without a gradient
        self.told: set[str] = set()  # parameters and tags

    def __call__(self, step: int, values: Mapping[str, float]) -> list[str]:
        """Returns the new faults at a logged step, from its values by tag."""
        return [*self._find_dead(step, values), *self._find_floors(step, values)]

    def _find_dead(self, step: int, values: Mapping[str, float]) -> Iterator[str]:
        named: dict[int, list[str]] = {}
        for name in trained_parameters(self.model):
            if values.get(f"grad_norm/{name}", 0.0) != 0:
                self.zero_since.pop(name, None)
                continue
            since = self.zero_since.setdefault(name, step)
            if name not in self.told and step - since >= SHARE * self.steps:
                self.told.add(name)
                named.setdefault(since, []).append(name)
        for since, names in named.items():
            yield f"at every logged step from {since} to {step} the gradient is exactly 0 or None of {', '.join(names)}"

    def _find_floors(self, step: int, values: Mapping[str, float]) -> Iterator[str]:
        for tag, floor in self.floors.items():
            if tag not in self.told and values[tag] <= floor:
                self.told.add(tag)
                yield f"{tag} reached its floor {floor:.3g} by step {step}; no smaller value can act"

    def state(self) -> dict[str, Any]:
        """Returns the state for a checkpoint."""
        return {"zero_since": dict(self.zero_since), "told": sorted(self.told)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Loads a checkpoint's state."""
        self.zero_since, self.told = dict(state["zero_since"]), set(state["told"])
