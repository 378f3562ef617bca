"""Trains one model: its steps, the values measured at them, and its state for a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.config.settings import Settings
from experiments.data.dataset import Dataset
from experiments.data.train_samples import TrainSamples
from experiments.measuring.gradients import GradientRecord, clip, norms, norms_by_name, present_gradients
from experiments.measuring.layer_probe import LayerProbe
from experiments.measuring.log_window import LogWindow
from experiments.measuring.logged_step import ModelState, read_step, temperatures
from experiments.measuring.nonfinite import StepNumbers, describe_fault, is_finite
from experiments.measuring.parameter_names import trained_parameters
from experiments.optimizers.optimizer import Optimizer
from experiments.training.replicas import Values
from experiments.training.schedule import shares_done, training_batches
from surrogates import anneal, hard_layers, key_noise

AUTOCAST = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Trainer:
    """Trains one model step by step, as `Replicas` with R = 1. Seed and step determine everything random."""

    engine = "single"
    replicas = 1

    def __init__(self, model: nn.Module, optimizer: Optimizer, settings: Settings, data: Dataset) -> None:
        self.model = self.template = model
        self.settings, self.data, self.key = settings, data, settings.seed
        self.parameters = trained_parameters(model)
        self.policy = optimizer
        self.optimizer = optimizer.build(self.parameters.values())
        self.device = torch.device(settings.device).type
        self.scaler = torch.amp.GradScaler(self.device, enabled=settings.precision == "float16")
        self.batches = training_batches(settings, data)
        self.samples = TrainSamples(data, [self.batches])
        self.records = [GradientRecord.of(model)]
        self.probe = LayerProbe(model)
        strategies = [(layer.strategy, layer.op) for layer in hard_layers(model).values()]
        self.anneals = any(strategy.changes for strategy, _ in strategies)
        self.noisy = any(strategy.noisy(op) for strategy, op in strategies)
        self.window = LogWindow(settings.device)
        self.step = 0  # training steps made
        self._updates = 0  # optimizer steps made by this process
        self.optimizer.register_step_post_hook(self._count_update)
        self.skipped = 0  # optimizer steps skipped because a gradient was not finite
        self.faults: dict[int, str] = {}

    @property
    def diverged(self) -> set[int]:
        """{0} once a value was not finite, if `on_nonfinite` is `stop`; else empty."""
        return set(self.faults) if self.settings.on_nonfinite == "stop" else set()

    def advance(self) -> list[Values]:
        """Makes one optimizer step; returns its logged values in a list, which is empty if the step is not logged."""
        self.step += 1
        self._schedule()
        x, y = self.batch(0, self.step)
        logs = self.step % self.settings.log_every == 0 or self.step in (1, self.settings.max_steps)
        with self.probe.watching() if logs else nullcontext():
            loss = self._loss(x, y)
        for parameter in self.parameters.values():
            parameter.grad = None  # zero_grad does the same in 20 times the time
        torch.autograd.backward(self.scaler.scale(loss))
        readings = self.probe.measure(self._scale(loss)) if logs else []
        if self.scaler.is_enabled():
            self.scaler.unscale_(self.optimizer)
        self.window.add(loss, len(y))
        gradients = norms_by_name(present_gradients(self.parameters)) if logs else {}
        state = ModelState.of(self.model, gradients, readings) if logs else None
        self._apply(x)
        return [] if state is None else self._measure(state, x)

    def batch(self, r: int, step: int) -> tuple[Tensor, Tensor]:
        """The samples of optimizer step `step`, counted from 1."""
        return self.samples(step - 1)

    def _schedule(self) -> None:
        if self.anneals:
            anneal(self.model, *shares_done(self.step, self.settings, self.batches))
        if self.noisy:
            key_noise(self.model, self.key, self.step)
        if self.policy.scheduled:
            for group in self.optimizer.param_groups:
                group["lr"] = self.policy.lr_at(self.step - 1, self.settings.max_steps)

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        dtype = AUTOCAST.get(self.settings.precision)
        if dtype is None:
            return F.cross_entropy(self.model(x), y)
        with torch.autocast(self.device, dtype):
            logits = self.model(x)
        return F.cross_entropy(logits.float(), y)

    def _apply(self, x: Tensor) -> None:
        """Clips the gradients and makes the optimizer step. With `on_nonfinite=skip` a faulty step is skipped."""
        gradients = present_gradients(self.parameters)
        if self.settings.on_nonfinite == "skip" and self._has_fault(gradients, x):
            self.skipped += 1
            return
        if self.policy.clip_norm is not None:
            self.window.clipped.append(clip(list(gradients.values()), self.policy.clip_norm))
        before = self._updates
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.skipped += self._updates == before  # the scaler skips a step if a gradient is not finite

    def _count_update(self, *_: Any) -> None:
        self._updates += 1

    def _scale(self, loss: Tensor) -> Tensor | None:
        """The loss scale, a 0-d tensor on the device; None without a scaler."""
        return self.scaler.scale(loss.new_ones(())) if self.scaler.is_enabled() else None

    def _has_fault(self, gradients: dict[str, Tensor], x: Tensor) -> bool:
        """Whether a gradient is not finite. The first such step is described in `faults`, even if it is not logged."""
        found = norms(list(gradients.values()))
        if self.scaler.is_enabled() or is_finite(found):
            return False
        gradient = dict(zip(gradients, found[0].tolist(), strict=True))
        weight, temperature = (
            {name: float(value) for name, value in own.items()}
            for own in (norms_by_name(self.parameters), temperatures(self.model))
        )
        self._look(x, StepNumbers([float(self.window.losses[-1])], gradient, weight, temperature))
        return True

    def _look(self, x: Tensor, numbers: StepNumbers) -> None:
        """Describes in `faults` the first value that is not finite."""
        if self.faults:
            return
        if self.scaler.is_enabled():  # the scaler expects such gradients: it skips the step and lowers its scale
            numbers = replace(numbers, gradients={})
        fault = describe_fault(self.model, x, self.step, numbers)
        if fault:
            self.faults[0] = fault

    def _measure(self, state: ModelState, x: Tensor) -> list[Values]:
        (logged,) = read_step(self.window, norms_by_name(self.parameters), state)
        self.records[0].update(logged.numbers.gradients)
        self.window.clear()
        self._look(x, logged.numbers)
        values = {**logged.values, "lr": float(self.optimizer.param_groups[0]["lr"])}
        if state.temperatures:
            values["temperature"] = list(logged.numbers.temperatures.values())[-1]
        if self.scaler.is_enabled():
            values["loss_scale"] = float(self.scaler.get_scale())
        return [values]

    def single(self, r: int) -> nn.Module:
        """The model."""
        return self.model

    def weights(self, r: int) -> dict[str, Tensor]:
        """Copies of the weights and buffers."""
        return {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

    def load_weights(self, weights: Sequence[dict[str, Tensor]]) -> None:
        """Replaces the weights and buffers."""
        self.model.load_state_dict(weights[0])

    def state(self, r: int) -> dict[str, Any]:
        """The state from which training continues with the same numbers: plain containers and tensors."""
        return {
            "step": self.step,
            "skipped": self.skipped,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "interval": self.window.state(r),
            **self.records[r].state(),
        }

    def restore(self, states: Sequence[dict[str, Any]]) -> None:
        """Loads a checkpoint's state."""
        (state,) = states
        self.step, self.skipped = state["step"], state["skipped"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(state["scaler"])
        self.window.restore([state["interval"]])
        self.records = [GradientRecord.restore(state)]
