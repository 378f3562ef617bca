"""Learned scales, clips, offsets and thresholds as they act: in modules, and in the curves of runs."""

import copy

import pytest
import torch
from torch import nn

import surrogates as sg
from experiments.measuring.learned_values import floors, learned_values
from runs import lines, train
from surrogates.component import Calibrated
from surrogates.quantizing.quantizer import quantize_weight

X = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))


def quantized(per, grid):
    return quantize_weight(nn.Linear(4, 3), "ste", per=per, grid=grid, scale="learned")


LEARNERS = {
    "step": lambda: sg.layers.QuantizedActivation("ste", range="learned_step"),
    "clip": lambda: sg.layers.QuantizedActivation("ste", range="learned_clip"),
    "threshold": lambda: sg.layers.LearnedThreshold("ste"),
    "one_scale": lambda: quantized("tensor", "symmetric"),
    "channels": lambda: quantized("channel", "symmetric"),
    "affine": lambda: quantized("channel", "affine"),
}
PARAMETER = {"scale": "step", "clip": "clip", "offset": "offset", "threshold": "threshold"}


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("number", [0.3, 1e-9, -0.3])
def test_the_effective_value_acts_as_the_parameter_does(name, number):
    """A module whose parameter is replaced by the effective value computes the same bits, also below the floor."""
    model = LEARNERS[name]()
    owner = next(module for module in model.modules() if isinstance(module, Calibrated))
    with torch.no_grad():
        for parameter in (PARAMETER[key] for key in owner.effective_values()):
            getattr(owner, parameter).fill_(number)
    values = owner.effective_values()
    assert values
    before = model(X)
    for key, (numbers, floor) in values.items():
        assert (numbers >= floor).all()
        assert not numbers.requires_grad
        getattr(owner, PARAMETER[key]).data.copy_(numbers)
    assert torch.equal(model(X), before)


def test_several_numbers_give_their_mean_and_the_smallest():
    model = quantized("channel", "affine")
    quantizer = model.parametrizations.weight[0]
    quantizer.step.data = torch.tensor([0.25, -1.0, 0.5])
    quantizer.offset.data = torch.tensor([1.0, 2.0, -6.0])
    found = {tag: value.item() for tag, value in learned_values(model).items()}
    assert found == pytest.approx(
        {
            "op/weight.quantize/scale": 0.75 / 3,
            "op/weight.quantize/scale_min": 1e-6,
            "op/weight.quantize/offset": -1.0,
        },
        rel=1e-5,
    )
    assert floors(model) == {"op/weight.quantize/scale_min": found["op/weight.quantize/scale_min"]}


def test_modules_without_learned_values_have_none():
    assert learned_values(nn.Sequential(sg.layers.QuantizedActivation("ste"), sg.HardLayer("round", "ste"))) == {}


@pytest.mark.slow
def test_a_run_logs_the_values_that_act_at_each_logged_step(tmp_path):
    """The first is the value that calibration sets; it moves as the parameter does."""
    own = ("component.range=learned_step", "model.width=8", "max_steps=3", "log_every=1", "strategy=smooth")
    records = lines(train(tmp_path, *own).folder)
    steps = [record["op/blocks.0.component.quantize/scale"] for record in records]
    assert len(set(steps)) == 3
    assert min(steps) > 0
    assert [record["op/blocks.0.component.quantize/temperature"] for record in records] == [
        record["temperature"] for record in records
    ]


def test_stacked_modules_give_the_values_of_each_replica():
    from experiments.stacked.layers import stack

    models = [nn.Sequential(nn.Linear(4, 3), LEARNERS["step"](), quantized("channel", "affine")) for _ in range(2)]
    models[1][1].step.data.fill_(-2.0)
    alone = [learned_values(copy.deepcopy(model)) for model in models]
    for tag, value in learned_values(stack(models), 2).items():
        assert value.tolist() == pytest.approx([own[tag].item() for own in alone])
