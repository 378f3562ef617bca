"""What a run is scored on between its steps, and which of its models is the best one."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from experiments.data.dataset import Part
from experiments.measuring.probe_batch import flip_rates, gaps, layer_outputs
from experiments.training.scoring import recalibrate, score
from experiments.training.validation import Validation
from surrogates import HardLayer, key_noise
from surrogates.ops.heaviside import Heaviside
from surrogates.strategies.gumbel import Gumbel

SAMPLES = 20
TEST = 100.0  # added to the samples of the test part


class Scripted(nn.Module):
    """Two replicas folded into one batch; each is right on the first `right[part][r]` samples of a part."""

    def __init__(self):
        super().__init__()
        self.right = {"val": (0, 0), "test": (0, 0)}

    def forward(self, x):
        part = "test" if x[0, 0] >= TEST else "val"
        limits = torch.tensor(self.right[part]).repeat_interleave(len(x) // 2)
        right = (x[:, 0] % TEST < limits).float()
        return torch.stack([right, 1 - right], 1)


class Stack:
    """Two such replicas, whose weights are the step and the replica."""

    replicas, key, step = 2, 0, 0

    def __init__(self):
        self.model, self.loaded = Scripted(), []
        x, y = torch.arange(SAMPLES).float().unsqueeze(1), torch.zeros(SAMPLES, dtype=torch.long)
        self.data = SimpleNamespace(train=Part(x[:10], y[:10]), val=Part(x, y), test=Part(x + TEST, y))

    def weights(self, r):
        return {"step and replica": torch.tensor([self.step, r])}

    def load_weights(self, weights):
        self.loaded.append(numbers(weights))
        self.model.right = {"val": (0, 0), "test": [int(step) % 7 + r for step, r in self.loaded[-1]]}


def numbers(weights):
    return [own["step and replica"].tolist() for own in weights]


def validated(*right):
    """A stack validated after steps 10, 20, ..., right on so many samples; the validation, and what it returned."""
    own, rows = Validation(Stack()), []
    for index, val in enumerate(right, 1):
        own.trainer.step = 10 * index
        own.model.right = {"val": val, "test": (3, 5)}
        rows.append(own(10 * index, last=index == len(right)))
    return own, rows


def test_the_best_of_each_replica_is_its_own_and_of_equal_ones_the_earlier():
    own, rows = validated((10, 0), (14, 0), (14, 5), (12, 5))
    assert [best["step"] for best in own.best] == [20, 30]
    assert [best["accuracy/val"] for best in own.best] == [0.7, 0.25]
    assert numbers(best["model"] for best in own.best) == [[20, 0], [30, 1]]
    assert [[row["accuracy/val"] for row in both] for both in rows] == [[0.5, 0], [0.7, 0], [0.7, 0.25], [0.6, 0.25]]
    assert [set(row) for row in rows[0]] == [{"loss/val", "accuracy/val"}] * 2


def test_an_accuracy_of_zero_is_a_best_one_too():
    """So that a run has one, however bad it is."""
    assert [best["step"] for best in validated((0, 0), (0, 0))[0].best] == [10, 10]


def test_the_last_evaluation_scores_test_data_too():
    _, rows = validated((10, 0), (10, 0))
    assert [row["accuracy/test"] for row in rows[-1]] == [3 / SAMPLES, 5 / SAMPLES]


def test_the_last_evaluation_scores_the_training_data_too():
    _, rows = validated((10, 0), (7, 2))
    assert [row["accuracy/train_end"] for row in rows[-1]] == [0.7, 0.2]
    right, wrong = math.log(1 + math.exp(1)) - 1, math.log(1 + math.exp(1))
    expected = [0.7 * right + 0.3 * wrong, 0.2 * right + 0.8 * wrong]
    assert [row["loss/train_end"] for row in rows[-1]] == pytest.approx(expected)


def test_the_best_models_are_tested_and_the_last_ones_put_back():
    own, _ = validated((10, 2), (8, 4), (8, 4))
    assert own.test_best() == [
        {"step": 10, "loss/val": own.best[0]["loss/val"], "accuracy/val": 0.5, "accuracy/test": 3 / SAMPLES},
        {"step": 20, "loss/val": own.best[1]["loss/val"], "accuracy/val": 0.2, "accuracy/test": 7 / SAMPLES},
    ]
    assert own.trainer.loaded == [[[10, 0], [20, 1]], [[30, 0], [30, 1]]]


def test_the_best_so_far_survives_a_checkpoint():
    own, _ = validated((10, 2))
    own.outputs = {"layer": torch.tensor([[1.0, 2.0], [3.0, 4.0]])}
    other = Validation(Stack())
    other.restore([own.state(r) for r in range(2)])
    assert [best["step"] for best in other.best] == [10, 10]
    assert numbers(best["model"] for best in other.best) == [[10, 0], [10, 1]]
    assert torch.equal(other.outputs["layer"], own.outputs["layer"])
    before = Validation(Stack())
    other.restore([before.state(r) for r in range(2)])  # of a run that was never evaluated
    assert (other.best, other.outputs) == ([{}, {}], {})


def test_the_best_so_far_of_one_run_survives_a_checkpoint_and_moves_to_the_device_of_its_data(noisy):
    weights = {"weight": torch.tensor([1.0, 2.0])}
    noisy.weights = lambda r: weights
    validation = Validation(noisy)
    validation(10, False)
    state = validation.state(0)
    noisy.data.val = Part(noisy.data.val.x.to("meta"), noisy.data.val.y)
    other = Validation(noisy)
    other.restore([state])
    assert {key: value for key, value in other.best[0].items() if key != "model"} == {
        key: value for key, value in validation.best[0].items() if key != "model"
    }
    assert set(other.best[0]) == set(validation.best[0])
    assert other.best[0]["model"]["weight"].device.type == "meta"
    assert set(other.outputs) == set(validation.outputs) != set()
    assert {rows.device.type for rows in other.outputs.values()} == {"meta"}


@pytest.fixture
def noisy():
    """A run of one model with batch norm and a layer that draws noise."""
    torch.manual_seed(0)
    layer = HardLayer(Heaviside(), Gumbel(value="soft"))
    model = nn.Sequential(nn.BatchNorm1d(6), layer, nn.Linear(6, 3)).train()
    parts = {name: Part(3 * torch.randn(300, 6) + 4, torch.randint(3, (300,))) for name in ("train", "val", "test")}
    own = SimpleNamespace(model=model, data=SimpleNamespace(**parts), replicas=1, key=5)
    own.single, own.weights = lambda r: model if r == 0 else None, lambda r: {}
    return own


def test_a_model_is_scored_hard_as_in_training_and_recalibrated_and_nothing_in_it_changes(noisy):
    """Noise is keyed by minus the step, so that evaluations share none with the steps or with one another."""
    model, data = noisy.model, noisy.data
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    validation = Validation(noisy)
    (first,), (last,) = validation(10, False), validation(20, True)
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    probe, hard = data.val.x[:256], score(model, data.val)
    outputs = layer_outputs(model, probe, "hard")
    for step, found in ((10, first), (20, last)):
        key_noise(model, 5, -step)
        soft = score(model, data.val, "strategy")
        key_noise(model, 5, -step)
        gap = gaps(layer_outputs(model, probe, "strategy"), outputs)
        assert (found["loss/val"], found["accuracy/val"]) == (hard.loss, hard.accuracy)
        assert (found["loss/val_soft"], found["accuracy/val_soft"]) == (soft.loss, soft.accuracy)
        for tag, value in gap.items():
            assert found[tag] == float(value)
    assert first["loss/val_soft"] != last["loss/val_soft"] != last["loss/val"]
    again = recalibrate(model, data.train.x)
    assert last["accuracy/test"] == score(model, data.test).accuracy
    assert last["accuracy/val_recalibrated"] == score(again, data.val).accuracy != hard.accuracy
    assert last["accuracy/test_recalibrated"] == score(again, data.test).accuracy != last["accuracy/test"]
    train = score(model, data.train)
    assert (last["loss/train_end"], last["accuracy/train_end"]) == (train.loss, train.accuracy)
    assert set(last) - set(first) == {
        *("loss/train_end", "accuracy/train_end"),
        *("accuracy/test", "accuracy/val_recalibrated", "accuracy/test_recalibrated"),
        *flip_rates(outputs, outputs),
    }
    assert [last[tag] for tag in flip_rates(outputs, outputs)] == [0.0]


def test_each_replica_of_a_stack_has_its_own_gap(noisy):
    noisy.replicas = 2
    rows = Validation(noisy)(10, False)
    probe = noisy.data.val.x[:256]
    key_noise(noisy.model, 5, -10)
    soft = layer_outputs(noisy.model, probe, "strategy", 2)
    expected = gaps(soft, layer_outputs(noisy.model, probe, "hard", 2))
    for tag, gap in expected.items():
        assert [row[tag] for row in rows] == gap.tolist()
        assert gap[0] != gap[1]


def test_decisions_that_flipped_since_the_last_evaluation_are_counted(noisy):
    validation = Validation(noisy)
    validation(10, False)
    earlier = layer_outputs(noisy.model, noisy.data.val.x[:256], "hard")
    with torch.no_grad():
        noisy.model[0].bias += 0.5
    (found,) = validation(20, False)
    expected = flip_rates(earlier, layer_outputs(noisy.model, noisy.data.val.x[:256], "hard"))
    assert {tag: found[tag] for tag in expected} == {tag: float(rate) for tag, rate in expected.items()}
    assert 0 < next(iter(expected.values())) < 1


def test_without_batch_norm_or_a_soft_value_there_is_nothing_to_recalibrate(noisy):
    noisy.model[0] = nn.Identity()
    (found,) = Validation(noisy)(10, True)
    assert "accuracy/val_soft" in found
    assert "accuracy/val_recalibrated" not in found
    plain = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3))
    noisy.model, noisy.single = plain, lambda r: plain
    (found,) = Validation(noisy)(10, True)
    assert set(found) == {"loss/train_end", "accuracy/train_end", "loss/val", "accuracy/val", "accuracy/test"}


def test_the_outcomes_of_test_samples_survive_a_checkpoint_after_the_last_evaluation():
    own, rows = validated((10, 2), (8, 4))
    assert [right.nonzero().flatten().tolist() for right in own.right["last"]] == [[0, 1, 2], [0, 1, 2, 3, 4]]
    resumed = Validation(own.trainer)
    resumed.restore([own.state(r) for r in range(2)])
    resumed.test_best()
    assert torch.equal(resumed.right["last"], own.right["last"])
    assert [right.sum() for right in resumed.right["best"]] == [3, 7]
    assert [row["accuracy/test"] for row in rows[-1]] == [3 / SAMPLES, 5 / SAMPLES]
