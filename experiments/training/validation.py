"""What is scored between training steps, and which model was best so far."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from experiments.data.dataset import Dataset
from experiments.measuring.probe_batch import flip_rates, gaps, layer_outputs, numbers
from experiments.training.scoring import has_batch_norm, recalibrated, score
from surrogates import hard_layers, key_noise

PROBE_SAMPLES = 256  # on which flipped decisions are counted


class Validation:
    """Scores a model in training on fixed parts; `best` is the record of the best one on validation data."""

    def __init__(self, model: nn.Module, data: Dataset, seed: int) -> None:
        self.model, self.data, self.seed = model, data, seed
        self.soft = any(layer.strategy.soft_forward for layer in hard_layers(model).values())
        self.best: dict[str, Any] = {}
        self.outputs: dict[str, Tensor] = {}

    def __call__(self, step: int, last: bool) -> dict[str, float]:
        """Scores by tag: with hard ops, as the strategy computes where that differs, and flipped decisions."""
        hard = score(self.model, self.data.val)
        values = {"loss/val": hard.loss, "accuracy/val": hard.accuracy}
        if self.soft:
            key_noise(self.model, self.seed, -step)
            soft = score(self.model, self.data.val, "strategy")
            values |= {"loss/val_soft": soft.loss, "accuracy/val_soft": soft.accuracy}
        values |= self._on_probe_batch(step)
        if last:
            values |= self._final()
        if hard.accuracy > self.best.get("accuracy/val", -1.0):
            self.best = {"step": step, **values, "model": copied(self.model.state_dict())}
        return values

    def _on_probe_batch(self, step: int) -> dict[str, float]:
        """Decisions that flipped since the last time, and the soft values' distance where the strategy has any."""
        x = self.data.val.x[:PROBE_SAMPLES]
        before, self.outputs = self.outputs, _of_one(layer_outputs(self.model, x, "hard"))
        rates = flip_rates(before, self.outputs)
        if self.soft:
            key_noise(self.model, self.seed, -step)
            rates |= gaps(_of_one(layer_outputs(self.model, x, "strategy")), self.outputs)
        return {tag: value for tag, (value,) in numbers(rates).items()}

    def _final(self) -> dict[str, float]:
        values = {"accuracy/test": score(self.model, self.data.test).accuracy}
        if self.soft and has_batch_norm(self.model):
            hard = recalibrated(self.model, self.data.train.x)
            values["accuracy/val_recalibrated"] = score(hard, self.data.val).accuracy
            values["accuracy/test_recalibrated"] = score(hard, self.data.test).accuracy
        return values

    def best_tested(self) -> dict[str, float]:
        """The best model's step and scores, with its test accuracy, and without its weights."""
        last = copied(self.model.state_dict())
        self.model.load_state_dict(self.best["model"])
        test = score(self.model, self.data.test).accuracy
        self.model.load_state_dict(last)
        return {**{key: value for key, value in self.best.items() if key != "model"}, "accuracy/test": test}


def _of_one(outputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: rows[0] for name, rows in outputs.items()}


def copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A state dict that further training does not change."""
    return {name: tensor.detach().clone() for name, tensor in state.items()}
