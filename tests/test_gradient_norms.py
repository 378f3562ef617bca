"""Gradient norms: of each parameter and in all, before clipping, after unscaling, whatever the gradient is."""

import math
import re

import pytest
import torch
from torch import nn

from experiments.config.choices import choose
from experiments.config.settings import Settings
from experiments.data import load
from experiments.measuring.gradients import GradientRecord, norms, present_gradients, total
from experiments.optimizers.sgd import SGD
from experiments.stacked.run import run_group
from experiments.training.build import build_model
from experiments.training.run import Request, run
from experiments.training.trainer import Trainer
from runs import compose, lines, train


class Slope(nn.Module):
    """A model whose loss is a linear function of its parameters, so that their gradients are known numbers."""

    def __init__(self, **gradients):
        super().__init__()
        self.wanted = {name: torch.tensor(value) for name, value in gradients.items()}
        for name, value in self.wanted.items():
            self.register_parameter(name, nn.Parameter(torch.zeros_like(value)))

    def forward(self, x):
        return x

    def loss(self):
        return sum((value * getattr(self, name)).sum() for name, value in self.wanted.items())


def trainer_of(model, clip_norm=None, **settings):
    """A trainer over such a model, one step of which has the gradients that the model states."""
    option = choose(compose()).data
    settings = Settings(**{"max_steps": 10, "log_every": 1, **settings})
    trainer = Trainer(model, SGD(lr=0.5, momentum=0.0, clip_norm=clip_norm), settings, load(option))
    trainer._loss = lambda x, y: model.loss()
    return trainer


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("policy", ["stop", "skip", "continue"])
def test_a_gradient_that_is_not_finite_is_named_and_touches_no_other_parameter(bad, policy):
    """F01. One bad gradient under clipping: visible by step and name, and no other parameter is altered by it."""
    model = Slope(first=[1.0, 2.0], second=[bad, 1.0], third=[3.0])
    trainer = trainer_of(model, clip_norm=1.0, on_nonfinite=policy)
    (values,) = trainer.advance()
    assert trainer.diverged == ({0} if policy == "stop" else set())
    if policy == "stop":
        words = r"by step 1; .*parameter second is not finite .*gradient of second"
        assert re.search(words, trainer.faults[0])
    assert not math.isfinite(values["grad_norm/second"])
    assert not math.isfinite(values["grad_norm/total"])
    assert (values["grad_norm/first"], values["grad_norm/third"]) == (pytest.approx(math.sqrt(5)), 3.0)
    assert trainer.skipped == int(policy == "skip")
    if policy == "skip":
        assert all(torch.equal(parameter, torch.zeros_like(parameter)) for parameter in model.parameters())
    else:
        assert model.first.tolist() == [-0.5, -1.0]
        assert model.third.tolist() == [-1.5]
        assert model.second[1] == -0.5


def test_a_bad_step_between_logged_ones_is_found_at_the_next(tmp_path):
    """F01, the part of the run: steps that are not logged are not looked at, but their loss is kept."""
    model = Slope(first=[1.0], second=[1.0])
    trainer = trainer_of(model, log_every=4)
    for step in (1, 2, 3):
        model.wanted["second"] = torch.tensor([math.nan if step == 3 else 1.0])
        trainer.advance()
    assert trainer.faults == {}
    trainer.advance()
    assert "by step 4; the loss is nan from step 3 on" in trainer.faults[0]


def test_parameters_without_a_gradient_are_named_and_no_gradient_at_all_is_nan():
    """F02. Parameters without a gradient are named, and no gradient at all is NaN, which 0 must not hide."""
    model = Slope(used=[3.0, 4.0], zero=[0.0])
    model.idle = nn.Parameter(torch.ones(2))
    trainer = trainer_of(model)
    (values,) = trainer.advance()
    assert "grad_norm/idle" not in values
    assert (values["grad_norm/total"], values["grad_norm/zero"]) == (5.0, 0.0)
    assert trainer.records[0].never_trained == ["idle"]
    assert trainer.records[0].only_zero == ["zero"]
    assert math.isnan(total({}))
    assert norms([]).tolist() == [[]]
    assert present_gradients({"idle": model.idle}) == {}


