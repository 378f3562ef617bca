"""Runs trained as one stack are the runs that each would have been alone."""

import itertools
import math
import os
import signal

import pytest
import torch
from test_tensorboard import Board

import experiments
from experiments.config.choices import choose
from experiments.evaluate import main as evaluate
from experiments.stacked import optimizers
from experiments.stacked.obstacles import obstacle
from experiments.stacked.run import run_group
from experiments.stacked.trainer import StackedTrainer
from experiments.training import session
from experiments.training.build import build_model
from experiments.training.interruption import Interrupted
from experiments.training.run import Request
from run_contents import assert_same_run, last
from runs import CONF, compose, lines, read, representative, train, tree
from surrogates import EmptyCell

SMALL = ("precision=float64", "model.width=8", "max_steps=50", "eval_every=20", "log_every=5")
# Members of a group: what each overrides. Two of them share a seed.
MEMBERS = (("seed=0",), ("seed=3", "optimizer.lr=0.03"), ("seed=0", "optimizer.weight_decay=0.01"))
# T's end point is held away from 0, where a run doubles an error of one rounding in every step.
GENTLE = ("strategy.final_temperature=0.6",)


def group(folder, members, *common):
    """Trains the members as one stack; their outcomes."""
    own = [(*common, *member) for member in members]
    requests = [
        Request(compose(*overrides), folder / f"stacked{i}", overrides=overrides) for i, overrides in enumerate(own)
    ]
    return run_group(requests)


def notes(folder):
    """What a run's log says while the run trains."""
    return [line for line in (folder / "train.log").read_text().splitlines() if line.startswith("note: ")]


def assert_parity(folder, members, *common, within=1e-9):
    """Every number that is logged, and every weight, against runs that were alone."""
    for i, ending in enumerate(group(folder, members, *common)):
        if isinstance(ending, Exception):
            raise ending
        alone = train(folder / f"alone{i}", *common, *members[i])
        assert ending.status == alone.status == "DONE"
        ours, theirs = lines(ending.folder), lines(alone.folder)
        assert [list(record) for record in ours] == [list(record) for record in theirs]
        for own, other in zip(ours, theirs, strict=True):
            assert own == pytest.approx(other, rel=within, abs=within, nan_ok=True)
        own, other = read(ending.folder / "result.json"), read(alone.folder / "result.json")
        assert (own.pop("engine"), other.pop("engine")) == ("stacked", "single")
        assert {key: own[key] for key in own if key not in ("metrics", "best")} == {
            key: other[key] for key in other if key not in ("metrics", "best")
        }
        assert own["best"] == pytest.approx(other["best"], rel=within, abs=within, nan_ok=True)
        assert notes(ending.folder) == notes(alone.folder)
        weights = [last(run.folder)["model"] for run in (ending, alone)]
        assert list(weights[0]) == list(weights[1])
        for name, tensor in weights[0].items():
            torch.testing.assert_close(tensor, weights[1][name], rtol=within, atol=within, equal_nan=True)


# k_winners: of SMALL's 6; lookup: cells so wide that a rounding is not amplified at their bounds
FITTING = {"k_winners": ["component.k=2"], "lookup": ["component.low=-8.0", "component.high=8.0"]}


def cells():
    """Every component under every strategy, those that exist; components over space in a convolutional net."""
    for component, strategy in itertools.product(
        *(sorted((CONF / g).glob("*.yaml")) for g in ("component", "strategy"))
    ):
        overrides = [f"component={component.stem}", f"strategy={strategy.stem}"]
        overrides += FITTING.get(component.stem, [])
        if "final_temperature" in strategy.read_text() and "schedule: constant" not in strategy.read_text():
            overrides += GENTLE
        marks = pytest.mark.slow if representative(component.stem, strategy.stem) else pytest.mark.nightly
        yield pytest.param(tuple(overrides), id=f"{component.stem}-{strategy.stem}", marks=marks)


@pytest.mark.parametrize("cell", list(cells()))
def test_parity(tmp_path, cell):
    for model in ("mlp", "cnn"):
        try:
            choices = choose(compose(*SMALL, *cell, f"model={model}"))
            build_model(choices)
        except EmptyCell as missing:
            reason = missing
            continue
        stopped = obstacle(choices)
        if stopped:
            pytest.skip(stopped)
        # At the default rate of 0.1 some cells double an error of one rounding in every step, alone as in a stack.
        return assert_parity(tmp_path, MEMBERS, *SMALL, *cell, f"model={model}", "optimizer.lr=0.02")
    pytest.skip(str(reason))


