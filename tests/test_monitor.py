"""`Monitor` in a training loop of the user's own: what it sets, what it measures, what it leaves as it was."""

import copy
import warnings

import pytest
import torch
from torch import nn

import hardgrad as hg
from experiments.config.choices import choose
from experiments.config.settings import Settings
from experiments.data import load
from experiments.training.build import build_model
from experiments.training.trainer import Trainer
from runs import compose

X = torch.randn(16, 3, generator=torch.Generator().manual_seed(0))
STEPS = 12


def net(*, dtype=torch.float32):
    """A noisy layer, one with a learned step, one with a schedule, and a batch norm."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(3, 8),
        hg.HardLayer(hg.ops.Quantize(bits=3, low=-1.0, high=1.0), "rewrite"),
        nn.BatchNorm1d(8),
        hg.layers.QuantizedActivation("ste", range="learned_step"),
        nn.Linear(8, 8),
        hg.HardLayer("sign", hg.strategies.Smooth(temperature=1.0, schedule="linear", final_temperature=0.1)),
        nn.Linear(8, 1),
    )
    return model.to(dtype)


def train(model, before=lambda step: None, after=lambda step: None, first=1, last=STEPS, rate=0.1):
    """A plain loop; returns the losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for step in range(first, last + 1):
        before(step)
        loss = (model(X) - X.prod(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        after(step)
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_by_hand(model, **options):
    """The same loop with the two calls that the monitor makes."""

    def prepare(step):
        hg.anneal(model, (step - 1) / (STEPS - 1))
        hg.key_noise(model, 3, step)

    return train(model, prepare, **options)


def monitored(model, **options):
    return hg.Monitor(model, STEPS, seed=3, log_every=4, **options)


def test_a_monitored_loop_trains_as_one_with_anneal_and_key_noise():
    """Bit for bit, however much is measured and evaluated between the steps."""
    model = net()
    watch, found = monitored(model, probe=X), {}

    def look(step):
        found[step] = watch.step()
        with torch.no_grad():
            model.eval()(X), model.train()

    assert train(model, after=look) == train_by_hand(net())
    assert [step for step, values in found.items() if values] == [1, 4, 8, 12]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert found[1]["op/5/temperature"] == 1.0
    assert found[12]["op/5/temperature"] == pytest.approx(0.1)


@pytest.mark.slow
def test_its_measurements_are_those_of_a_run():
    own = ("component.range=learned_step", "strategy=smooth", "model.width=8", "data=digits")
    settings = Settings(max_steps=4, log_every=2, seed=5)
    choices = choose(compose(*own))
    trainer = Trainer(build_model(choices, training=True), choices.optimizer, settings, load(choices.data))
    model = copy.deepcopy(trainer.model)
    optimizer, watch = choices.optimizer.build(model.parameters()), hg.Monitor(model, 4, log_every=2, seed=5)
    for step in range(1, 5):
        x, y = trainer.batch(0, step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        values, expected = watch.step(), trainer.advance()
        optimizer.step()
        others = {"loss/train", "lr", "temperature", "clip_fraction"}
        assert values == {tag: value for own in expected for tag, value in own.items() if tag not in others}
        assert bool(values) is (step != 3)


def test_the_probe_batch_is_compared_with_the_measurement_before():
    model, found = net(dtype=torch.float64), []
    watch = monitored(model, probe=X.double())

    def outputs():
        with torch.no_grad(), hg.mode(copy.deepcopy(model).eval(), "hard"):
            return copy.deepcopy(model).eval()[:6](X.double())

    hard = []
    for _ in range(5):
        model(X.double()).square().mean().backward()
        hard.append(outputs())
        found.append(watch.step())
        with torch.no_grad():
            model[0].weight.add_(0.1)
    flipped = (hard[3] != hard[0]).double().mean().item()
    assert 0 < flipped == found[3]["op/5/flip_rate"]
    assert "op/5/flip_rate" not in found[0]
    gaps = [values["op/5/soft_hard_gap"] for values in (found[0], found[3])]
    assert all(0 < gap < 1 for gap in gaps)


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.hard = nn.Linear(3, 1), hg.HardLayer("round", "ste")

    def forward(self, x, shift):
        return self.hard(self.layer(x) + shift)


@pytest.mark.parametrize("probe", [(X, 0.25), [X, 0.25], {"shift": 0.25, "x": X}], ids=["tuple", "list", "mapping"])
def test_a_probe_has_the_arguments_of_the_model(probe):
    model = TwoInputs()
    watch = hg.Monitor(model, 2, probe=probe)
    model(X, 0.25).sum().backward()
    watch.step()
    model(X, 0.25).sum().backward()
    assert watch.step()["op/hard/flip_rate"] == 0.0


def test_probing_leaves_the_modes_of_all_modules_as_they_were():
    model = net()
    model[2].eval()
    model[5].mode = "hard"
    modes = [(module.training, getattr(module, "mode", None)) for module in model.modules()]
    state = copy.deepcopy(model.state_dict())
    watch = monitored(model, probe=X)
    model(X).sum().backward()
    assert watch.step()
    assert [(module.training, getattr(module, "mode", None)) for module in model.modules()] == modes
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, state[name])}
    assert changed == {"5.temperature"}  # by the schedule


def test_a_resumed_training_continues_with_the_same_numbers():
    whole, first = net(), net()
    watch = monitored(whole)
    losses = train(whole, after=lambda step: watch.step())
    watch = monitored(first)
    before = train(first, after=lambda step: watch.step(), last=5)
    watch.close()
    again = copy.deepcopy(first)
    watch = monitored(again, start=5)
    assert before + train(again, after=lambda step: watch.step(), first=6) == losses


def test_a_gradient_scaler_does_not_change_the_measurements():
    values = []
    for scaler in (None, torch.amp.GradScaler("cpu", init_scale=1024.0)):
        model = net()
        watch, optimizer = monitored(model), torch.optim.SGD(model.parameters())
        loss = model(X).square().mean()
        (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is not None:
            scaler.unscale_(optimizer)
        values.append(watch.step(scaler))
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_faults_are_warned_of_once_at_the_users_line():
    """A parameter that stops training, a learned step at its floor, and steps after the end."""
    model = net()
    watch = monitored(model)

    def look(step):
        if step > 3:
            model[6].weight.grad = None
            model[6].bias.grad.zero_()
        if step == 12:
            model[3].step.data.fill_(-1.0)
        watch.step()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(model, after=look, last=STEPS + 4, rate=0.0)
    assert [str(warning.message) for warning in caught] == [
        "at every logged step from 4 to 8 the gradient is exactly 0 or None of 6.weight, 6.bias",
        "op/3.quantize/scale reached its floor 1e-06 by step 12; no smaller value can act",
        "step 13 is after the 12 steps that Monitor was made for: "
        "temperatures stay at the end of their schedule, and nothing is measured",
    ]
    assert {warning.filename for warning in caught} == {__file__}


def test_every_rank_draws_its_own_noise_and_rank_0_that_of_one_process(monkeypatch):
    def outputs():
        monitored(model)
        return model[:2](X)

    model = net()
    alone = outputs()
    hg.key_noise(model, 3, 1, rank=0)
    assert torch.equal(model[:2](X), alone)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    drawn = []
    for rank in range(3):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        drawn.append(outputs())
        hg.key_noise(model, 3, 1, rank=rank)
        assert torch.equal(model[:2](X), drawn[-1])
    assert torch.equal(drawn[0], alone)
    assert not any(torch.equal(drawn[i], drawn[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


def draw_on(rank, processes, folder):
    """Writes what the noisy layer gives in one of several processes of torch.distributed."""
    store = torch.distributed.FileStore(str(folder / "store"), processes)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=processes)
    model = net()
    watch = monitored(nn.parallel.DistributedDataParallel(model))
    model(X).sum().backward()
    watch.step()
    torch.save(model[:2](X), folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.nightly
def test_two_processes_draw_different_noise(tmp_path):
    torch.multiprocessing.spawn(draw_on, (2, tmp_path), nprocs=2)
    drawn = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    model = net()
    hg.key_noise(model, 3, 2)
    assert torch.equal(drawn[0], model[:2](X))
    assert not torch.equal(drawn[0], drawn[1])


def test_schedules_by_epochs_need_the_steps_of_an_epoch():
    model = nn.Sequential(nn.Linear(3, 1), hg.HardLayer("sign", hg.strategies.Smooth(clock="epoch")))
    with pytest.raises(ValueError, match="give steps_per_epoch, the optimizer steps of one epoch"):
        hg.Monitor(model, 12)
    watch, seen = hg.Monitor(model, 12, steps_per_epoch=4), []
    train(model, before=lambda step: seen.append(model[1].temperature.item()), after=lambda step: watch.step())
    assert [len({*seen[i : i + 4]}) for i in (0, 4, 8)] == [1, 1, 1]
    assert seen[0] > seen[4] > seen[8]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((net(), 0), "steps must be a whole number of at least 1, got 0"),
        ((net(), 5.0), "steps must be a whole number of at least 1, got 5.0"),
        ((lambda x: x, 5), r"model must be a torch.nn.Module, got function"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        hg.Monitor(*arguments)