def test_a_gradient_that_comes_late_takes_the_name_off_the_list():
    """F02, the part of the record: ever, not at the last step."""
    record = GradientRecord({"a", "b", "c"}, {"a", "b", "c"})
    record.update({"a": 0.0})
    record.update({"a": 0.0, "b": 1e-300})
    assert (record.never_trained, record.only_zero) == (["c"], ["a"])
    record.update({"a": math.nan, "c": 0.0})
    assert (record.never_trained, record.only_zero) == ([], ["c"])


def test_repeated_indices_of_a_sparse_gradient_are_merged_before_the_norm():
    """F03. Repeated indices of a sparse gradient are merged first: sqrt(10), not sqrt(6)."""
    embedding = nn.Embedding(5, 2, sparse=True)
    embedding(torch.tensor([1, 1, 3])).sum().backward()
    assert embedding.weight.grad.is_sparse
    assert norms([embedding.weight.grad]).tolist() == [[math.sqrt(10)]]
    place = torch.zeros(1, 0, dtype=torch.long)
    nothing = torch.sparse_coo_tensor(place, torch.zeros(0, 2), (5, 2), check_invariants=True)
    assert norms([nothing, torch.ones(4)]).tolist() == [[0.0, 2.0]]


def test_norms_of_mixed_dtypes_are_finite_float64_numbers():
    """F04. Mixed dtypes: one finite number each, in float64, also where half precision could not hold the square."""
    mixed = [
        torch.full((10_000,), 60_000.0, dtype=torch.float16),
        torch.full((4,), 1.5, dtype=torch.bfloat16),
        torch.tensor([3.0, 4.0]),
        torch.tensor(2.0, dtype=torch.float64),
        torch.zeros(0),
    ]
    (found,) = norms(mixed)
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx([60_000.0 * 100, 3.0, 5.0, 2.0, 0.0], rel=1e-3)


@pytest.mark.parametrize("size", [1e-30, 1e-40, 1e25, 3e38])
def test_a_norm_neither_vanishes_nor_overflows(size):
    """Squares of such numbers are 0 or infinite in float32: a tiny gradient would pass for exactly 0."""
    assert norms([torch.full((4,), size)]).item() == pytest.approx(2 * size, rel=1e-4)
    model = Slope(only=[size])
    (values,) = trainer_of(model, on_nonfinite="continue").advance()
    assert values["grad_norm/total"] == pytest.approx(size, rel=1e-4)


def test_parameters_from_a_generator_are_logged_clipped_and_stepped():
    """F05. Parameters that come from a generator are listed once, and logged, clipped and stepped from the list."""
    model = nn.Linear(2, 1)
    optimizer = SGD(lr=0.1).build(parameter for parameter in model.parameters())
    assert sum(len(group["params"]) for group in optimizer.param_groups) == 2
    slope = Slope(p=[3.0, 4.0])
    trainer = trainer_of(slope, clip_norm=1.0)
    for _ in range(3):  # nothing is used up by the first step
        (values,) = trainer.advance()
        assert (values["grad_norm/total"], values["clip_fraction"]) == (5.0, 1.0)
    assert slope.p.tolist() == pytest.approx([-0.9, -1.2], rel=1e-5)


def test_norms_are_unscaled_and_the_loss_scale_is_logged():
    """F07. Norms are unscaled: 3, not 3 times the loss scale, which has a curve of its own."""
    trainer = trainer_of(Slope(p=[3.0]), precision="float16")
    (values,) = trainer.advance()
    assert (values["grad_norm/p"], values["grad_norm/total"]) == (3.0, 3.0)
    assert values["loss_scale"] == 65536.0
    assert values["loss/train"] == 0.0


