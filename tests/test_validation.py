"""Which model of a run is its best one, and that scoring on the way changes nothing."""

import pytest
import torch
from torch import nn

from experiments.data.dataset import Part
from experiments.training import validation
from experiments.training.scoring import PartScore
from experiments.training.validation import Validation


class Stack:
    """Two replicas of a model; the weights of each tell the step and the replica."""

    replicas, key, step = 2, 0, 0

    def __init__(self):
        self.model = nn.Linear(1, 2)
        self.loaded = None
        x, y = torch.zeros(4, 1), torch.zeros(4, dtype=torch.long)
        self.data = type("Data", (), {"val": Part(x, y), "test": Part(x, y)})

    def weights(self, r):
        return {"step and replica": torch.tensor([self.step, r])}

    def load_weights(self, weights):
        self.loaded = weights


def numbers(weights):
    return [own["step and replica"].tolist() for own in weights]


@pytest.fixture
def scored(monkeypatch):
    """Validates steps with these accuracies of two replicas; the validation afterwards, and all scores returned."""

    def run(*accuracies):
        stack = Stack()
        found = iter(accuracies)
        own = Validation(stack)
        monkeypatch.setattr(validation, "layer_outputs", lambda *_: {})
        monkeypatch.setattr(validation, "scores", lambda *_: [PartScore(2.0, value) for value in next(found)])
        rows = []
        for step in range(10, 10 * len(accuracies) + 1, 10):
            stack.step = step
            rows.append(own(step, False))
        return own, rows

    return run


def test_the_best_of_each_replica_is_its_own_and_of_equal_ones_the_earlier(scored):
    own, rows = scored((0.5, 0.0), (0.7, 0.0), (0.7, 0.25), (0.6, 0.25))
    assert [best["step"] for best in own.best] == [20, 30]
    assert [best["accuracy/val"] for best in own.best] == [0.7, 0.25]
    assert numbers(best["model"] for best in own.best) == [[20, 0], [30, 1]]
    assert rows[1] == [{"loss/val": 2.0, "accuracy/val": 0.7}, {"loss/val": 2.0, "accuracy/val": 0.0}]


def test_an_accuracy_of_zero_is_a_best_one_too(scored):
    """So that a run has one, however bad it is."""
    own, _ = scored((0.0, 0.0), (0.0, 0.0))
    assert [best["step"] for best in own.best] == [10, 10]


def test_the_best_models_are_tested_and_the_last_ones_put_back(scored, monkeypatch):
    own, _ = scored((0.5, 0.1), (0.4, 0.2))
    loaded = []
    monkeypatch.setattr(own.trainer, "load_weights", loaded.append)
    monkeypatch.setattr(validation, "scores", lambda *_: [PartScore(1.0, 0.75), PartScore(1.0, 0.25)])
    assert own.test_best() == [
        {"step": 10, "loss/val": 2.0, "accuracy/val": 0.5, "accuracy/test": 0.75},
        {"step": 20, "loss/val": 2.0, "accuracy/val": 0.2, "accuracy/test": 0.25},
    ]
    assert [numbers(weights) for weights in loaded] == [[[10, 0], [20, 1]], [[20, 0], [20, 1]]]


def test_the_best_so_far_survives_a_checkpoint(scored):
    own, _ = scored((0.5, 0.1))
    own.outputs = {"layer": torch.tensor([[1.0, 2.0], [3.0, 4.0]])}
    states = [own.state(r) for r in range(2)]
    other = Validation(Stack())
    other.restore(states)
    assert [best["step"] for best in other.best] == [10, 10]
    assert numbers(best["model"] for best in other.best) == [[10, 0], [10, 1]]
    assert torch.equal(other.outputs["layer"], own.outputs["layer"])