TEMPERATURES = tuple((f"seed={i % 2}", f"strategy.temperature={T}") for i, T in enumerate((1.0, 0.7, 0.5)))
MECHANISMS = {
    "noise": (("strategy=rewrite", "optimizer.clip_norm=0.3", "model.batch_norm=true"), MEMBERS),
    "parameters": (("component.range=learned_step", "strategy=smooth", *GENTLE), TEMPERATURES),
}
FURTHER = {
    "batch_norm": (("model.batch_norm=true",), MEMBERS),
    "own_temperatures": (("strategy=smooth", *GENTLE), TEMPERATURES),
    "clipped_noise": (("strategy=rewrite", "optimizer.clip_norm=0.3"), MEMBERS),
    "adam": (("optimizer=adam",), MEMBERS),
    "adamw": (("optimizer=adamw", "optimizer.clip_norm=0.2", "optimizer.schedule=cosine"), MEMBERS),
    "nesterov": (("optimizer.nesterov=true", "optimizer.warmup_steps=7", "optimizer.clip_norm=0.2"), MEMBERS),
    "momentum": ((), tuple((f"seed={i}", f"optimizer.momentum={m}") for i, m in enumerate((0.5, 0.0, 0.9)))),
    "learned_clip": (("component.range=learned_clip",), MEMBERS),
    "no_gradient": (("component=learned_threshold", "strategy=subgradient", "max_steps=20"), MEMBERS),
    "learned_scales": (("component=quantized_weight", "component.scale=learned", "component.grid=affine"), MEMBERS),
    "own_temperatures_over_a_dim": (("component=hard_gate", "strategy=ste"), TEMPERATURES),
    "soft_batch_norm": (("strategy=smooth", "model.batch_norm=true", *GENTLE), MEMBERS),
    "dither": (("component=floor", "strategy=rewrite", "strategy.form=dither"), MEMBERS),
    "convolution": (("model=cnn", "component=hard_max", "model.batch_norm=true"), MEMBERS),
    "few_batches": (("overfit_batches=2",), MEMBERS),
}


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *(pytest.param(name, marks=pytest.mark.slow) for name in FURTHER)])
def test_parity_of_what_has_a_state(tmp_path, mechanism):
    common, members = {**MECHANISMS, **FURTHER}[mechanism]
    steps = ("max_steps=20", "eval_every=10") if mechanism in MECHANISMS else ()
    assert_parity(tmp_path, members, *SMALL, *steps, *common)


@pytest.mark.slow
def test_a_member_has_all_that_a_run_has(tmp_path, capsys):
    common = ("max_steps=12", "eval_every=6", "log_every=2", "model.width=8")
    endings = group(tmp_path, MEMBERS, *common)
    alone = train(tmp_path / "alone", *common, *MEMBERS[1])
    folder = endings[1].folder

    def names(root):
        return {name.split(".tfevents")[0] for name in tree(root)}

    assert names(folder) == names(alone.folder)
    assert read(folder / "status.json")["status"] == "DONE"
    state, other = last(folder), last(alone.folder)
    assert state["optimizer"]["param_groups"] == other["optimizer"]["param_groups"]
    assert state.keys() == other.keys()
    assert experiments.load(folder)(torch.zeros(1, 64)).shape == (1, 10)
    assert evaluate([str(folder)]) == 0
    assert f"{read(folder / 'result.json')['best']['accuracy/test']:.4f}" in capsys.readouterr().out
    board = Board(tmp_path)
    points = board.points("stacked1", "loss/train")
    assert [step for _, step, _ in points] == [1, 2, 4, 6, 8, 10, 12]


def test_a_replica_that_diverges_touches_no_other(tmp_path):
    common = ("max_steps=20", "eval_every=10", "log_every=2", "model.width=8", "component=relu")
    members = [("seed=0",), ("seed=1", "optimizer.lr=1e30"), ("seed=2",)]
    first, bad, third = group(tmp_path / "a", members, *common)
    assert (first.status, bad.status, third.status) == ("DONE", "FAILED", "DONE")
    alone = train(tmp_path / "alone", *common, *members[1])
    assert bad.reason == alone.reason
    assert read(bad.folder / "status.json")["error"] == bad.reason
    healthy = group(tmp_path / "b", [members[0], ("seed=1",), members[2]], *common)
    for own, other in ((first, healthy[0]), (third, healthy[2])):
        assert_same_run(own.folder, other.folder)


def test_nobody_left_ends_the_group(tmp_path):
    members = [(f"seed={i}", "optimizer.lr=1e30") for i in range(2)]
    endings = group(tmp_path, members, "max_steps=1000", "log_every=1", "model.width=8", "component=relu")
    assert [ending.status for ending in endings] == ["FAILED"] * 2
    assert len(lines(endings[0].folder)) < 50


STATEFUL = {
    "noise": ("strategy=rewrite", "optimizer.clip_norm=0.5", "optimizer=adam"),
    "annealing": ("strategy=smooth", "model.batch_norm=true", "optimizer.schedule=cosine"),
    "fresh": ("data=mnist1d", "data.fresh=true", "batch_size=700", "component=floor"),
}
LONG = ("max_steps=16", "log_every=2", "eval_every=4", "model.width=8")


def stop_at(monkeypatch, step):
    advance = StackedTrainer.advance

    def stopped(self):
        if self.step + 1 == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return advance(self)

    monkeypatch.setattr(StackedTrainer, "advance", stopped)


