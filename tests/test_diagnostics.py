"""Diagnostics during training: they find what is known, and leave the run as it is."""

import copy
import json
import math
import os
import signal

import pytest
import torch
from test_tensorboard import Board
from torch import nn

from experiments.config.choices import ConfigError, choose
from experiments.config.keys import options
from experiments.data import load
from experiments.diagnostics import finite_differences
from experiments.diagnostics import point as point_module
from experiments.diagnostics.agreement import agreement
from experiments.diagnostics.descent import descent_tags
from experiments.diagnostics.finite_differences import difference_tags
from experiments.diagnostics.per_sample import per_sample_tags
from experiments.diagnostics.point import Point
from experiments.diagnostics.rivals import rival_tags, rivals, with_strategy
from experiments.stacked.run import run_group
from experiments.tracking.run_errors import LogChanged
from experiments.training import session
from experiments.training.build import build_model
from experiments.training.interruption import Interrupted
from experiments.training.run import Request
from experiments.training.trainer import Trainer
from runs import CONF, compose, train
from surrogates import calibrate, hard_layers, key_noise
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

TINY = ("model.width=8", "model.depth=1", "batch_size=16", "max_steps=6")
TRUTH = ("diagnostics=truth", "diagnostics_every=4")
BOTH = ("diagnostics=[truth,rivals]", "diagnostics_every=4")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(finite_differences, "DIRECTIONS", 6)
    monkeypatch.setattr(point_module, "DRAWS", 2)


def point_of(*overrides, steps=2):
    choices = choose(compose(*TINY, *overrides))
    trainer = Trainer(build_model(choices), choices.optimizer, choices.settings, load(choices.data))
    calibrate(trainer.model, trainer.batch(0, 1)[0])
    for _ in range(steps):
        trainer.advance()
    return Point(trainer.model, *trainer.batch(0, steps + 1), 0, steps)


def findings(folder):
    return [json.loads(line, parse_constant=pytest.fail) for line in (folder / "diagnostics.jsonl").open()]


