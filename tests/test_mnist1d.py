"""MNIST-1D from its recipe: the published samples, other test samples, and training samples without end."""

from __future__ import annotations

import itertools
import random
import sys

import numpy as np
import pytest
import torch

from experiments.config.choices import ConfigError, choose
from experiments.data import load
from experiments.data.batches import Batches
from experiments.data.dataset import DataError
from experiments.data.mnist1d import Mnist1d
from experiments.data.signals import Signals
from experiments.data.train_samples import TrainSamples
from experiments.training import needs
from experiments.training.build import build_model
from experiments.training.schedule import training_batches
from experiments.training.trainer import Trainer
from runs import command, compose, read, train

OTHER = 20_000  # test samples
FRESH = Mnist1d(fresh=True)


@pytest.fixture
def _global_generators_restored():
    python, legacy = random.getstate(), np.random.get_state()
    yield
    random.setstate(python)
    np.random.set_state(legacy)


def rows(*parts):
    """The bytes of all samples."""
    return [sample.tobytes() for part in parts for sample in part.x.numpy()]


@pytest.mark.slow
@pytest.mark.usefixtures("_global_generators_restored")
def test_the_published_samples_are_those_of_the_authors_package():
    from mnist1d.data import make_dataset

    theirs, ours = make_dataset(), load(Mnist1d())
    x, y = (np.concatenate([theirs[name], theirs[f"{name}_test"]]) for name in ("x", "y"))
    parts = list(ours.parts.values())
    assert [len(part) for part in parts] == [3000, 1000, 1000]
    assert torch.equal(torch.cat([part.x for part in parts])[:, 0], torch.from_numpy(x).float())
    assert torch.equal(torch.cat([part.y for part in parts]), torch.from_numpy(y))


def test_other_test_samples_leave_the_other_parts_and_begin_with_those_of_a_smaller_number():
    published, few, many = (load(Mnist1d(test_samples=count)) for count in (None, 700, 2300))
    assert [len(data.test) for data in (published, few, many)] == [1000, 700, 2300]
    assert torch.equal(many.test.x[:700], few.test.x)
    assert torch.equal(many.test.y[:700], few.test.y)
    for data in (few, many):
        assert {name for name, own in data.hashes().items() if own != published.hashes()[name]} == {"test"}
    samples = rows(*published.parts.values(), many.test)
    assert len(set(samples)) == len(samples)


@pytest.mark.slow
def test_other_test_samples_have_the_distribution_of_the_published_ones():
    """Mean and spread of each digit at each of 40 points within 4.5 standard errors: 1 of 180 such tests would fail."""
    published, other = load(Mnist1d()), load(Mnist1d(test_samples=OTHER)).test
    x = torch.cat([part.x for part in published.parts.values()])[:, 0].double()
    y = torch.cat([part.y for part in published.parts.values()])
    for digit in range(10):
        own, new = x[y == digit], other.x[other.y == digit, 0].double()
        for power in (1, 2):
            a, b = own**power, new**power
            error = (a.var(0) / len(a) + b.var(0) / len(b)).sqrt()
            assert ((a.mean(0) - b.mean(0)) / error).abs().max() < 4.5, (digit, power)
    assert abs(other.y.bincount() - OTHER / 10).max() < 4.5 * (0.09 * OTHER) ** 0.5


def test_no_fresh_training_sample_is_seen_twice_or_tested_on():
    data = load(FRESH)
    seen = rows(*(data.epoch(seed, epoch) for seed, epoch in itertools.product((0, 1), range(2))), *data.parts.values())
    assert len(set(seen)) == len(seen) == 4 * 3000 + 5000
    published = load(Mnist1d())
    assert {name for name, own in data.hashes().items() if own != published.hashes()[name]} == {"train"}


def test_seed_and_epoch_alone_determine_the_samples_of_a_run_in_whatever_stack():
    data = load(FRESH)
    orders = [Batches(3000, 700, seed) for seed in (4, 9)]
    together, alone = TrainSamples(data, orders), [TrainSamples(data, [order]) for order in orders]
    steps = [0, 4, 6, 3]  # of epochs 0, 0, 1, 0
    found = []
    for step in steps:
        x, y = together(step)
        own = [samples(step) for samples in alone]
        assert torch.equal(x, torch.cat([one for one, _ in own]))
        assert torch.equal(y, torch.cat([one for _, one in own]))
        found += list(map(bytes, x.numpy()))
    assert len(found) == len(set(found)) == 2 * (3 * 700 + 200)
    epoch = torch.cat([alone[0](step)[0] for step in range(5)])
    assert sorted(map(bytes, epoch.numpy())) == sorted(rows(data.epoch(4, 0)))


