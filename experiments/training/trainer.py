"""One training run: steps, what is measured at them, and the state that a checkpoint keeps."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.config.choices import ConfigError
from experiments.config.settings import Settings
from experiments.data.batches import Batches
from experiments.data.dataset import Dataset
from experiments.measuring.gradients import GradientRecord, clip, norms, present_gradients, total
from experiments.measuring.interval import Interval
from experiments.measuring.layer_probe import LayerProbe, Reading, by_tag
from experiments.measuring.nonfinite import Diverged, diagnosis, is_finite
from experiments.measuring.parameter_names import trained
from experiments.optimizers.optimizer import Optimizer
from surrogates import anneal, hard_layers, key_noise

Numbers = dict[str, float]
AUTOCAST = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Trainer:
    """Trains a model step by step; everything random follows from the seed and the step.

    `advance()` makes one optimizer step and returns what is logged at it, by tag, or None where nothing is.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, settings: Settings, data: Dataset) -> None:
        self.model, self.settings, self.data = model, settings, data
        self.parameters = trained(model)
        self.policy = optimizer
        self.optimizer = optimizer.build(self.parameters.values())
        self.device = torch.device(settings.device).type
        self.scaler = torch.amp.GradScaler(self.device, enabled=settings.precision == "float16")
        self.batches = training_batches(settings, data)
        self.record = GradientRecord.of(model)
        self.probe = LayerProbe(model)
        strategies = [(layer.strategy, layer.op) for layer in hard_layers(model).values()]
        self.anneals = any(strategy.changes for strategy, _ in strategies)
        self.noisy = any(strategy.noisy(op) for strategy, op in strategies)
        self.interval = Interval(settings.device)
        self.step = 0  # optimizer steps made
        self.skipped = 0  # optimizer steps left out because a gradient was not finite
        self.fault = ""  # what the first logged step that found something not finite says of it

    def advance(self) -> dict[str, float] | None:
        """One optimizer step; raises Diverged if a logged one finds a number that is not finite, by policy."""
        self.step += 1
        self._schedule()
        x, y = self.batch(self.step)
        logs = self.step % self.settings.log_every == 0 or self.step in (1, self.settings.max_steps)
        with self.probe.watching() if logs else nullcontext():
            loss = self._loss(x, y)
        for parameter in self.parameters.values():
            parameter.grad = None  # zero_grad does the same at 20 x the cost
        torch.autograd.backward(self.scaler.scale(loss))
        readings = self.probe.measure(self.scaler.get_scale() if self.scaler.is_enabled() else 1.0) if logs else []
        if self.scaler.is_enabled():
            self.scaler.unscale_(self.optimizer)
        self.interval.add(loss, len(y))
        gradients = present_gradients(self.parameters) if logs else {}
        before_clipping = norms(list(gradients.values())) if logs else None
        self._apply(x)
        if before_clipping is None:
            return None
        return self._measure(list(gradients), before_clipping, readings, x)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """The samples of optimizer step `step`, counted from 1."""
        return self.data.train.batch(self.batches[step - 1])

    def _schedule(self) -> None:
        if self.anneals:
            anneal(self.model, *shares_done(self.step, self.settings, self.batches))
        if self.noisy:
            key_noise(self.model, self.settings.seed, self.step)
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
        """Clips and makes the optimizer step, unless the policy skips one with a gradient that is not finite."""
        if self.settings.on_nonfinite == "skip" and self._leaves_out(x):
            self.skipped += 1
            return
        if self.policy.clip_norm is not None:
            self.interval.clipped.append(clip(self.parameters.values(), self.policy.clip_norm))
        scale = self.scaler.get_scale() if self.scaler.is_enabled() else 0.0
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if (
            self.scaler.is_enabled() and self.scaler.get_scale() < scale
        ):  # it lowers its scale when it leaves out a step
            self.skipped += 1

    def _leaves_out(self, x: Tensor) -> bool:
        """Whether a gradient is not finite; the first such step is looked at, as no logged one might show it."""
        gradients = present_gradients(self.parameters)
        found = norms(list(gradients.values()))
        if self.scaler.is_enabled() or is_finite(found):
            return False
        weights = norms(list(self.parameters.values()))
        self._look(
            x,
            [float(self.interval.losses[-1])],
            dict(zip(gradients, found.tolist(), strict=True)),
            dict(zip(self.parameters, weights.tolist(), strict=True)),
            {name: float(temperature) for name, temperature in self._temperatures().items()},
        )
        return True

    def _temperatures(self) -> dict[str, Tensor]:
        layers = self.probe.layers.items()
        return {name: layer.temperature for name, layer in layers if layer.temperature is not None}

    def _look(self, x: Tensor, losses: list[float], gradient: Numbers, weight: Numbers, temperature: Numbers) -> None:
        """Notes what is not finite, the first time that anything is."""
        if not self.fault:
            own = {} if self.scaler.is_enabled() else gradient  # the scaler skips such steps and lowers its scale
            self.fault = diagnosis(self.model, x, self.step, losses, own, weight, temperature)

    def _measure(
        self, names: list[str], before_clipping: Tensor, readings: list[Reading], x: Tensor
    ) -> dict[str, float]:
        weights = norms(list(self.parameters.values()))
        tempered = self._temperatures()
        layers = [row for reading in readings for row in reading.sums.values()]
        losses, clipped, others = self.interval.with_others([before_clipping, weights, *tempered.values(), *layers])
        left = iter(others)
        gradient, weight, temperature = (
            dict(zip(own, left, strict=False)) for own in (names, self.parameters, tempered)
        )
        self.record.update(gradient)
        values = {
            "loss/train": self.interval.mean(losses),
            "grad_norm/total": total(gradient),
            **{f"grad_norm/{name}": norm for name, norm in gradient.items()},
            "clip_fraction": clipped,
            **by_tag(readings, list(left)),
            **self._knobs(list(temperature.values())),
        }
        self.interval.clear()
        self._look(x, losses, gradient, weight, temperature)
        if self.fault and self.settings.on_nonfinite == "stop":
            raise Diverged(self.fault, values)
        return values

    def _knobs(self, temperatures: list[float]) -> dict[str, float]:
        values = {"lr": float(self.optimizer.param_groups[0]["lr"])}
        if temperatures:
            values["temperature"] = temperatures[-1]
        if self.scaler.is_enabled():
            values["loss_scale"] = float(self.scaler.get_scale())
        return values

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs for the same numbers from here on: plain containers and tensors."""
        return {
            "step": self.step,
            "skipped": self.skipped,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "interval": self.interval.state(),
            "missing": sorted(self.record.missing),
            "zero": sorted(self.record.zero),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint's state."""
        self.step, self.skipped = state["step"], state["skipped"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(state["scaler"])
        self.interval.restore(state["interval"])
        self.record = GradientRecord(set(state["missing"]), set(state["zero"]))


def training_batches(settings: Settings, data: Dataset) -> Batches:
    """The training order of a run; raises ConfigError for a batch larger than the training part."""
    size = len(data.train)
    if settings.overfit_batches is not None:
        size = min(size, settings.overfit_batches * settings.batch_size)
    try:
        return Batches(size, settings.batch_size, settings.seed, settings.device)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def shares_done(step: int, settings: Settings, batches: Batches) -> tuple[float, float]:
    """The shares of training done before optimizer step `step`, counted from 1, and before its epoch began."""
    last = max(1, settings.max_steps - 1)
    return (step - 1) / last, ((step - 1) - (step - 1) % batches.per_epoch) / last
