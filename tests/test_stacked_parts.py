"""Parts of the stacked engine against what they stand for in a run alone."""

import pytest
import torch
from torch import nn

from experiments.optimizers.adam import Adam
from experiments.optimizers.adamw import AdamW
from experiments.optimizers.optimizer import Optimizer
from experiments.optimizers.sgd import SGD
from experiments.stacked.layers import stack
from experiments.stacked.optimizers import groups
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


def test_file_work_goes_through_all_items_in_order_and_says_what_fails() -> None:
    many = range(2 * THREADS + 1)
    assert together(lambda item: item * item, many) == [item * item for item in many]
    with pytest.raises(ZeroDivisionError):
        together(lambda item: 1 // (item - 3), many)


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
