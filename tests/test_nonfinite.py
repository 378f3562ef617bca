"""NaN or infinity put into data, loss, gradient, parameter, learned scale or temperature: found, named, by policy."""

import math

import pytest

from experiments.stacked import trainer as stacked
from experiments.stacked.run import run_group
from experiments.training.run import Request
from experiments.training.trainer import Trainer
from runs import compose, lines, read, train

LOGGED = 5
OWN = ("strategy=smooth", "max_steps=10", "eval_every=10", f"log_every={LOGGED}", "model.width=8")


def put(monkeypatch, what, value, at=LOGGED):
    """Makes one number of a run `value` at a step; a temperature stays so, as a schedule would have it."""
    schedule, batch, loss, apply = Trainer._schedule, Trainer.batch, Trainer._loss, Trainer._apply

    def scheduled(self):
        schedule(self)
        if self.step >= at and what == "temperature":
            self.probe.layers["blocks.1.component.quantize"].temperature.fill_(value)

    def drawn(self, r, step):
        x, y = batch(self, r, step)
        if step == at and what == "data":
            x[0, 0] = value
        return x, y

    def lost(self, x, y):
        if self.step == at and what == "gradient":
            bias = self.parameters["blocks.1.values.bias"]
            handle = bias.register_hook(lambda gradient: handle.remove() or gradient + value)
        result = loss(self, x, y)
        return result + value * result if self.step == at and what == "loss" else result

    def applied(self, x):
        apply(self, x)
        if self.step == at and what == "parameter":
            self.parameters["blocks.1.values.bias"].data[0] = value
        if self.step == at and what == "scale":
            self.parameters["blocks.1.component.clip"].data.fill_(value)

    monkeypatch.setattr(Trainer, "_apply", applied)
    monkeypatch.setattr(Trainer, "_schedule", scheduled)
    monkeypatch.setattr(Trainer, "batch", drawn)
    monkeypatch.setattr(Trainer, "_loss", lost)


FIRST = "is not finite (layer blocks.0.values)"
BIAS = "blocks.1.values.bias is not finite (layer blocks.1.values)"
CLIP = "blocks.1.component.clip is not finite (layer blocks.1.component)"
TEMPERATURE = "the temperature of layer blocks.1.component.quantize is"
# What is said by a policy that steps with what it has, and what by one that leaves the step out.
WORDS = {
    "data": (f"parameter blocks.0.values.weight {FIRST}", f"gradient of blocks.0.values.weight {FIRST}"),
    "loss": (f"parameter blocks.0.values.weight {FIRST}", f"gradient of blocks.0.values.weight {FIRST}"),
    "gradient": (f"parameter {BIAS}", f"gradient of {BIAS}"),
    "parameter": (f"parameter {BIAS}", f"parameter {BIAS}"),
    "scale": (f"parameter {CLIP}", f"parameter {CLIP}"),
    "temperature": (TEMPERATURE, TEMPERATURE),
}


def unfolded_log(folder):
    return (folder / "train.log").read_text().replace("\n  ", " ")


def found(outcome, policy):
    """What a run says was not finite, once: as the reason of its end, or as a note."""
    said = unfolded_log(outcome.folder)
    assert said.count("training diverged by step") == 1
    if policy == "stop":
        assert outcome.status == read(outcome.folder / "status.json")["status"] == "FAILED"
        assert lines(outcome.folder)[-1]["step"] == LOGGED
        return outcome.reason
    assert outcome.status == "DONE"
    notes = [line for line in said.splitlines() if line.startswith("note: training")]
    return next(note for note in notes if policy in note)


@pytest.mark.parametrize("value", [math.nan, pytest.param(math.inf, marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("policy", ["stop", "skip", "continue"])
@pytest.mark.parametrize("what", WORDS)
def test_a_fault_is_found_and_named_by_every_policy(tmp_path, monkeypatch, what, policy, value):
    put(monkeypatch, what, value)
    own = (*OWN, "component.range=learned_clip") if what == "scale" else OWN
    outcome = train(tmp_path, *own, f"on_nonfinite={policy}")
    words = found(outcome, policy)
    assert f"training diverged by step {LOGGED};" in words
    assert WORDS[what][policy == "skip"] in words
    if what in ("data", "loss", "gradient") and policy == "skip":
        assert outcome.result["skipped_steps"] == 1
        assert math.isfinite(outcome.result["metrics"]["loss/val"])  # the weights are sound


@pytest.mark.parametrize("policy", ["stop", "skip", "continue"])
@pytest.mark.parametrize("what", [what for what in WORDS if what != "scale"])
@pytest.mark.slow
def test_a_fault_between_logged_steps_is_found_at_the_next(tmp_path, monkeypatch, what, policy):
    """By then it has spread; a step that is left out is looked at there and then."""
    put(monkeypatch, what, math.nan, at=LOGGED - 2)
    words = found(train(tmp_path, *OWN, f"on_nonfinite={policy}"), policy)
    first = LOGGED - 1 if what in ("gradient", "parameter") else LOGGED - 2
    if policy == "skip":
        assert f"training diverged by step {first if what == 'parameter' else LOGGED - 2};" in words
        assert WORDS[what][1] in words
    else:
        assert f"training diverged by step {LOGGED}; the loss is nan from step {first} on" in words
        assert " more; " in words


def test_the_look_for_a_fault_changes_no_number(tmp_path, monkeypatch):
    """Under a policy that goes on: its forward pass is no part of the training."""
    put(monkeypatch, "gradient", math.nan)
    own = (*OWN, "model.batch_norm=true", "on_nonfinite=skip")
    looked = train(tmp_path / "looked", *own)
    monkeypatch.setattr("experiments.training.trainer.describe_fault", lambda *_: "something")
    blind = train(tmp_path / "blind", *own)
    for name in ("metrics.jsonl", "result.json"):
        assert (looked.folder / name).read_bytes() == (blind.folder / name).read_bytes()


@pytest.mark.parametrize("policy", ["stop", "continue"])
def test_a_replica_of_a_stack_with_a_bad_temperature_is_named(tmp_path, monkeypatch, policy):
    anneal = stacked.anneal

    def spoiled(model, *shares):
        anneal(model, *shares)
        layer = model.get_submodule("blocks.1.component.quantize")
        if layer.temperature.dim():  # the stack's, not the template's
            layer.temperature[1] = math.nan

    monkeypatch.setattr(stacked, "anneal", spoiled)
    requests = [Request(compose(*OWN, f"seed={i}", f"on_nonfinite={policy}"), tmp_path / str(i)) for i in range(2)]
    sound, bad = run_group(requests)
    assert sound.status == "DONE"
    assert "diverged" not in (sound.folder / "train.log").read_text()
    if policy == "stop":
        assert f"training diverged by step 1; {TEMPERATURE}" in bad.reason
    else:
        assert f"training diverged by step 1; {TEMPERATURE}" in unfolded_log(bad.folder)
