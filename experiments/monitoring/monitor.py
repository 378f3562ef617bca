"""`Monitor`: schedules, noise and measurements of hard layers in a training loop of the user's own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from experiments.measuring.alerts import Alerts
from experiments.measuring.gradients import norms_by_name, present_gradients
from experiments.measuring.layer_probe import LayerProbe
from experiments.measuring.log_window import to_numbers
from experiments.measuring.logged_step import ModelState
from experiments.measuring.parameter_names import trained_parameters
from experiments.measuring.probe_batch import flip_rates, gaps, layer_outputs
from surrogates import anneal, hard_layers, key_noise
from surrogates.float32 import require_count
from surrogates.schedules import shares_done


class Monitor:
    """Anneals temperatures, keys noise and measures hard layers, in a training loop of the user's own.

    Make it after the last change of the model, such as `convert`, and call `step()` once for each optimizer step, after
    `backward()` and before `optimizer.step()`. It counts steps from 1. Before each step n it sets
    - the temperatures, as `anneal` does at the share (n - 1) / (steps - 1) of training;
    - the noise, as `key_noise(model, seed, n)` does, with the rank that torch.distributed gives.

    At the first step, at every `log_every` steps and at the last, `step()` returns measurements by tag, with the tags
    and units of `metrics.jsonl` (docs/files.md):
    - `grad_norm/total` and `grad_norm/<parameter>`;
    - `op/<layer>/grad_in_norm`, `grad_out_norm`, `grad_ratio`, `effective_slope`, `zero_gradient_fraction`,
      `saturated_fraction`;
    - `op/<layer>/temperature`, `scale`, `clip`, `offset`, `threshold`: the values that act;
    - with a batch `probe`, `op/<layer>/flip_rate` since the measurement before, and `op/<layer>/soft_hard_gap` if a
      strategy has a soft forward. `probe` is a tensor, a tuple or list of the model's arguments, or a mapping of its
      arguments by name. The model evaluates it without gradients; the model is unchanged.

    It warns, once for each cause, of a parameter whose gradient was exactly 0 or None for a tenth of `steps`, of a
    learned scale or clip at its floor, and of steps after the end of a schedule.

    `steps_per_epoch` is needed by schedules that go by epochs. `start` is the number of steps that a resumed training
    has already made. Forward passes without gradients, such as evaluations, do not count.
    Raises TypeError if the model is no module.
    Raises ValueError if a number is no count, or a schedule goes by epochs and `steps_per_epoch` is None.
    """

    def __init__(
        self,
        model: nn.Module,
        steps: int,
        *,
        seed: int = 0,
        log_every: int = 50,
        probe: Any = None,
        steps_per_epoch: int | None = None,
        start: int = 0,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
        epoch = 1 if steps_per_epoch is None else steps_per_epoch
        require_count(steps=steps, log_every=log_every, steps_per_epoch=epoch)
        require_count(0, start=start)
        strategies = [layer.strategy for layer in hard_layers(model).values()]
        by_epoch = next((strategy for strategy in strategies if strategy.by_epoch), None)
        if by_epoch and steps_per_epoch is None:
            raise ValueError(f"{by_epoch} goes by epochs: give steps_per_epoch, the optimizer steps of one epoch")
        self.model, self.steps, self.seed, self.log_every = model, steps, seed, log_every
        self.steps_per_epoch, self.made = epoch, start
        self._inputs, self._soft = probe, any(strategy.soft_forward for strategy in strategies)
        self._outputs: dict[str, Tensor] = {}  # on the probe batch, at the measurement before
        self._alerts = Alerts(model, steps)
        self._hooks = ExitStack()
        self._prepare()

    def step(self, scaler: torch.amp.GradScaler | None = None) -> dict[str, float]:
        """Measures the step whose gradients are in the parameters, and prepares the next one.

        Returns the measurements by tag, or {} if the step is not measured. With a gradient scaler call it after
        `scaler.unscale_(optimizer)`; the gradients inside the model are then divided by the scale.
        """
        self.made += 1
        values = self._measure(scaler) if self._is_measured(self.made) else {}
        for fault in self._faults(values):
            warnings.warn(fault, stacklevel=2)
        self._prepare()
        return values

    def close(self) -> None:
        """Removes the hooks from the model, if training ends before the last step."""
        self._hooks.close()

    def _is_measured(self, step: int) -> bool:
        return step <= self.steps and (step in (1, self.steps) or step % self.log_every == 0)

    def _prepare(self) -> None:
        """Sets temperatures and noise of the next step, and watches its forward pass if it is measured."""
        step = self.made + 1
        anneal(self.model, *shares_done(min(step, self.steps), self.steps, self.steps_per_epoch))
        key_noise(self.model, self.seed, step)
        if self._is_measured(step):
            self._layers = LayerProbe(self.model)
            self._hooks.enter_context(self._layers.watching())

    def _measure(self, scaler: torch.amp.GradScaler | None) -> dict[str, float]:
        self._hooks.close()
        readings = self._layers.measure(None if scaler is None else torch.tensor(scaler.get_scale()))
        norms = norms_by_name(present_gradients(trained_parameters(self.model)))
        state, compared = ModelState.of(self.model, norms, readings), self._compare_outputs()
        (numbers,) = to_numbers([*compared.values(), *state.rows])
        return {**dict(zip(compared, numbers, strict=False)), **state.tags(numbers[len(compared) :])}

    def _compare_outputs(self) -> dict[str, Tensor]:
        """Flip rates of the hard outputs since the measurement before, and soft-to-hard gaps, on the probe batch."""
        if self._inputs is None:
            return {}
        before, self._outputs = self._outputs, layer_outputs(self.model, self._inputs, "hard")
        rates = flip_rates(before, self._outputs)
        if self._soft:
            key_noise(self.model, self.seed, -self.made)
            rates |= gaps(layer_outputs(self.model, self._inputs, "strategy"), self._outputs)
        return rates

    def _faults(self, values: Mapping[str, float]) -> Iterator[str]:
        if values:
            yield from self._alerts(self.made, values)
        if self.made == self.steps + 1:
            yield (
                f"step {self.made} is after the {self.steps} steps that Monitor was made for: "
                "temperatures stay at the end of their schedule, and nothing is measured"
            )
