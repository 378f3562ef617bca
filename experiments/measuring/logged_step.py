"""Reads the numbers of each replica at a logged step, with their tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from experiments.measuring.gradients import total
from experiments.measuring.layer_probe import Reading, by_tag
from experiments.measuring.log_window import LogWindow
from experiments.measuring.nonfinite import StepNumbers


@dataclass(frozen=True)
class LoggedStep:
    """The `numbers` in which NaN or infinity would appear, and the `values` to log by tag."""

    numbers: StepNumbers
    values: dict[str, float]


def read_step(
    window: LogWindow,
    gradient_norms: Mapping[str, Tensor],
    weight_norms: Mapping[str, Tensor],
    temperatures: Mapping[str, Tensor],
    readings: Sequence[Reading],
) -> list[LoggedStep]:
    """Reads a step by replica, moving all from the device at once; tensors are (R,) by name, norms before clipping."""
    layers = [row for reading in readings for row in reading.sums.values()]
    rows = [*gradient_norms.values(), *weight_norms.values(), *temperatures.values(), *layers]
    steps = []
    for losses, clipped, others in window.read(rows):
        rest = iter(others)
        gradient, weight, temperature = (
            dict(zip(names, rest, strict=False)) for names in (gradient_norms, weight_norms, temperatures)
        )
        values = {
            "loss/train": window.mean(losses),
            "grad_norm/total": total(gradient),
            **{f"grad_norm/{name}": norm for name, norm in gradient.items()},
            "clip_fraction": clipped,
            **by_tag(readings, list(rest)),
        }
        steps.append(LoggedStep(StepNumbers(losses, gradient, weight, temperature, bool(window.clipped)), values))
    return steps
