"""The training of R models at once: what `experiments.training.trainer` does for one, for each of them."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from experiments.config.choices import Choices
from experiments.data.dataset import Dataset
from experiments.measuring.gradients import GradientRecord, present_gradients, total
from experiments.measuring.layer_probe import LayerProbe, Reading, by_tag
from experiments.measuring.nonfinite import diagnosis, is_sound
from experiments.measuring.parameter_names import trained
from experiments.stacked.batches import StackedBatches
from experiments.stacked.code_cache import steps_of
from experiments.stacked.compiled import CompiledStep, Taken, clip_factor
from experiments.stacked.cross_entropy import CrossEntropy
from experiments.stacked.interval import StackedInterval
from experiments.stacked.layers import changes, stack
from experiments.stacked.optimizers import KINDS, StackedOptimizer
from experiments.training.trainer import shares_done, training_batches
from surrogates import anneal, calibrate, key_noise

Values = dict[str, float]
_log = logging.getLogger(__name__)


class StackedTrainer:
    """Trains a stack step by step; each replica sees the weights, batches and noise of a run of its own.

    The models are at their first weights; `template` is a copy of one, in which a single replica can be looked at.
    `faults` says what was first not finite in a replica, `diverged` which are out for that; their numbers touch no
    other's, so they stay in the stack. With `compiles` full batches go through `CompiledStep`.
    """

    def __init__(
        self, models: Sequence[nn.Module], choices: Sequence[Choices], data: Dataset, compiles: bool = False
    ) -> None:
        settings = [own.settings for own in choices]
        self.plains = [own.plain for own in choices]
        self.settings, self.seeds, self.data = settings[0], [own.seed for own in settings], data
        self.replicas = len(models)
        self.batches = StackedBatches([training_batches(own, data) for own in settings])
        for batches, model in zip(self.batches.runs, models, strict=True):
            calibrate(model, data.train.batch(batches[0])[0])
        self.template = copy.deepcopy(models[0])
        self.model = stack(models)
        self.parameters = trained(self.model)
        policies = [own.optimizer for own in choices]
        self.optimizer: StackedOptimizer = KINDS[type(policies[0])](policies, self.parameters)
        self.clip_norm = policies[0].clip_norm
        self.records = [GradientRecord.of(self.template) for _ in models]
        self.probe = LayerProbe(self.model, self.replicas)
        self.noisy = any(layer.strategy.noisy(layer.op) for layer in self.probe.layers.values())
        self.anneals = changes(self.model)
        self.key = torch.tensor(self.seeds)
        self.interval = StackedInterval(self.settings.device, self.replicas)
        self.compiles = compiles
        self._compiled: CompiledStep | None = None
        self.step = 0
        self.faults: dict[int, str] = {}

    def advance(self) -> list[Values] | None:
        """One optimizer step of all; what is logged at it by replica, or None. Adds to `faults`."""
        self.step += 1
        if self.anneals:
            anneal(self.model, *shares_done(self.step, self.settings, self.batches.first))
        if self.noisy:
            key_noise(self.model, self.key, self.step)
        rates = self.optimizer.rates(self.step - 1, self.settings.max_steps)
        x, y = self.batch(self.step)
        logs = self.step % self.settings.log_every == 0 or self.step in (1, self.settings.max_steps)
        taken = self._advance_compiled(x, y, rates, logs) if self._can_be_compiled(y) else None
        if taken is None:
            taken = self._advance_eagerly(x, y, rates, logs)
        self.interval.add(taken.losses, len(y) // self.replicas)
        if taken.clipped is not None:
            self.interval.clipped.append(taken.clipped)
        return self._measure(taken.norms, taken.readings, rates, x) if logs else None

    def _can_be_compiled(self, y: Tensor) -> bool:
        """A full batch, after a first step that shows which parameters are reached."""
        return self.compiles and self.step > 1 and len(y) == self.replicas * self.settings.batch_size

    def _advance_compiled(self, x: Tensor, y: Tensor, rates: list[float], logs: bool) -> Taken | None:
        """None, and nothing is changed, where it cannot be compiled."""
        if self._compiled is None:
            reached = set(self.parameters) - self.records[0].missing
            own = self.probe, self.optimizer, reached, self.clip_norm
            self._compiled = CompiledStep(*own, steps_of(self.plains))
        try:
            return self._compiled(x, y, rates, logs)
        except Exception as error:  # whatever the compiler says
            _log.warning("the step cannot be compiled, going on without: %s", str(error).strip().partition("\n")[0])
            self.compiles, self.optimizer.steps = False, self.step - 1
            return None

    def _advance_eagerly(self, x: Tensor, y: Tensor, rates: list[float], logs: bool) -> Taken:
        with self.probe.watching() if logs else nullcontext():
            logits = self.model(x)
        loss, losses = CrossEntropy.apply(logits, y, self.replicas)
        for parameter in self.parameters.values():
            parameter.grad = None
        loss.backward()
        readings = self.probe.measure() if logs else []
        norms = self._norms(present_gradients(self.parameters)) if logs or self.clip_norm is not None else {}
        clipped = None if self.clip_norm is None else self._clip(torch.stack(list(norms.values())), self.clip_norm)
        self.optimizer.advance(rates)
        return Taken(losses, clipped, norms, readings)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """The samples of optimizer step `step`, counted from 1, of all replicas, folded."""
        return self.data.train.batch(self.batches[step - 1])

    def _norms(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: torch.linalg.vector_norm(
                tensor.detach().flatten(1) if tensor.dim() > 1 else tensor.unsqueeze(1), dim=1, dtype=torch.float64
            )
            for name, tensor in tensors.items()
        }

    def _clip(self, norms: Tensor, limit: float) -> Tensor:
        """Scales each replica's gradients to a norm of at most the limit; 1 where that changed them, else 0."""
        factor, clipped = clip_factor(norms, limit)
        for gradient in present_gradients(self.parameters).values():
            gradient.mul_(factor.to(gradient.dtype).view(-1, *(1 for _ in gradient.shape[1:])))
        return clipped

    def _measure(
        self, gradients: dict[str, Tensor], readings: list[Reading], rates: list[float], x: Tensor
    ) -> list[Values]:
        layers = [row for reading in readings for row in reading.sums.values()]
        weights = self._norms(dict(self.parameters))
        tempered = {
            name: layer.temperature for name, layer in self.probe.layers.items() if layer.temperature is not None
        }
        rows = [*gradients.values(), *weights.values(), *tempered.values(), *layers]
        losses, clipped, others = self.interval.with_others(rows)
        logged = []
        for r in range(self.replicas):
            left = iter(others[r])
            gradient, weight, temperature = (
                dict(zip(own, left, strict=False)) for own in (gradients, weights, tempered)
            )
            self.records[r].update(gradient)
            values = {
                "loss/train": self.interval.mean(losses[r]),
                "grad_norm/total": total(gradient),
                **{f"grad_norm/{name}": norm for name, norm in gradient.items()},
                "clip_fraction": clipped[r],
                **by_tag(readings, list(left)),
                "lr": rates[r],
                **({"temperature": list(temperature.values())[-1]} if temperature else {}),
            }
            logged.append(values)
            if r not in self.faults:
                self._look(r, x, losses[r], gradient, weight, temperature)
        self.interval.clear()
        return logged

    @property
    def diverged(self) -> set[int]:
        """The replicas that are out."""
        return set(self.faults) if self.settings.on_nonfinite == "stop" else set()

    def _look(
        self, r: int, x: Tensor, losses: list[float], gradient: Values, weight: Values, temperature: Values
    ) -> None:
        """Notes what is not finite in a replica, if anything is."""
        if is_sound([*losses, *temperature.values()], [*gradient.values(), *weight.values()]):
            return
        own = x.view(self.replicas, -1, *x.shape[1:])[r]
        key_noise(self.template, self.seeds[r], self.step)
        self.faults[r] = diagnosis(self.as_single(r), own, self.step, losses, gradient, weight, temperature)

    def own_batch(self, r: int, step: int) -> tuple[Tensor, Tensor]:
        """The samples of one replica."""
        return self.data.train.batch(self.batches.runs[r][step - 1])

    def annealed(self, r: int) -> nn.Module:
        """The template as a replica is in this step of training."""
        anneal(self.template, *shares_done(self.step, self.settings, self.batches.first))
        return self.as_single(r)

    def as_single(self, r: int, state: dict[str, Tensor] | None = None) -> nn.Module:
        """The template with one replica's weights and buffers."""
        state = self.model.state_dict() if state is None else state
        self.template.load_state_dict({name: tensor[r] for name, tensor in state.items()})
        return self.template

    def replica_state(self, r: int) -> dict[str, Any]:
        """What the checkpoint of a run alone would hold."""
        return {
            "step": self.step,
            "skipped": 0,
            "model": {name: tensor[r].clone() for name, tensor in self.model.state_dict().items()},
            "optimizer": self.optimizer.replica_state(r),
            "scaler": {},
            "interval": self.interval.replica_state(r),
            "missing": sorted(self.records[r].missing),
            "zero": sorted(self.records[r].zero),
        }

    def restore(self, states: Sequence[dict[str, Any]]) -> None:
        """Goes on from the replicas' states, all of one step."""
        self.step = states[0]["step"]
        for name, tensor in self.model.state_dict().items():
            tensor.copy_(torch.stack([state["model"][name] for state in states]))
        self.optimizer.restore([state["optimizer"] for state in states], self.step)
        self.interval.restore([state["interval"] for state in states])
        self.records = [GradientRecord(set(state["missing"]), set(state["zero"])) for state in states]
