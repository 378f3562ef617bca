"""Trains R models at once, each as `experiments.training.trainer` would."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.config.choices import Choices
from experiments.data.dataset import Dataset
from experiments.data.train_samples import TrainSamples
from experiments.measuring.gradients import GradientRecord, clip, norms_by_name, present_gradients
from experiments.measuring.layer_probe import LayerProbe
from experiments.measuring.log_window import LogWindow
from experiments.measuring.logged_step import LoggedStep, ModelState, read_step
from experiments.measuring.nonfinite import describe_fault
from experiments.measuring.parameter_names import trained_parameters
from experiments.stacked.layers import changes, stack
from experiments.stacked.optimizers import KINDS, StackedOptimizer
from experiments.training.replicas import Values
from experiments.training.schedule import shares_done, training_batches
from surrogates import anneal, calibrate, key_noise


class StackedTrainer:
    """Trains a stack step by step, as `Replicas`. Each replica has the weights, batches and noise of a single run.

    `models` have their initial weights. `single` loads a replica into `template`, a copy of the first model. A replica
    that diverges stays in the stack; it does not affect the others.
    """

    engine = "stacked"
    skipped = 0

    def __init__(self, models: Sequence[nn.Module], choices: Sequence[Choices], data: Dataset) -> None:
        settings = [own.settings for own in choices]
        self.settings, self.seeds, self.data = settings[0], [own.seed for own in settings], data
        self.replicas, self.key = len(models), torch.tensor(self.seeds)
        self.batches = [training_batches(own, data) for own in settings]
        self.samples = TrainSamples(data, self.batches)
        first, _ = self.samples(0)
        for model, own in zip(models, first.chunk(self.replicas), strict=True):
            calibrate(model, own)
        self.template = copy.deepcopy(models[0])
        self.model = stack(models)
        self.parameters = trained_parameters(self.model)
        policies = [own.optimizer for own in choices]
        self.optimizer: StackedOptimizer = KINDS[type(policies[0])](policies, self.parameters)
        self.clip_norm = policies[0].clip_norm
        self.records = [GradientRecord.of(self.template) for _ in models]
        self.probe = LayerProbe(self.model, self.replicas)
        self.noisy = any(layer.strategy.noisy(layer.op) for layer in self.probe.layers.values())
        self.anneals = changes(self.model)
        self.window = LogWindow(self.settings.device, self.replicas)
        self.step = 0
        self.faults: dict[int, str] = {}

    @property
    def diverged(self) -> set[int]:
        """The replicas that stop because a value was not finite."""
        return set(self.faults) if self.settings.on_nonfinite == "stop" else set()

    def advance(self) -> list[Values]:
        """Makes one optimizer step of all replicas; adds to `faults`.

        Returns each replica's logged values; an empty list if the step is not logged.
        """
        self.step += 1
        if self.anneals:
            anneal(self.model, *shares_done(self.step, self.settings, self.batches[0]))
        if self.noisy:
            key_noise(self.model, self.key, self.step)
        rates = self.optimizer.rates(self.step - 1, self.settings.max_steps)
        x, y = self.samples(self.step - 1)
        logs = self.step % self.settings.log_every == 0 or self.step in (1, self.settings.max_steps)
        with self.probe.watching() if logs else nullcontext():
            logits = self.model(x)
        losses = F.cross_entropy(logits, y, reduction="none").view(self.replicas, -1).mean(1)
        for parameter in self.parameters.values():
            parameter.grad = None
        torch.autograd.backward(losses.sum())
        readings = self.probe.measure() if logs else []
        self.window.add(losses, len(y) // self.replicas)
        gradients = present_gradients(self.parameters)
        by_parameter = norms_by_name(gradients, self.replicas) if logs else {}
        state = ModelState.of(self.model, by_parameter, readings, self.replicas) if logs else None
        if self.clip_norm is not None:
            self.window.clipped.append(clip(list(gradients.values()), self.clip_norm, self.replicas))
        self.optimizer.advance(rates)
        return [] if state is None else self._measure(state, rates, x)

    def batch(self, r: int, step: int) -> tuple[Tensor, Tensor]:
        """The samples of optimizer step `step`, counted from 1, of one replica."""
        x, y = self.samples(step - 1)
        return x.chunk(self.replicas)[r], y.chunk(self.replicas)[r]

    def _measure(self, state: ModelState, rates: list[float], x: Tensor) -> list[Values]:
        weights = norms_by_name(self.parameters, self.replicas)
        values = []
        for r, logged in enumerate(read_step(self.window, weights, state)):
            self.records[r].update(logged.numbers.gradients)
            values.append({**logged.values, "lr": rates[r]})
            if state.temperatures:
                values[r]["temperature"] = list(logged.numbers.temperatures.values())[-1]
            self._look(r, x, logged)
        self.window.clear()
        return values

    def _look(self, r: int, x: Tensor, logged: LoggedStep) -> None:
        """Describes in `faults` the first value of a replica that is not finite."""
        if r in self.faults or logged.numbers.is_sound:
            return
        model, own = self.single(r), x.view(self.replicas, -1, *x.shape[1:])[r]
        key_noise(model, self.seeds[r], self.step)
        self.faults[r] = describe_fault(model, own, self.step, logged.numbers)

    def single(self, r: int) -> nn.Module:
        """The template with one replica's weights, buffers and state of annealing."""
        anneal(self.template, *shares_done(self.step, self.settings, self.batches[0]))
        self.template.load_state_dict(self.weights(r))
        return self.template

    def weights(self, r: int) -> dict[str, Tensor]:
        """Copies of one replica's weights and buffers."""
        return {name: tensor[r].clone() for name, tensor in self.model.state_dict().items()}

    def load_weights(self, weights: Sequence[dict[str, Tensor]]) -> None:
        """Replaces the weights and buffers of all replicas."""
        for name, tensor in self.model.state_dict().items():
            tensor.copy_(torch.stack([own[name] for own in weights]))

    def state(self, r: int) -> dict[str, Any]:
        """One replica's part of a checkpoint, in the form of a single run's."""
        return {
            "step": self.step,
            "skipped": 0,
            "model": self.weights(r),
            "optimizer": self.optimizer.replica_state(r),
            "scaler": {},
            "interval": self.window.state(r),
            **self.records[r].state(),
        }

    def restore(self, states: Sequence[dict[str, Any]]) -> None:
        """Loads the replicas' parts of checkpoints, all of one step."""
        self.step = states[0]["step"]
        self.load_weights([state["model"] for state in states])
        self.optimizer.restore([state["optimizer"] for state in states], self.step)
        self.window.restore([state["interval"] for state in states])
        self.records = [GradientRecord.restore(state) for state in states]
