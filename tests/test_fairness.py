"""For one seed every strategy gets the same weights, batches and noise; nothing outside the run moves."""

import hashlib
import itertools
import random

import numpy as np
import pytest
import torch

from experiments.config.choices import choose
from experiments.data.batches import Batches
from experiments.measuring.layer_probe import LayerProbe
from experiments.training.build import build_model
from experiments.training.initialise import stream
from experiments.training.trainer import Trainer
from runs import CONF, SHORT, command, compose, read, train
from surrogates import EmptyCell, key_noise
from surrogates.noise import uniforms

slow = pytest.mark.slow
BRIEF = {"hard_gate", "quantized_weight"}  # the rest is slow
COMPONENTS = [
    pytest.param(stem, marks=[] if stem in BRIEF else slow)
    for stem in sorted(path.stem for path in (CONF / "component").iterdir())
]
STRATEGIES = sorted(path.stem for path in (CONF / "strategy").iterdir())


def component_of(strategy):
    """A component that the strategy applies to."""
    for component in ("quantized_activation", "binary"):
        try:
            build_model(choose(compose(f"component={component}", f"strategy={strategy}")))
        except EmptyCell:
            continue
        return component
    return pytest.fail(f"{strategy} applies to no component")


def weights(model):
    """A hash of the parameters by name."""
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        digest.update(name.encode())
        digest.update(parameter.detach().numpy().tobytes())
    return digest.hexdigest()


def seen(monkeypatch, folder, *overrides):
    """A run's status, and the hashes of the weights it starts from, calibrated, and of the batches it trains on."""
    starts, batches, batch = [], hashlib.sha256(), Trainer.batch

    def hashing(self, r, step):
        x, y = batch(self, r, step)
        starts.append(weights(self.model))
        batches.update(x.numpy().tobytes() + y.numpy().tobytes())
        return x, y

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "batch", hashing)
        outcome = train(folder, *overrides)
    return outcome.status, starts[:2], batches.hexdigest()  # the first call is the calibration's


@pytest.mark.slow
@pytest.mark.parametrize("component", COMPONENTS)
def test_all_strategies_start_from_the_same_weights_and_see_the_same_batches(tmp_path, monkeypatch, component):
    model = "model=cnn" if component == "hard_max_pool" else "model=mlp"
    found = {}
    for strategy in STRATEGIES:
        own = (f"component={component}", f"strategy={strategy}", model, *SHORT)
        status, *hashes = seen(monkeypatch, tmp_path / strategy, *own)
        if status == "DONE":
            found[strategy] = hashes
    assert len(found) >= 3
    assert all(hashes == found["ste"] for hashes in found.values())
    _, *other = seen(monkeypatch, tmp_path / "other", f"component={component}", model, "seed=1", *SHORT)
    assert other[0] != found["ste"][0]
    assert other[1] != found["ste"][1]


@pytest.mark.slow
def test_a_learned_step_is_calibrated_to_the_same_value(tmp_path, monkeypatch):
    found = {
        strategy: seen(monkeypatch, tmp_path / strategy, "component.range=learned_step", f"strategy={strategy}", *SHORT)
        for strategy in STRATEGIES
        if component_of(strategy) == "quantized_activation"
    }
    assert len(found) >= 4
    assert all(hashes == found["ste"] for hashes in found.values())
    before, after = found["ste"][1]
    assert before != after


def test_data_and_their_parts_do_not_depend_on_the_seed(shared):
    hashes = [read(shared(*SHORT, f"seed={seed}") / "env.json")["data_hashes"] for seed in (0, 1)]
    assert hashes[0] == hashes[1]
    assert len(set(hashes[0].values())) == 3


def test_noise_is_the_same_for_all_and_differs_by_seed_step_layer_and_draw():
    x = torch.zeros(4, 3)
    keys = [(seed, step, layer, draw) for seed in (0, 1) for step in (1, 2) for layer in (0, 1) for draw in (1, 2)]
    drawn = {key: uniforms(x, key) for key in keys}
    assert all(torch.equal(uniforms(x, key), value) for key, value in drawn.items())
    assert len({value.numpy().tobytes() for value in drawn.values()}) == len(keys)
    model = build_model(choose(compose("strategy=rewrite", "model.batch_norm=true")))
    pixels = torch.ones(5, 1, 8, 8)
    outputs = []
    for step in (1, 2, 1):
        key_noise(model, 0, step)
        outputs.append(model(pixels).detach())
    assert torch.equal(outputs[0], outputs[2])
    assert not torch.equal(outputs[0], outputs[1])