def test_steps_that_the_float16_scaler_leaves_out_are_counted():
    own = trainer_of(Slope(p=[math.inf]), precision="float16", on_nonfinite="continue")
    own.advance()
    own.advance()
    assert own.skipped == 2
    fine = trainer_of(Slope(p=[3.0]), precision="float16")
    fine.advance()
    assert fine.skipped == 0


def test_a_step_at_which_the_float16_scaler_raises_its_scale_is_not_skipped():
    own = trainer_of(Slope(p=[3.0]), precision="float16")
    own.scaler.set_growth_interval(1)
    scales = [own.advance()[0]["loss_scale"] for _ in range(2)]
    assert scales == [2.0 * 65536, 4.0 * 65536]
    assert own.skipped == 0


def test_a_run_in_float16_has_the_curves_of_one_in_float32(shared):
    """F07, the part of the run: gradients at the layers too; only half precision's rounding differs."""
    own = ("component=hard_gate", "max_steps=4", "log_every=1", "model.width=16", "optimizer.lr=1e-6")
    half, full = (lines(shared(*own, f"precision={precision}")) for precision in ("float16", "float32"))
    compared = 0
    for a, b in zip(half, full, strict=True):
        for tag in b:
            if tag.startswith("grad_norm/") or tag.endswith(("grad_in_norm", "grad_out_norm")):
                assert a[tag] == pytest.approx(b[tag], rel=0.05)
                compared += 1
    assert compared == 4 * (11 + 4)


def test_a_step_that_overflows_is_left_out_and_the_scale_falls():
    """F07, the part of the scaler: that is its way of finding the scale, not a divergence."""
    model = Slope(p=[3.0], q=[1.0])
    trainer = trainer_of(model, precision="float16", clip_norm=10.0)
    model.wanted["p"] = torch.tensor([1e38])  # times 65536 is infinite
    (values,) = trainer.advance()
    assert values["grad_norm/p"] == math.inf
    assert model.p.tolist() == model.q.tolist() == [0.0]
    model.wanted["p"] = torch.tensor([3.0])
    (values,) = trainer.advance()
    assert (values["grad_norm/p"], values["loss_scale"]) == (3.0, 32768.0)
    assert model.p.tolist() == [-1.5]


@pytest.mark.parametrize("limit", [None, 1.0, 5.0, 100.0])
def test_norms_are_those_before_clipping_with_the_same_tags_without_it(limit):
    """F08. The norm before clipping, and the share of clipped steps, the same tags with clipping on and off."""
    model = Slope(a=[3.0], b=[[4.0]])
    (values,) = trainer_of(model, clip_norm=limit).advance()
    assert (values["grad_norm/total"], values["grad_norm/a"], values["grad_norm/b"]) == (5.0, 3.0, 4.0)
    clipped = limit == 1.0
    assert values["clip_fraction"] == float(clipped)
    scale = 0.2 if clipped else 1.0
    assert [model.a.item(), model.b.item()] == pytest.approx([-0.5 * 3 * scale, -0.5 * 4 * scale], rel=1e-5)
    assert set(values) == set(trainer_of(Slope(a=[3.0], b=[[4.0]])).advance()[0])


def test_the_share_is_over_all_steps_since_the_last_logged_one():
    """F08, the part of steps between."""
    model = Slope(p=[1.0])
    trainer = trainer_of(model, clip_norm=2.0, log_every=4)
    sizes = {1: 1.0, 2: 3.0, 3: 3.0, 4: 1.0, 5: 3.0, 6: 3.0, 7: 3.0, 8: 3.0}
    shares = {}
    for step, size in sizes.items():
        model.wanted["p"] = torch.tensor([size])
        for values in trainer.advance():
            shares[step] = values["clip_fraction"]
    assert shares == {1: 0.0, 4: 2 / 3, 8: 1.0}


