"""One training run: steps, what is measured at them, and the state that a checkpoint keeps."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.data.batches import Batches
from experiments.data.dataset import Dataset
from experiments.gradients import GradientRecord, norms, present_gradients, total
from experiments.layer_probe import LayerProbe
from experiments.nonfinite import Diverged, diagnosis, is_finite
from experiments.optimizers.optimizer import Optimizer
from experiments.settings import Settings
from surrogates import anneal, hard_layers, key_noise

AUTOCAST = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Trainer:
    """Trains a model step by step; everything random follows from the seed and the step.

    `advance()` makes one optimizer step and returns what is logged at it, or None where nothing is.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, settings: Settings, data: Dataset) -> None:
        self.model, self.settings, self.data = model, settings, data
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.policy = optimizer
        self.optimizer = optimizer.build(self.parameters.values())
        self.scaler = torch.amp.GradScaler(settings.device, enabled=settings.precision == "float16")
        size = len(data.train.y)
        if settings.overfit_batches is not None:
            size = min(size, settings.overfit_batches * settings.batch_size)
        self.batches = Batches(size, settings.batch_size, settings.seed, settings.device)
        self.record = GradientRecord.of(model)
        self.probe = LayerProbe(model)
        layers = hard_layers(model).values()
        self.anneals = any(layer.strategy.temperature_at(1.0) != layer.strategy.temperature for layer in layers)
        self.noisy = any(layer.strategy.noisy(layer.op) for layer in layers)
        self.step = 0  # optimizer steps made
        self.skipped = 0  # optimizer steps left out because a gradient was not finite
        self._losses: list[Tensor] = []  # since the last logged step
        self._sizes: list[int] = []
        self._clipped: list[Tensor] = []

    def advance(self) -> dict[str, float] | None:
        """One optimizer step; raises Diverged if a logged one finds a number that is not finite, by policy."""
        self.step += 1
        self._schedule()
        x, y = self.batch(self.step)
        logs = self._logs()
        with self.probe.watching() if logs else nullcontext():
            loss = self._loss(x, y)
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer) if self.scaler.is_enabled() else None
        self._losses.append(loss.detach())
        self._sizes.append(len(y))
        gradients = present_gradients(self.parameters) if logs or self._guards_steps() else {}
        before = norms(list(gradients.values())) if logs else None
        if self._applicable(gradients):
            self._clip()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.skipped += 1
        if before is None:
            return None
        return self._measure(list(gradients), before, x)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """The samples of optimizer step `step`, counted from 1."""
        index = self.batches[step - 1]
        return self.data.train.x[index], self.data.train.y[index]

    def _logs(self) -> bool:
        return self.step % self.settings.log_every == 0 or self.step in (1, self.settings.max_steps)

    def _schedule(self) -> None:
        if self.anneals:
            anneal(self.model, (self.step - 1) / max(1, self.settings.max_steps - 1))
        if self.noisy:
            key_noise(self.model, self.settings.seed, self.step)
        if self.policy.scheduled:
            for group in self.optimizer.param_groups:
                group["lr"] = self.policy.lr_at(self.step - 1, self.settings.max_steps)

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        dtype = AUTOCAST.get(self.settings.precision)
        device = torch.device(self.settings.device).type
        context: AbstractContextManager[Any] = torch.autocast(device, dtype) if dtype else nullcontext()
        with context:
            logits = self.model(x)
        return F.cross_entropy(logits if dtype is None else logits.float(), y)

    def _guards_steps(self) -> bool:
        return self.settings.on_nonfinite == "skip" and not self.scaler.is_enabled()

    def _applicable(self, gradients: dict[str, Tensor]) -> bool:
        return not self._guards_steps() or is_finite(norms(list(gradients.values())))

    def _clip(self) -> None:
        limit = self.policy.clip_norm
        if limit is None:
            return
        parameters = [p for p in self.parameters.values() if p.grad is not None]
        norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        nn.utils.clip_grads_with_norm_(parameters, limit, norm)
        self._clipped.append((norm > limit).float())

    def _measure(self, names: list[str], before: Tensor, x: Tensor) -> dict[str, float]:
        """All of one logged step's numbers, moved from the device at once."""
        tags, layers = self.probe.measure(self.scaler.get_scale() if self.scaler.is_enabled() else 1.0)
        clipped = self._clipped or [torch.zeros(())]
        weights = norms(list(self.parameters.values()))
        parts = [torch.stack(self._losses), before, torch.stack(clipped), weights, *(v.reshape(1) for v in layers)]
        numbers = torch.cat([part.to(self.settings.device, torch.float64) for part in parts]).tolist()
        take = iter(numbers)
        losses = [next(take) for _ in self._losses]
        by_parameter = {name: next(take) for name in names}
        share = sum(next(take) for _ in clipped) / len(clipped)
        by_weight = {name: next(take) for name in self.parameters}
        self.record.update(by_parameter)
        values = {
            "loss/train": sum(loss * n for loss, n in zip(losses, self._sizes, strict=True)) / sum(self._sizes),
            "grad_norm/total": total(by_parameter),
            **{f"grad_norm/{name}": norm for name, norm in by_parameter.items()},
            "clip_fraction": share,
            **dict(zip(tags, take, strict=True)),
            **self._knobs(),
        }
        self._stop_if_diverged(losses, by_parameter, by_weight, x)
        self._losses, self._sizes, self._clipped = [], [], []
        return values

    def _knobs(self) -> dict[str, float]:
        temperatures = [layer.temperature for layer in self.probe.layers.values() if layer.temperature is not None]
        values = {"lr": float(self.optimizer.param_groups[0]["lr"])}
        if temperatures:
            values["temperature"] = float(temperatures[0])
        if self.scaler.is_enabled():
            values["loss_scale"] = float(self.scaler.get_scale())
        return values

    def _stop_if_diverged(
        self, losses: list[float], gradients: dict[str, float], weights: dict[str, float], x: Tensor
    ) -> None:
        if self.settings.on_nonfinite == "stop":
            if self.scaler.is_enabled():
                gradients = {}  # the scaler leaves out such steps by itself and lowers its scale
            reason = diagnosis(self.model, x, self.step, losses, gradients, weights)
            if reason:
                raise Diverged(reason)

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs for the same numbers from here on: plain containers and tensors."""
        return {
            "step": self.step,
            "skipped": self.skipped,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "losses": [float(loss) for loss in self._losses],
            "sizes": list(self._sizes),
            "clipped": [float(clipped) for clipped in self._clipped],
            "missing": sorted(self.record.missing),
            "zero": sorted(self.record.zero),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from a checkpoint's state."""
        self.step, self.skipped = state["step"], state["skipped"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        like = next(iter(self.parameters.values())).detach()
        self._losses = [like.new_tensor(loss) for loss in state["losses"]]
        self._sizes = list(state["sizes"])
        self._clipped = [torch.tensor(clipped, device=like.device) for clipped in state["clipped"]]
        self.record = GradientRecord(set(state["missing"]), set(state["zero"]))