def test_without_a_hard_op_the_differences_are_the_gradient():
    point = point_of("component=relu")
    gradient = point.gradient()
    values = difference_tags(point, gradient)
    for kind in ("random", "coordinate"):
        prefix = f"{kind}/0_flips/"
        found = {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
        assert found["directions"] == 6
        assert found["spearman"] == pytest.approx(1.0)
        assert found["cosine"] == pytest.approx(1.0, abs=1e-3)
        assert found["scale"] == pytest.approx(1.0, rel=1e-2)
        assert found["cosine_low"] <= found["cosine"] + 1e-9 <= found["cosine_high"] + 1e-6


def test_a_wrong_gradient_is_caught():
    point = point_of("component=relu")
    values = difference_tags(point, -3 * point.gradient())
    assert values["random/0_flips/cosine"] == pytest.approx(-1.0, abs=1e-3)
    assert values["random/0_flips/scale"] == pytest.approx(-1 / 3, rel=1e-2)
    shuffled = point.gradient()[torch.randperm(len(point.theta), generator=torch.Generator().manual_seed(0))]
    assert abs(difference_tags(point, shuffled)["random/0_flips/cosine"]) < 0.95


def test_windows_flip_enough_and_the_difference_is_of_the_hard_loss():
    """Checked with a copy of the model in which the weights are replaced, and evaluation's own hard ops."""
    point = point_of("component=binary")
    direction = next(finite_differences._gaussian(point))
    (found,) = finite_differences._differences(point, point.gradient(), iter([direction]), 30)
    assert found.flips >= 30
    losses, outputs = [], []
    for sign in (1, -1):
        model = copy.deepcopy(point.model).eval()
        size = float(point.theta.norm())
        nn.utils.vector_to_parameters(point.theta + sign * found.window * size * direction, model.parameters())
        hook = model.blocks[0].component.sign.register_forward_hook(lambda m, i, output: outputs.append(output))
        losses.append(nn.functional.cross_entropy(model(point.x), point.y).item())
        hook.remove()
    assert found.measured == pytest.approx((losses[0] - losses[1]) / (2 * found.window * size), rel=1e-9)
    assert found.flips == int((outputs[0] != outputs[1]).sum())


def test_a_short_step_descends_as_the_gradient_says():
    point = point_of("component=relu")
    gradient = point.gradient()
    values = descent_tags(point, gradient)
    step = 1e-4 * float(point.theta.norm())
    assert values["descent/0.0001"] == pytest.approx(-step * float(gradient.norm()), rel=0.02)
    assert values["hard_loss"] == pytest.approx(float(nn.functional.cross_entropy(point.model(point.x), point.y)))
    assert list(descent_tags(point, torch.zeros_like(gradient))) == ["hard_loss"]


@pytest.mark.parametrize("component", ["quantized_activation", "quantized_weight"])
def test_the_spread_of_gradients_is_that_of_single_backward_passes(component):
    point = point_of(f"component={component}")
    values = per_sample_tags(point)
    rows = []
    for x, y in zip(point.x, point.y, strict=True):
        loss = nn.functional.cross_entropy(point.model(x.unsqueeze(0)), y.unsqueeze(0))
        rows.append(torch.autograd.grad(loss, list(point.parameters.values())))
    for name, gradients in zip(point.parameters, zip(*rows, strict=True), strict=True):
        sample = torch.stack(gradients).flatten(1)
        variance = float(sample.var(0).sum())
        assert values[f"sample_variance/{name}"] == pytest.approx(variance, rel=1e-6)
        assert values[f"snr/{name}"] == pytest.approx(float(sample.mean(0).norm()) / (variance / 16) ** 0.5, rel=1e-6)


def test_samples_draw_noise_of_their_own():
    point = point_of("strategy=rewrite")
    point.x, point.y = point.x[:1].expand(4, *point.x.shape[1:]), point.y[:1].expand(4)
    assert all(value > 0 for name, value in per_sample_tags(point).items() if name.startswith("sample_variance/b"))


def test_a_rival_is_compared_on_the_same_weights_and_batch():
    point = point_of("strategy=ste")
    gradient = point.gradient()
    by_hand = copy.deepcopy(point)
    values = rival_tags(point, gradient)
    with_strategy(by_hand, StraightThrough(carrier="identity"))
    loss = nn.functional.cross_entropy(by_hand.model(by_hand.x), by_hand.y)
    rows = torch.autograd.grad(loss, list(by_hand.parameters.values()))
    rival = torch.cat([row.flatten() for row in rows])
    assert values["ste-identity/cosine"] == pytest.approx(float(torch.cosine_similarity(rival, gradient, dim=0)))
    assert values["ste-identity/scale"] == pytest.approx(float(rival @ gradient / (rival @ rival)))


def test_all_other_strategies_are_rivals_and_the_running_one_is_not():
    point = point_of("component=binary", "strategy=smooth", "strategy.kernel=normal", "strategy.temperature=0.5")
    found = dict(rivals(point))
    assert {"subgradient", "ste-own", "smooth-logistic", "gumbel-hard"} <= set(found)
    assert "smooth-normal" not in found
    assert "rewrite" not in found  # an empty cell of sign
    T = float(hard_layers(point.model)["blocks.0.component.sign"].temperature)
    width = found["smooth-logistic"].temperature / T
    assert width == pytest.approx(1.3489795 / 2.1972246, rel=1e-6)  # the laws' interquartile ranges
    subgradient = point_of("component=binary", "strategy=subgradient")
    assert not any(type(strategy) is Subgradient for strategy in dict(rivals(subgradient)).values())


def test_a_noisy_gradient_is_a_mean_over_keyed_draws():
    point = point_of("strategy=rewrite")
    first = point.gradient()
    assert torch.equal(first, point.gradient())
    key_noise(point.model, 0, point.step + 1)
    draws = []
    for _ in range(2):
        loss = nn.functional.cross_entropy(point.model(point.x), point.y)
        rows = torch.autograd.grad(loss, list(point.parameters.values()))
        draws.append(torch.cat([row.flatten() for row in rows]))
    assert torch.allclose(first, torch.stack(draws).mean(0), rtol=1e-12)


def test_agreement_of_known_numbers():
    a, f = torch.tensor([1.0, 2.0, 2.0, 4.0]).double(), torch.tensor([2.0, 3.0, 5.0, 9.0]).double()
    found = agreement(a, f, 0)
    assert found.cosine == pytest.approx(54 / (25 * 119) ** 0.5)
    assert found.scale == pytest.approx(54 / 25)
    assert found.spearman == pytest.approx(4.5 / (4.5 * 5) ** 0.5)  # ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4
    assert agreement(a[:2], f[:2], 0) is None
    assert agreement(torch.zeros(4), f, 0) is None


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["rewrite", "smooth"])
def test_a_run_is_the_same_with_and_without(tmp_path, strategy):
    own = (*TINY, f"strategy={strategy}", "model.batch_norm=true", "eval_every=3", "log_every=1")
    before = torch.get_rng_state()
    plain, watched = train(tmp_path / "plain", *own).folder, train(tmp_path / "watched", *own, *BOTH).folder
    assert torch.equal(before, torch.get_rng_state())
    for name in ("metrics.jsonl", "result.json"):
        assert (plain / name).read_bytes() == (watched / name).read_bytes()
    assert not (plain / "diagnostics.jsonl").exists()
    found = findings(watched)
    assert [record["step"] for record in found] == [1, 4, 6]
    tags = {"truth/hard_loss", "truth/descent/0.01", "truth/random/30_flips/window", "rivals/ste-identity/scale"}
    assert all(tags <= set(record) for record in found)
    assert "times" in (watched / "train.log").read_text()
    shown = Board(tmp_path).curve("watched", "truth/hard_loss")
    assert shown == pytest.approx({record["step"]: record["truth/hard_loss"] for record in found}, rel=1e-6)


