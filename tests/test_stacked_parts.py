"""Parts of the stacked engine against what they stand for in a run alone."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from experiments.data.batches import Batches
from experiments.optimizers.adam import Adam
from experiments.optimizers.adamw import AdamW
from experiments.optimizers.optimizer import Optimizer
from experiments.optimizers.sgd import SGD
from experiments.stacked import cross_entropy
from experiments.stacked.batches import StackedBatches
from experiments.stacked.cross_entropy import CrossEntropy
from experiments.stacked.layers import stack
from experiments.stacked.optimizers import groups
from experiments.stacked.together import THREADS, together
from surrogates import HardLayer, key_noise
from surrogates.ops.floor import Floor
from surrogates.strategies.dither import Dither
from surrogates.strategies.perturbed import Perturbed

ROOT = Path(__file__).resolve().parents[1]


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


@pytest.mark.slow  # a process of its own
def test_parameter_groups_do_not_import_the_compiler() -> None:
    code = (
        "import sys; from experiments.stacked.optimizers import groups; from experiments.optimizers.sgd import SGD; "
        "groups(SGD(), 2); sys.exit('torch._dynamo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_file_work_goes_through_all_items_in_order_and_says_what_fails() -> None:
    many = range(2 * THREADS + 1)
    assert together(lambda item: item * item, many) == [item * item for item in many]
    with pytest.raises(ZeroDivisionError):
        together(lambda item: 1 // (item - 3), many)


def test_the_loss_and_its_derivative_are_torchs() -> None:
    torch.manual_seed(0)
    logits, y = 5 * torch.randn(6, 4, dtype=torch.float64), torch.tensor([0, 3, 1, 1, 2, 0])
    leaf = logits.requires_grad_()
    expected = F.cross_entropy(leaf, y, reduction="none").view(2, -1).mean(1)
    gradient = torch.autograd.grad(expected.sum(), leaf)[0]
    total, losses = CrossEntropy.apply(leaf, y, 2)
    traced = cross_entropy.traced(leaf, y, 2)
    for ours in (losses, traced):
        torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(torch.autograd.grad(total, leaf)[0], gradient)
    torch.testing.assert_close(torch.autograd.grad(traced.sum(), leaf)[0], gradient)


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


ROUNDS = 5
FAULTS = f"""
import resource
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range({ROUNDS}):
        bytearray(40 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
from experiments.stacked.memory import keep_freed_memory
faults()
ordinary = faults()
keep_freed_memory()
faults()
print(ordinary, faults())
"""


@pytest.mark.skipif(sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
def test_freed_memory_is_kept_for_the_next_step() -> None:
    """What is as large as a stack's tensors costs no page again once it was there; else each round pays for it all."""
    child = subprocess.run([sys.executable, "-c", FAULTS], check=True, capture_output=True, text=True, cwd=ROOT)
    ordinary, kept = map(int, child.stdout.split())
    assert ordinary >= ROUNDS * 20  # pages of up to 2 MB
    assert kept < ROUNDS
