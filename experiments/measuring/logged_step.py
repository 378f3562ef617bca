"""Reads the numbers of each replica at a logged step, with their tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from experiments.measuring.gradients import total
from experiments.measuring.layer_probe import Reading, by_tag
from experiments.measuring.learned_values import learned_values
from experiments.measuring.log_window import LogWindow
from experiments.measuring.nonfinite import StepNumbers
from experiments.measuring.parameter_names import readable
from surrogates import hard_layers


@dataclass(frozen=True)
class LoggedStep:
    """The `numbers` in which NaN or infinity would appear, and the `values` to log by tag."""

    numbers: StepNumbers
    values: dict[str, float]


@dataclass(frozen=True)
class ModelState:
    """What a step measures at parameters and hard layers; tensors are (R,) by name, `learned` by tag.

    Gradient norms are those before clipping.
    """

    gradients: Mapping[str, Tensor]
    temperatures: Mapping[str, Tensor]
    learned: Mapping[str, Tensor]
    readings: Sequence[Reading]

    @classmethod
    def of(
        cls, model: nn.Module, gradients: Mapping[str, Tensor], readings: Sequence[Reading], replicas: int = 1
    ) -> ModelState:
        """Reads temperatures and learned values of a model, or of a stack of `replicas`."""
        return cls(gradients, temperatures(model), learned_values(model, replicas), readings)

    @property
    def rows(self) -> list[Tensor]:
        """All tensors (R,), in the order in which `tags` expects their numbers."""
        layers = [row for reading in self.readings for row in reading.sums.values()]
        return [*self.gradients.values(), *self.temperatures.values(), *self.learned.values(), *layers]

    def tags(self, numbers: Sequence[float]) -> dict[str, float]:
        """Returns the values of one replica by tag, from its numbers."""
        rest = iter(numbers)
        gradients, temperatures, learned = (
            dict(zip(names, rest, strict=False)) for names in (self.gradients, self.temperatures, self.learned)
        )
        return {
            "grad_norm/total": total(gradients),
            **{f"grad_norm/{name}": norm for name, norm in gradients.items()},
            **by_tag(self.readings, list(rest)),
            **{f"op/{name}/temperature": temperature for name, temperature in temperatures.items()},
            **learned,
        }


def temperatures(model: nn.Module) -> dict[str, Tensor]:
    """Returns the temperature of each hard layer that has one, by readable name."""
    layers = hard_layers(model).items()
    return {readable(name): layer.temperature for name, layer in layers if layer.temperature is not None}


def read_step(window: LogWindow, weight_norms: Mapping[str, Tensor], state: ModelState) -> list[LoggedStep]:
    """Reads a step by replica, moving all numbers from the device at once."""
    steps = []
    for losses, clipped, others in window.read([*weight_norms.values(), *state.rows]):
        weights, values = dict(zip(weight_norms, others, strict=False)), state.tags(others[len(weight_norms) :])
        numbers = StepNumbers(
            losses,
            {name: values[f"grad_norm/{name}"] for name in state.gradients},
            weights,
            {name: values[f"op/{name}/temperature"] for name in state.temperatures},
            bool(window.clipped),
        )
        logged = {"loss/train": window.mean(losses), "clip_fraction": clipped, **values}
        steps.append(LoggedStep(numbers, logged))
    return steps