def state_of_the_world():
    return (
        torch.get_rng_state().numpy().tobytes(),
        str(np.random.get_state()),
        str(random.getstate()),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_anomaly_enabled(),
        np.geterr(),
    )


@pytest.mark.parametrize(
    ("data", "strategy"),
    [
        pytest.param(data, strategy, marks=[] if data == "digits" or (data, strategy) == ("mnist1d", "ste") else slow)
        for data, strategy in itertools.product(("digits", "mnist1d", "fake"), STRATEGIES)
    ],
)
def test_a_run_leaves_every_global_generator_and_switch_alone(tmp_path, data, strategy):
    torch.manual_seed(11)
    np.random.seed(12)
    random.seed(13)
    before = state_of_the_world()
    own = (f"component={component_of(strategy)}", f"strategy={strategy}", "model.batch_norm=true", *SHORT)
    assert train(tmp_path / "a", f"data={data}", *own).result
    assert state_of_the_world() == before


def test_a_run_does_not_depend_on_a_global_generator(tmp_path, shared):
    torch.manual_seed(99)
    np.random.seed(98)
    random.seed(97)
    own = ("strategy=rewrite", *SHORT)
    folder = train(tmp_path / "a", *own).folder
    assert (folder / "metrics.jsonl").read_bytes() == (shared(*own) / "metrics.jsonl").read_bytes()


@pytest.mark.slow
def test_seeds_beyond_32_bits_are_seeds_of_their_own(tmp_path):
    seeds = [0, 1, 2**32, 2**32 + 1, 2**63 - 1]
    metrics = {seed: train(tmp_path / str(seed), f"seed={seed}", "strategy=rewrite", *SHORT).result for seed in seeds}
    assert len({result["metrics"]["loss/train"] for result in metrics.values()}) == len(seeds)
    assert len({weights(build_model(choose(compose(f"seed={seed}")))) for seed in seeds}) == len(seeds)
    assert len({tuple(Batches(100, 10, seed)[0].tolist()) for seed in seeds}) == len(seeds)


def test_streams_of_a_seed_are_apart():
    """I01, the part of the streams: init, order and noise of one seed, and of neighbouring seeds, share no draws."""
    drawn = {(name, seed): torch.rand(8, generator=stream(name, seed)) for name in ("init", "other") for seed in (0, 1)}
    assert len({value.numpy().tobytes() for value in drawn.values()}) == 4
    assert Batches(500, 500, 0)[0].tolist() != Batches(500, 500, 1)[0].tolist()


@pytest.mark.slow
def test_jobs_of_one_process_do_not_shift_each_other(tmp_path):
    """The basic launcher runs all jobs in one process: a job's numbers are those it has alone."""
    arguments = ("strategy=rewrite,smooth,ste", *SHORT)
    assert command("-m", *arguments, cwd=tmp_path).code == 0
    for path in tmp_path.rglob("result.json"):
        strategy = next(s for s in ("rewrite", "smooth", "ste") if s in str(path))
        alone = train(tmp_path / "alone" / strategy, f"strategy={strategy}", *SHORT)
        assert (alone.folder / "result.json").read_bytes() == path.read_bytes()


def test_probing_a_layer_changes_no_gradient():
    """What is logged in a step does not enter it."""
    choices = choose(compose("strategy=smooth", "component=hard_gate"))
    x, y = torch.randn(16, 1, 8, 8, generator=stream("x", 0)), torch.arange(16) % 10
    gradients = []
    for watched in (False, True):
        model = build_model(choices)
        probe = LayerProbe(model)
        if watched:
            with probe.watching():
                logits = model(x)
        else:
            logits = model(x)
        torch.nn.functional.cross_entropy(logits, y).backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
        assert bool(probe.measure()) is watched
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_an_empty_cell_draws_nothing():
    before = torch.get_rng_state()
    with pytest.raises(EmptyCell):
        build_model(choose(compose("component=binary", "strategy=rewrite")))
    assert torch.equal(before, torch.get_rng_state())
