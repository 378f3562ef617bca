"""What is scored between training steps, and which model of each replica was best so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from experiments.data.dataset import Part
from experiments.measuring.probe_batch import flip_rates, gaps, layer_outputs, numbers
from experiments.tracking.test_outcomes import Which
from experiments.training.replicas import Replicas, Values
from experiments.training.scoring import has_batch_norm, recalibrate, right_answers, score, scores
from surrogates import hard_layers, key_noise
from surrogates.hard_layer import Mode

PROBE_SAMPLES = 256  # on which flipped decisions are counted
TRAIN_SAMPLES = 4096  # at most, on which the last models are scored


class Validation:
    """Scores R models in training on fixed parts; `best[r]` holds the scores and weights of replica r's best one."""

    def __init__(self, trainer: Replicas) -> None:
        self.trainer, self.model, self.data, self.replicas = trainer, trainer.model, trainer.data, trainer.replicas
        self.soft = any(layer.strategy.soft_forward for layer in hard_layers(self.model).values())
        self.best: list[dict[str, Any]] = [{} for _ in range(self.replicas)]
        self.outputs: dict[str, Tensor] = {}  # (R, n), from which the next flip rates are counted
        self.right: dict[Which, Tensor] = {}  # (R, N), which test samples the last and the best models got right

    def __call__(self, step: int, last: bool) -> list[Values]:
        """Scores by replica and tag: with hard ops, as the strategy computes if that differs, and flipped decisions."""
        parts = [self._score(self.data.val, "hard", "val")]
        if self.soft:
            key_noise(self.model, self.trainer.key, -step)
            parts.append(self._score(self.data.val, "strategy", "val_soft"))
        parts.append(self._compare_outputs(step))
        if last:
            parts.append(self._score(self.data.train.start(TRAIN_SAMPLES), "hard", "train_end"))
            parts.append([self._final_scores(r, test) for r, test in enumerate(self._test("last"))])
        values = [{tag: value for own in rows for tag, value in own.items()} for rows in zip(*parts, strict=True)]
        for r, own in enumerate(values):
            if own["accuracy/val"] > self.best[r].get("accuracy/val", -1.0):
                self.best[r] = {"step": step, **own, "model": self.trainer.weights(r)}
        return values

    def _score(self, part: Part, how: Mode, name: str) -> list[Values]:
        found = scores(self.model, part, how, self.replicas)
        return [{f"loss/{name}": own.loss, f"accuracy/{name}": own.accuracy} for own in found]

    def _test(self, which: Which) -> list[float]:
        """The replicas' test accuracies."""
        right = self.right[which] = right_answers(self.model, self.data.test, self.replicas)
        return [count / right.shape[1] for count in right.sum(1).tolist()]

    def _compare_outputs(self, step: int) -> list[Values]:
        """Decisions on the probe batch that flipped since the last time, and how far soft values are from hard ones."""
        x = self.data.val.x[:PROBE_SAMPLES]
        before, self.outputs = self.outputs, layer_outputs(self.model, x, "hard", self.replicas)
        rates = flip_rates(before, self.outputs)
        if self.soft:
            key_noise(self.model, self.trainer.key, -step)
            rates |= gaps(layer_outputs(self.model, x, "strategy", self.replicas), self.outputs)
        rows = numbers(rates)
        return [{tag: row[r] for tag, row in rows.items()} for r in range(self.replicas)]

    def _final_scores(self, r: int, test: float) -> Values:
        values = {"accuracy/test": test}
        if self.soft and has_batch_norm(self.trainer.single(r)):
            hard = recalibrate(self.trainer.single(r), self.data.train.x)
            values["accuracy/val_recalibrated"] = score(hard, self.data.val).accuracy
            values["accuracy/test_recalibrated"] = score(hard, self.data.test).accuracy
        return values

    def test_best(self) -> list[Values]:
        """The best models' steps and scores, with their test accuracy, and without their weights."""
        if "last" not in self.right:  # resumed after the last evaluation
            self._test("last")
        last = [self.trainer.weights(r) for r in range(self.replicas)]
        self.trainer.load_weights([best["model"] for best in self.best])
        accuracies = self._test("best")
        self.trainer.load_weights(last)
        kept = [{key: value for key, value in best.items() if key != "model"} for best in self.best]
        return [{**best, "accuracy/test": accuracy} for best, accuracy in zip(kept, accuracies, strict=True)]

    def state(self, r: int) -> dict[str, Any]:
        """The part of replica r, for a checkpoint."""
        return {"best": self.best[r], "outputs": {name: rows[r].clone() for name, rows in self.outputs.items()}}

    def restore(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Loads the replicas' parts."""
        device, first = self.data.val.x.device, states[0]["outputs"]
        self.best = [_best_on(device, state["best"]) for state in states]
        self.outputs = {name: torch.stack([state["outputs"][name] for state in states]).to(device) for name in first}


def _best_on(device: torch.device, best: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint's best model, which is {} before the first evaluation, with its weights on a device."""
    weights = best.get("model", {})
    moved = {name: tensor.to(device) for name, tensor in weights.items()}
    return {**best, "model": moved} if best else {}