def test_a_run_that_was_cut_off_finds_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(session, "SHARE", math.inf)
    own = (*TINY, *TRUTH, "strategy=rewrite", "eval_every=3", "log_every=1")
    whole = train(tmp_path / "whole", *own).folder

    def stop(step, values):
        if step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        train(tmp_path / "cut", *own, watch=stop)
    path = tmp_path / "cut" / "diagnostics.jsonl"
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], content.replace(b"0.1", b"0.2", 1), None):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        with pytest.raises(LogChanged, match=r"diagnostics\.jsonl .* diagnostics=null resumes the run without it"):
            train(tmp_path / "cut", *own)
    path.write_bytes(content + b'{"step": 6, "truth/ha')  # half of a line
    cut = train(tmp_path / "cut", *own).folder
    for name in ("metrics.jsonl", "result.json", "diagnostics.jsonl"):
        assert (whole / name).read_bytes() == (cut / name).read_bytes()


def test_a_run_that_was_cut_off_without_diagnostics_goes_on_with_them(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(session, "SHARE", math.inf)
    own = (*TINY, "strategy=rewrite", "eval_every=3", "log_every=1")

    def stop(step, values):
        if step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        train(tmp_path / "cut", *own, watch=stop)
    assert [record["step"] for record in findings(train(tmp_path / "cut", *own, *TRUTH).folder)] == [6]


@pytest.mark.slow
def test_runs_of_a_stack_find_what_they_would_alone(tmp_path):
    own = (*TINY, "strategy=smooth", "precision=float64", "eval_every=6", "log_every=2")
    members = [(*own, f"seed={seed}") for seed in (0, 1)]

    def stacked(name, *more):
        requests = [Request(compose(*each, *more), tmp_path / f"{name}{i}") for i, each in enumerate(members)]
        return [ending.folder for ending in run_group(requests)]

    for plain, watched, alone in zip(stacked("plain"), stacked("watched", *TRUTH), members, strict=True):
        for name in ("metrics.jsonl", "result.json"):
            assert (plain / name).read_bytes() == (watched / name).read_bytes()
        single = train(tmp_path / f"alone-{alone[-1]}", *alone, *TRUTH).folder
        for ours, theirs in zip(findings(watched), findings(single), strict=True):
            assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("value", ["diagnosis", "[truth,rival]", "[]", "3"])
def test_what_is_no_diagnostics_is_refused(value):
    if value == "[]":
        assert choose(compose("diagnostics=[]")).settings.diagnostic_kinds == []
        return
    with pytest.raises(ConfigError, match="diagnostics must be"):
        choose(compose(f"diagnostics={value}"))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ste", "smooth", "rewrite", "gumbel", "subgradient"])
@pytest.mark.parametrize("component", options(CONF, "component"))
def test_every_component_can_be_diagnosed(component, strategy):
    if component == "hard_max_pool":
        overrides = (f"component={component}", f"strategy={strategy}", "model=cnn")
    else:
        overrides = (f"component={component}", f"strategy={strategy}")
    try:
        point = point_of(*overrides)
    except ValueError:  # an empty cell
        return
    gradient = point.gradient()
    found = {**descent_tags(point, gradient), **difference_tags(point, gradient), **per_sample_tags(point)}
    found |= rival_tags(point, gradient)
    assert all(value == value for value in found.values())
