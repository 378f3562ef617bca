"""Parts of the stacked engine against what they stand for in a run alone."""

import threading

import pytest
import torch
from torch import nn

from experiments.data.dataset import Part
from experiments.measuring.gradients import clip, norms
from experiments.measuring.log_window import LogWindow
from experiments.optimizers.adam import Adam
from experiments.optimizers.adamw import AdamW
from experiments.optimizers.optimizer import Optimizer
from experiments.optimizers.sgd import SGD
from experiments.stacked.layers import stack
from experiments.stacked.optimizers import groups
from experiments.training.scoring import score, scores
from experiments.training.together import THREADS, together
from surrogates import HardLayer, key_noise
from surrogates.ops.floor import Floor
from surrogates.strategies.dither import Dither
from surrogates.strategies.perturbed import Perturbed


@pytest.mark.parametrize("policy", [SGD(nesterov=True), Adam(lr=0.01), AdamW(lr=0.01, weight_decay=0.1)])
def test_parameter_groups_are_those_of_the_torch_optimizer(policy: Optimizer) -> None:
    assert (
        groups(policy, 3) == policy.build([nn.Parameter(torch.zeros(2)) for _ in range(3)]).state_dict()["param_groups"]
    )


def test_norms_clipping_and_the_log_window_of_a_stack_are_those_of_each_replica() -> None:
    torch.manual_seed(0)
    stacked = [torch.randn(3, 4, 5), torch.randn(3, 6), torch.randn(3)]
    alone = [[tensor[r].clone() for tensor in stacked] for r in range(3)]
    assert torch.equal(norms(stacked, 3), torch.cat([norms(own) for own in alone]))
    window, windows = LogWindow("cpu", 3), [LogWindow("cpu") for _ in range(3)]
    for size in (4, 2):
        losses, clipped = torch.rand(3), clip(stacked, float(size), 3)
        window.add(losses, size)
        window.clipped.append(clipped)
        for r, own in enumerate(windows):
            own.add(losses[r], size)
            own.clipped.append(clip(alone[r], float(size)))
            for ours, theirs in zip(stacked, alone[r], strict=True):
                assert torch.equal(ours[r], theirs)
    others = torch.rand(3, 2)
    for r, own in enumerate(windows):
        (numbers,) = own.read([others[r]])
        assert window.read([others])[r] == numbers
        assert window.mean(numbers.losses) == own.mean(numbers.losses)
        assert str(window.state(r)) == str(own.state(0))
    copied = LogWindow("cpu", 3)
    copied.restore([own.state(0) for own in windows])
    assert copied.read([others]) == window.read([others])


def test_scores_of_a_stack_are_those_of_each_replica() -> None:
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(4, 3)).double() for _ in range(2)]
    part = Part(torch.randn(10, 4, dtype=torch.float64), torch.arange(10) % 3)
    alone = [score(model, part) for model in models]
    for ours, theirs in zip(scores(stack(models), part, replicas=2), alone, strict=True):
        assert (ours.loss, ours.accuracy) == (pytest.approx(theirs.loss, rel=1e-12), theirs.accuracy)


def test_file_work_goes_through_all_items_in_order_and_says_what_fails() -> None:
    many = range(2 * THREADS + 1)
    assert together(lambda item: item * item, many) == [item * item for item in many]
    with pytest.raises(ZeroDivisionError):
        together(lambda item: 1 // (item - 3), many)
    assert together(lambda _: threading.current_thread(), [1]) == [threading.current_thread()]


@pytest.mark.parametrize("strategy", ["dither", "perturbed"])  # noise by sample; by draw and sample
def test_a_stack_draws_the_noise_of_each_seed(strategy: str) -> None:
    kind = {"dither": Dither, "perturbed": Perturbed}[strategy]()
    x, seeds = torch.randn(2 * 3, 4), [7, 3]
    alone = HardLayer(Floor(), kind)
    outputs = []
    for seed, own in zip(seeds, x.split(3), strict=True):
        key_noise(alone, seed, 5)
        outputs.append(alone(own))
    layer = stack([nn.Sequential(HardLayer(Floor(), kind)) for _ in seeds])
    key_noise(layer, torch.tensor(seeds), 5)
    torch.testing.assert_close(layer(x), torch.cat(outputs))
