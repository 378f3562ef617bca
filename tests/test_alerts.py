"""Parameters that stop training, and learned values at their floor, are named during a run, once each."""

import json

import pytest
import torch
from torch import nn

import surrogates as sg
from experiments.measuring.alerts import Alerts
from experiments.measuring.learned_values import learned_values
from runs import train


def model_of(*names):
    model = nn.Module()
    for name in names:
        model.register_parameter(name, nn.Parameter(torch.ones(1)))
    return model


def alerts_of(norms, steps, every):
    """The faults by step of a model whose parameters have these gradient norms at the logged steps."""
    alerts = Alerts(model_of(*norms), steps)
    found = {}
    for i, own in enumerate(zip(*norms.values(), strict=True)):
        values = {f"grad_norm/{name}": norm for name, norm in zip(norms, own, strict=True) if norm is not None}
        found[(i + 1) * every] = alerts((i + 1) * every, values)
    return {step: faults for step, faults in found.items() if faults}


def test_a_parameter_is_named_after_a_tenth_of_training_without_a_gradient():
    """`dies` had one before, `pauses` for too short, `never` and `absent` had none at all; NaN is no 0."""
    found = alerts_of(
        {
            "dies": [1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            "pauses": [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0],
            "never": [0.0] * 7,
            "absent": [None] * 7,
            "faulty": [float("nan")] * 7,
        },
        steps=100,
        every=4,
    )
    words = "at every logged step from {} to {} the gradient is exactly 0 or None of {}"
    assert found == {16: [words.format(4, 16, "never, absent")], 24: [words.format(12, 24, "dies")]}


def test_a_parameter_is_named_once():
    assert list(alerts_of({"a": [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]}, steps=10, every=1)) == [2]


def test_a_scale_at_its_floor_is_named_once():
    layer = sg.layers.QuantizedActivation("ste", range="learned_step")
    alerts = Alerts(layer, 100)
    tag = "op/quantize/scale"
    told = []
    for step, parameter in enumerate((0.1, -1.0, 0.1, 1e-9)):
        layer.step.data.fill_(parameter)
        told.append(alerts(step, {"grad_norm/step": 1.0, tag: learned_values(layer)[tag].item()}))
    assert told == [[], [f"{tag} reached its floor 1e-06 by step 1; no smaller value can act"], [], []]


def test_the_state_goes_through_a_checkpoint():
    alerts = Alerts(model_of("a", "b"), 100)
    for step in (1, 11):
        alerts(step, {"grad_norm/a": 0.0, "grad_norm/b": float(step == 1)})
    resumed = Alerts(model_of("a", "b"), 100)
    resumed.restore(json.loads(json.dumps(alerts.state())))
    assert resumed(15, {}) == alerts(15, {}) == []
    assert resumed(21, {}) == alerts(21, {}) != []


@pytest.mark.slow
def test_a_run_names_the_parameters_in_its_log_before_it_ends(tmp_path):
    own = ("component=floor", "strategy=subgradient", "model.width=8", "max_steps=12", "log_every=1", "eval_every=12")
    folder = train(tmp_path, *own).folder
    log = " ".join((folder / "train.log").read_text().split())  # notes are wrapped
    names = ", ".join(f"blocks.{i}.values.{key}" for i in (0, 1) for key in ("weight", "bias"))
    assert log.count("exactly 0 or None") == 1
    assert f"note: at every logged step from 1 to 3 the gradient is exactly 0 or None of {names} " in log
