"""Parts of the stacked engine against what they stand for in a run alone."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from experiments.data.batches import Batches
from experiments.optimizers.adam import Adam
from experiments.optimizers.adamw import AdamW
from experiments.optimizers.optimizer import Optimizer
from experiments.optimizers.sgd import SGD
from experiments.stacked.batches import StackedBatches
from experiments.stacked.optimizers import groups
from experiments.stacked.together import THREADS, together


@pytest.mark.parametrize("n", [37, 33])  # a short last batch, and one of a single sample, which is merged
def test_stacked_batches_are_those_of_each_run_one_after_another(n: int) -> None:
    alone = [Batches(n, 8, seed) for seed in (3, 5, 3)]
    stacked = StackedBatches([Batches(n, 8, seed) for seed in (3, 5, 3)])
    for step in (*range(12), 2):
        assert torch.equal(stacked[step], torch.cat([batches[step] for batches in alone]))
    with pytest.raises(IndexError, match="steps count from 0"):
        stacked[-1]


@pytest.mark.parametrize("policy", [SGD(nesterov=True), Adam(lr=0.01), AdamW(lr=0.01, weight_decay=0.1)])
def test_parameter_groups_are_those_of_the_torch_optimizer(policy: Optimizer) -> None:
    methods = torch.optim.Optimizer.add_param_group, torch.optim.Optimizer.state_dict
    ours = groups(policy, 3)
    assert methods == (torch.optim.Optimizer.add_param_group, torch.optim.Optimizer.state_dict)
    assert ours == policy.build([nn.Parameter(torch.zeros(2)) for _ in range(3)]).state_dict()["param_groups"]


def test_parameter_groups_do_not_import_the_compiler() -> None:
    code = (
        "import sys; from experiments.stacked.optimizers import groups; from experiments.optimizers.sgd import SGD; "
        "groups(SGD(), 2); sys.exit('torch._dynamo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], check=True)


def test_file_work_goes_through_all_items_in_order_and_says_what_fails() -> None:
    many = range(2 * THREADS + 1)
    assert together(lambda item: item * item, many) == [item * item for item in many]
    with pytest.raises(ZeroDivisionError):
        together(lambda item: 1 // (item - 3), many)