def test_clipping_is_torchs_own(tmp_path):
    """Against torch.nn.utils.clip_grad_norm_ in a hand-written loop."""
    own = ("optimizer.clip_norm=0.05", "optimizer.momentum=0", "max_steps=3", "log_every=1", "model.width=8")
    outcome = train(tmp_path, *own)
    choices = choose(compose(*own))
    model, data = build_model(choices), load(choices.data)
    loop = Trainer(build_model(choices), choices.optimizer, choices.settings, data)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in (1, 2, 3):
        x, y = loop.batch(0, step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        by_hand = {name: float(p.grad.double().norm()) for name, p in model.named_parameters()}
        before = float(nn.utils.clip_grad_norm_(model.parameters(), 0.05))
        record = lines(tmp_path)[step - 1]
        assert record["grad_norm/total"] == pytest.approx(before, rel=1e-5)
        for name, norm in by_hand.items():
            assert record[f"grad_norm/{name}"] == pytest.approx(norm, rel=1e-5)
        assert record["clip_fraction"] == 1.0
        optimizer.step()
    saved = torch.load(outcome.folder / "checkpoints/last.pt")["trainer"]["model"]
    for name, value in model.state_dict().items():
        assert torch.allclose(value, saved[name], rtol=1e-5, atol=1e-7)


def test_the_gradients_at_a_layer_are_those_of_autograd():
    """In at its input, after the op; out at its output; the share of zeros; the share outside the range."""
    choices = choose(compose("component=quantized_activation", "model.width=8", "model.depth=1", "log_every=1"))
    data = load(choices.data)
    (values,) = Trainer(build_model(choices), choices.optimizer, choices.settings, data).advance()
    model = build_model(choices)
    x, y = Trainer(build_model(choices), choices.optimizer, choices.settings, data).batch(0, 1)
    given = model.blocks[0].values(x.flatten(1))
    given.retain_grad()
    output = model.blocks[0].component.quantize(given)
    output.retain_grad()
    nn.functional.cross_entropy(model.readout(output), y).backward()
    layer = "op/blocks.0.component.quantize"
    assert values[f"{layer}/grad_in_norm"] == pytest.approx(float(given.grad.norm()), rel=1e-5)
    assert values[f"{layer}/grad_out_norm"] == pytest.approx(float(output.grad.norm()), rel=1e-5)
    assert values[f"{layer}/zero_gradient_fraction"] == pytest.approx(float((given.grad == 0).float().mean()))
    assert values[f"{layer}/saturated_fraction"] == pytest.approx(float(((given < 0) | (given > 1)).float().mean()))


@pytest.mark.parametrize("engine", ["single", "stacked"])
def test_a_gradient_whose_square_float32_cannot_hold_is_clipped(tmp_path, monkeypatch, engine):
    """The loss times 2^80 makes the same clipped steps; without clipping that is a divergence."""
    entropy, factor = nn.functional.cross_entropy, 1.0
    monkeypatch.setattr(nn.functional, "cross_entropy", lambda *x, **options: entropy(*x, **options) * factor)
    own = ("component=relu", "optimizer.momentum=0", "max_steps=4", "log_every=1", "model.width=8")

    def ending(name, *more):
        requests = [Request(compose(*own, *more, f"seed={i}"), tmp_path / f"{name}{i}") for i in range(2)]
        return run(requests[0]) if engine == "single" else run_group(requests)[0]

    clipped = "optimizer.clip_norm=0.05"
    small = ending("small", clipped)
    factor = 2.0**80
    large = ending("large", clipped)
    assert large.status == "DONE"
    for before, after in zip(lines(small.folder), lines(large.folder), strict=True):
        assert after["clip_fraction"] == 1.0
        for tag in ("loss/train", "grad_norm/total"):
            assert after[tag] == pytest.approx(before[tag] * factor, rel=1e-4)
    assert re.search(r"gradient of .* has norm \d\.?\d*e\+2\d", ending("free").reason)
