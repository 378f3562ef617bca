"""Scores replicas between training steps, and keeps the best weights of each."""

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

PROBE_SAMPLES = 256  # on which flipped hard outputs are counted
TRAIN_SAMPLES = 4096  # at most, on which the last models are scored


class Validation:
    """Scores R replicas on fixed data; `best[r]` has the scores and weights of replica r at its best evaluation."""

    def __init__(self, trainer: Replicas) -> None:
        self.trainer, self.model, self.data, self.replicas = trainer, trainer.model, trainer.data, trainer.replicas
        self.soft = any(layer.strategy.soft_forward for layer in hard_layers(self.model).values())
        self.best: list[dict[str, Any]] = [{} for _ in range(self.replicas)]
        self.outputs: dict[str, Tensor] = {}  # (R, n) by layer, to which the next evaluation compares its own
        self.right: dict[Which, Tensor] = {}  # (R, N): which test samples the last and the best models classify right

    def __call__(self, step: int, last: bool) -> list[Values]:
        """Returns each replica's values by tag: scores with hard ops, soft scores if there are any, and flip rates.

        If `last`, the test scores too.
        """
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
        """Flip rates of the hard outputs since the last evaluation, and soft-to-hard gaps, on the probe batch."""
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
        """Each replica's best step and scores, with the test accuracy of its best weights."""
        if "last" not in self.right:  # resumed after the last evaluation
            self._test("last")
        last = [self.trainer.weights(r) for r in range(self.replicas)]
        self.trainer.load_weights([best["model"] for best in self.best])
        accuracies = self._test("best")
        self.trainer.load_weights(last)
        kept = [{key: value for key, value in best.items() if key != "model"} for best in self.best]
        return [{**best, "accuracy/test": accuracy} for best, accuracy in zip(kept, accuracies, strict=True)]

    def state(self, r: int) -> dict[str, Any]:
        """Replica r's part of a checkpoint."""
        return {"best": self.best[r], "outputs": {name: rows[r].clone() for name, rows in self.outputs.items()}}

    def restore(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Loads the replicas' parts of checkpoints, all of one step."""
        device, first = self.data.val.x.device, states[0]["outputs"]
        self.best = [_best_on(device, state["best"]) for state in states]
        self.outputs = {name: torch.stack([state["outputs"][name] for state in states]).to(device) for name in first}


def _best_on(device: torch.device, best: Mapping[str, Any]) -> dict[str, Any]:
    """The entry `best` of a checkpoint with its weights on a device; {} before the first evaluation."""
    weights = best.get("model", {})
    moved = {name: tensor.to(device) for name, tensor in weights.items()}
    return {**best, "model": moved} if best else {}