def assert_equal_runs(endings, others):
    for own, other in zip(endings, others, strict=True):
        assert_same_run(own.folder, other.folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", STATEFUL)
def test_stopped_and_resumed_a_group_is_the_uninterrupted_one(tmp_path, monkeypatch, kind):
    own = (*LONG, *STATEFUL[kind])
    whole = group(tmp_path / "whole", MEMBERS, *own)
    with monkeypatch.context() as patch:
        stop_at(patch, 7)
        with pytest.raises(Interrupted):
            group(tmp_path / "cut", MEMBERS, *own)
    folders = [tmp_path / "cut" / f"stacked{i}" for i in range(3)]
    assert [read(folder / "status.json")["status"] for folder in folders] == ["INTERRUPTED"] * 3
    assert_equal_runs(group(tmp_path / "cut", MEMBERS, *own), whole)


@pytest.mark.slow
def test_killed_between_two_members_checkpoints_all_go_back_to_the_one_before(tmp_path, monkeypatch):
    own = (*LONG, *STATEFUL["noise"])
    whole = group(tmp_path / "whole", MEMBERS, *own)
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(session, "SHARE", math.inf)
    written = itertools.count()

    class Killed(BaseException):
        pass

    with monkeypatch.context() as patch:
        save = session.Record.save

        def killed(self, state):
            if next(written) >= 4:  # the second checkpoints of all but one member
                raise Killed
            save(self, state)

        patch.setattr(session.Record, "save", killed)
        patch.setattr(
            "experiments.stacked.run._end_early", lambda member, error: error
        )  # a dead process writes no status
        with pytest.raises(Killed):
            group(tmp_path / "cut", MEMBERS, *own)
    steps = [last(tmp_path / "cut" / f"stacked{i}")["step"] for i in range(3)]
    assert sorted(steps) == [4, 4, 8]
    assert_equal_runs(group(tmp_path / "cut", MEMBERS, *own), whole)


def test_a_run_that_was_cut_off_alone_goes_on_in_a_stack_and_the_other_way_round(tmp_path, monkeypatch):
    common = ("precision=float64", *LONG)
    with monkeypatch.context() as patch:
        stop_at(patch, 7)
        with pytest.raises(Interrupted):
            group(tmp_path, MEMBERS, *common)
    alone = train(tmp_path / "stacked1", *common, *MEMBERS[1])
    whole = train(tmp_path / "whole", *common, *MEMBERS[1])
    for own, other in zip(lines(alone.folder), lines(whole.folder), strict=True):
        assert own == pytest.approx(other, rel=1e-9, abs=1e-9)
    endings = group(tmp_path, MEMBERS, *common)
    assert "is over (DONE)" in str(endings[1])
    assert [ending.status for ending in (endings[0], endings[2])] == ["DONE"] * 2


def test_what_stands_against_stacking():
    def said(*overrides):
        return obstacle(choose(compose(*SMALL[1:], *overrides)))

    assert said() is None
    assert "precision=float16" in said("precision=float16")
    assert "skip" in said("on_nonfinite=skip")
    assert "detect_anomaly" in said("debug=anomaly")


def test_an_operation_without_a_batching_rule_is_an_obstacle(monkeypatch):
    from surrogates.layers.quantized_activation import QuantizedActivation

    def branching(self, x):
        return x if self.step > 0 else -x

    monkeypatch.setattr(QuantizedActivation, "_with_step", branching)
    assert "data-dependent control flow" in obstacle(choose(compose(*SMALL, "component.range=learned_step")))


def test_a_module_that_mixes_the_samples_of_a_batch_is_an_obstacle(monkeypatch):
    class Centred(torch.nn.Module):
        def forward(self, x):
            return x - x.mean(0)

    def mixing(choices):
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10), Centred())

    monkeypatch.setattr("experiments.stacked.obstacles.trial_model", mixing)
    assert "mix samples" in obstacle(choose(compose(*SMALL)))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_an_optimizer_step_is_torchs(name):
    """Shared hyperparameters and one's own, against torch.optim, a parameter at a time."""
    kind = next(kind for kind in optimizers.KINDS if kind.__name__ == name)
    policies = [kind(lr=lr, weight_decay=decay) for lr, decay in ((0.1, 0.0), (0.03, 0.1), (0.1, 0.2))]
    start, generator = torch.randn(3, 4, 5, dtype=torch.float64), torch.Generator().manual_seed(0)
    stacked = torch.nn.Parameter(start.clone())
    ours = optimizers.KINDS[kind](policies, {"w": stacked})
    alone = [torch.nn.Parameter(row.clone()) for row in start]
    theirs = [policy.build([row]) for policy, row in zip(policies, alone, strict=True)]
    for _ in range(20):
        stacked.grad = torch.randn(3, 4, 5, dtype=torch.float64, generator=generator)
        ours.advance([policy.lr for policy in policies])
        for row, gradient, optimizer in zip(alone, stacked.grad, theirs, strict=True):
            row.grad = gradient.clone()
            optimizer.step()
    torch.testing.assert_close(stacked.data, torch.stack([row.data for row in alone]), rtol=1e-12, atol=1e-12)
    for r, optimizer in enumerate(theirs):
        kept = ours.replica_state(r)
        assert kept["param_groups"] == optimizer.state_dict()["param_groups"]
        for key, value in optimizer.state_dict()["state"][0].items():
            torch.testing.assert_close(kept["state"][0][key], value)
