"""What is scored between the training steps of R models, and which of each was best so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.data.dataset import Part
from experiments.measuring.probe_batch import flip_rates, gaps, layer_outputs, numbers, repeated
from experiments.stacked.trainer import StackedTrainer, Values
from experiments.training.scoring import has_batch_norm, recalibrated, score
from experiments.training.validation import PROBE_SAMPLES
from surrogates import hard_layers, key_noise, mode
from surrogates.hard_layer import Mode

ROWS = 16384  # samples of all replicas at once


class StackedValidation:
    """Scores a stack on fixed parts. `best[r]` holds the scores of replica r's best model, `models` their weights."""

    def __init__(self, trainer: StackedTrainer) -> None:
        self.trainer, self.model, self.data = trainer, trainer.model, trainer.data
        self.replicas = trainer.replicas
        self.soft = any(layer.strategy.soft_forward for layer in hard_layers(self.model).values())
        self.best: list[dict[str, Any]] = [{} for _ in range(self.replicas)]
        self.models: dict[str, Tensor] = {}
        self.outputs: dict[str, Tensor] = {}

    def __call__(self, step: int, last: bool) -> list[Values]:
        """Scores by replica and tag."""
        values = self._scored(self.data.val, "hard", "val")
        if self.soft:
            key_noise(self.model, self.trainer.key, -step)
            for own, soft in zip(values, self._scored(self.data.val, "strategy", "val_soft"), strict=True):
                own |= soft
        for own, rates in zip(values, self._on_probe_batch(step), strict=True):
            own |= rates
        if last:
            for own, final in zip(values, self._final(), strict=True):
                own |= final
        self._keep_best(step, values)
        return values

    def _scored(self, part: Part, how: Mode, name: str) -> list[Values]:
        losses, accuracies = self._score(part, how)
        return [
            {f"loss/{name}": loss, f"accuracy/{name}": accuracy}
            for loss, accuracy in zip(losses, accuracies, strict=True)
        ]

    def _score(self, part: Part, how: Mode = "hard") -> tuple[list[float], list[float]]:
        """Mean cross-entropies and shares of right answers."""
        replicas, was_training = self.replicas, self.model.training
        loss = torch.zeros(replicas, dtype=torch.float64, device=part.x.device)
        right = torch.zeros(replicas, dtype=torch.int64, device=part.x.device)
        chunk = max(1, ROWS // replicas)
        self.model.eval()
        try:
            with torch.no_grad(), mode(self.model, how):
                for x, y in zip(torch.split(part.x, chunk), torch.split(part.y, chunk), strict=True):
                    logits, truth = self.model(repeated(x, replicas)), repeated(y, replicas)
                    loss += F.cross_entropy(logits, truth, reduction="none").view(replicas, -1).sum(1)
                    right += (logits.argmax(1) == truth).view(replicas, -1).sum(1)
        finally:
            self.model.train(was_training)
        return (loss / len(part)).tolist(), [number / len(part) for number in right.tolist()]

    def _on_probe_batch(self, step: int) -> list[Values]:
        """By replica, what `Validation` finds on the probe batch."""
        x = self.data.val.x[:PROBE_SAMPLES]
        before, self.outputs = self.outputs, layer_outputs(self.model, x, "hard", self.replicas)
        rates = flip_rates(before, self.outputs)
        if self.soft:
            key_noise(self.model, self.trainer.key, -step)
            rates |= gaps(layer_outputs(self.model, x, "strategy", self.replicas), self.outputs)
        rows = numbers(rates)
        return [{tag: row[r] for tag, row in rows.items()} for r in range(self.replicas)]

    def _final(self) -> list[Values]:
        values = [{"accuracy/test": accuracy} for accuracy in self._score(self.data.test)[1]]
        if self.soft and has_batch_norm(self.trainer.template):
            for r, own in enumerate(values):
                hard = recalibrated(self.trainer.as_single(r), self.data.train.x)
                own["accuracy/val_recalibrated"] = score(hard, self.data.val).accuracy
                own["accuracy/test_recalibrated"] = score(hard, self.data.test).accuracy
        return values

    def _keep_best(self, step: int, values: list[Values]) -> None:
        better = [r for r, own in enumerate(values) if own["accuracy/val"] > self.best[r].get("accuracy/val", -1.0)]
        for r in better:
            self.best[r] = {"step": step, **values[r]}
        rows = torch.tensor(better, dtype=torch.int64, device=self.trainer.settings.device)
        for name, tensor in self.model.state_dict().items():
            kept = self.models.setdefault(name, tensor.clone())
            kept[rows] = tensor[rows]

    def best_state(self, r: int) -> dict[str, Any]:
        """What the checkpoint of a run alone would hold as its best model."""
        if not self.best[r]:
            return {}
        return {**self.best[r], "model": {name: tensor[r].clone() for name, tensor in self.models.items()}}

    def replica_outputs(self, r: int) -> dict[str, Tensor]:
        """The outputs that the next flip rates are counted from."""
        return {name: tensor[r].clone() for name, tensor in self.outputs.items()}

    def best_tested(self) -> list[Values]:
        """The best models' steps and scores, with their test accuracy."""
        last = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        self.model.load_state_dict(self.models)
        accuracies = self._score(self.data.test)[1]
        self.model.load_state_dict(last)
        return [{**best, "accuracy/test": accuracy} for best, accuracy in zip(self.best, accuracies, strict=True)]

    def restore(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Goes on from the states of the replicas' checkpoints."""
        bests = [dict(state["best"]) for state in states]
        if bests[0]:
            models = [best.pop("model") for best in bests]
            self.models = {name: torch.stack([model[name] for model in models]) for name in models[0]}
        self.best = bests
        outputs = [state["outputs"] for state in states]
        self.outputs = {name: torch.stack([own[name] for own in outputs]) for name in outputs[0]}