def test_a_fixed_part_is_ordered_by_each_runs_seed():
    data, orders = load(Mnist1d()), [Batches(3000, 64, seed) for seed in (4, 9)]
    x, y = TrainSamples(data, orders)(50)
    index = torch.cat([order[50] for order in orders])
    assert torch.equal(x, data.train.x[index])
    assert torch.equal(y, data.train.y[index])


@pytest.mark.slow
def test_every_strategy_trains_on_the_same_fresh_samples_in_the_precision_of_the_run():
    found = []
    for strategy in ("ste", "smooth"):
        choices = choose(compose("data=mnist1d", "data.fresh=true", f"strategy={strategy}", "model.width=8"))
        data = load(choices.data).to("cpu", torch.float64)
        trainer = Trainer(build_model(choices), choices.optimizer, choices.settings, data)
        found.append(trainer.batch(0, 50))
        assert found[-1][0].dtype == torch.float64
    assert torch.equal(found[0][0], found[1][0])


def test_batches_to_overfit_and_fresh_samples_exclude_each_other():
    choices = choose(compose("data=mnist1d", "data.fresh=true", "overfit_batches=3"))
    with pytest.raises(ConfigError, match=r"overfit_batches=3 repeats training samples, data\.fresh=true never does"):
        training_batches(choices.settings, load(FRESH))


@pytest.mark.parametrize("wrong", [0, -1, 2**31])
def test_a_number_of_test_samples_out_of_range_is_named(wrong):
    with pytest.raises(ValueError, match=rf"data\.test_samples={wrong} must be at least 1 and below 2\^31, or null"):
        Mnist1d(test_samples=wrong)


@pytest.mark.parametrize("key", ["data.fresh=true", "data.test_samples=20"])
def test_another_data_set_refuses_the_options_and_names_the_one_that_has_them(tmp_path, key):
    answer = command("data=digits", key, cwd=tmp_path)
    assert answer.code == 2
    assert f"no key {key.partition('=')[0]} here; these options have it: data=mnist1d" in answer.err
    assert not list(tmp_path.iterdir())


def test_without_the_authors_package_the_data_set_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "mnist1d.data", None)
    with pytest.raises(DataError, match=r"data set mnist1d: cannot import its recipe .*pip install mnist1d"):
        Signals()


def test_the_needs_of_generated_samples_are_estimated(monkeypatch):
    fixed, more = (
        choose(compose("data=mnist1d", *own)) for own in ((), ("data.fresh=true", "data.test_samples=20000"))
    )
    sizes = [(scale.samples, scale.epoch_samples) for scale in map(needs.Scale.of, (fixed, more))]
    assert sizes == [(5000, 0), (24_000, 3000)]
    generated = 19_000 + fixed.settings.max_steps * fixed.settings.batch_size
    assert needs.least_seconds(more) - needs.least_seconds(fixed) == pytest.approx(1e-6 * generated)
    monkeypatch.setattr(needs, "memory", lambda device: 10_000_000)
    assert needs.shortage(fixed) is None
    assert needs.shortage(more) is None
    assert "12 MB of it for data (data.test_samples=20000" in needs.shortage(more, replicas=15)


@pytest.mark.slow
def test_a_run_records_the_hash_of_its_test_samples(tmp_path):
    own = ("data=mnist1d", "data.fresh=true", "data.test_samples=50", "max_steps=2", "eval_every=2", "model.width=8")
    folder = train(tmp_path / "run", *own).folder
    hashes = load(Mnist1d(test_samples=50, fresh=True)).hashes()
    assert read(folder / "env.json")["data_hashes"] == hashes
    assert read(folder / "test_outcomes.json")["test_sha256"] == hashes["test"]
    assert read(folder / "test_outcomes.json")["samples"] == 50
