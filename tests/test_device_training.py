"""Training on a device that is not the CPU, emulated: where it waits, and that it goes on from a checkpoint."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from emulated_device import NAME, OnDevice, emulated_device

from experiments.config.choices import Choices, choose
from experiments.config.values import ConfigError
from experiments.data import load
from experiments.data.dataset import Dataset, Part
from experiments.measuring.log_window import LogWindow
from experiments.stacked.obstacles import obstacle
from experiments.stacked.trainer import StackedTrainer
from experiments.training.build import build_model, prepare
from experiments.training.scoring import scores
from experiments.training.trainer import Trainer
from experiments.training.validation import Validation
from runs import compose

SHORT = ("model.width=8", "max_steps=6", "log_every=3", "batch_size=16", "device=meta")
PAIRS = {  # component and strategy, and how often a step that is not logged waits
    ("quantized_activation", "ste"): 0,
    ("floor", "smooth"): 0,
    ("hard_gate", "gumbel"): 0,
    ("hard_max", "rewrite"): 0,
    ("binary", "smooth", "strategy.clock=gap"): 2,  # once a layer
}


def few(data: Dataset) -> Dataset:
    """The first samples of each part, on the device."""
    parts = {name: Part(part.x[:80], part.y[:80]) for name, part in data.parts.items()}
    return dataclasses.replace(data, **parts).to(NAME)


def trainer(choices: Choices) -> Trainer:
    return Trainer(build_model(choices), choices.optimizer, choices.settings, few(load(choices.data)))


def stack(some: list[Choices]) -> StackedTrainer:
    return StackedTrainer([build_model(choices) for choices in some], some, few(load(some[0].data)))


def chosen(component: str, strategy: str, *more: str) -> Choices:
    return choose(compose(f"component={component}", f"strategy={strategy}", *SHORT, *more))


def saved(value: Any) -> Any:
    """What a checkpoint gives back: copies, on the CPU."""
    if isinstance(value, torch.Tensor):
        return value.numbers.clone() if isinstance(value, OnDevice) else value.clone()
    if isinstance(value, dict):
        return {key: saved(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [saved(item) for item in value]
    return copy.deepcopy(value)


def states(made: Trainer | StackedTrainer, validation: Validation) -> list[dict[str, Any]]:
    return [saved({"trainer": made.state(r), **validation.state(r)}) for r in range(made.replicas)]


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_a_step_that_is_not_logged_does_not_wait(pair: tuple[str, ...]) -> None:
    """Neither one of a run alone nor one of a stack, whose replicas have rates and temperatures of their own."""
    with emulated_device() as waits:
        made = trainer(chosen(*pair))
        for step in (1, 2, 3, 4):
            waits.clear()
            made.advance()
            assert step in (1, 3) or len(waits) == PAIRS[pair], (pair, step, waits)
        if PAIRS[pair]:
            return
        made = stack([chosen(*pair, f"seed={seed}", f"optimizer.lr=0.{1 + seed}") for seed in range(2)])
        for step in (1, 2, 3, 4):
            waits.clear()
            made.advance()
            assert step in (1, 3) or not waits, (pair, step, waits)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter.*")  # the emulated device does copy
@pytest.mark.parametrize("engine", ["single", "stacked"])
def test_training_goes_on_from_a_checkpoint_on_the_device(engine: str) -> None:
    """The checkpoint comes back on the CPU; flips, best weights and losses are then compared with the device's."""

    def begin() -> tuple[Any, Validation]:
        some = [chosen("binary", "ste", "optimizer=adam", f"seed={seed}") for seed in range(2)]
        made = trainer(some[0]) if engine == "single" else stack(some)
        return made, Validation(made)

    def go_on(made: Any, validation: Validation, steps: int) -> list[Any]:
        logged = []
        for _ in range(steps):
            logged.append(made.advance())
            if made.step in (3, 6):
                logged.append(validation(made.step, made.step == 6))
        return logged

    with emulated_device():
        made, validation = begin()
        go_on(made, validation, 4)
        kept = states(made, validation)
        expected = [go_on(made, validation, 2), validation.test_best(), states(made, validation)]
        again, validation = begin()
        again.restore([state["trainer"] for state in kept])
        validation.restore(kept)
        found = [go_on(again, validation, 2), validation.test_best(), states(again, validation)]
    assert repr(found) == repr(expected)
    assert "flip_rate" in repr(found)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["single", "stacked"])
def test_the_device_has_the_numbers_of_the_cpu(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a pair without noise, which would be another."""
    some = [chosen("hard_max", "rewrite", f"seed={seed}") for seed in range(2)]
    with emulated_device():
        made = trainer(some[0]) if engine == "single" else stack(some)
        there = [made.advance() for _ in range(6)]
    here = [dataclasses.replace(own, settings=dataclasses.replace(own.settings, device="cpu")) for own in some]
    monkeypatch.setattr("test_device_training.NAME", "cpu")
    made = trainer(here[0]) if engine == "single" else stack(here)
    assert [made.advance() for _ in range(6)] == there


def test_scores_of_all_replicas_are_read_at_once() -> None:
    """Not one number a replica and chunk."""
    with emulated_device() as waits:
        made = stack([chosen("relu", "ste", f"seed={seed}") for seed in range(3)])
        waits.clear()
        found = scores(made.model, made.data.val, "hard", 3)
        assert len(waits) == 1, waits
        assert [own.accuracy for own in found] == [scores(made.single(r), made.data.val)[0].accuracy for r in range(3)]


def test_adam_counts_its_steps_on_the_cpu_also_after_a_resume() -> None:
    """As torch.optim does: on the device each count would be one more kernel a parameter and step."""
    with emulated_device():
        made = stack([chosen("relu", "ste", "optimizer=adam", f"seed={seed}") for seed in range(2)])
        made.advance()
        counters = {name: own["step"] for name, own in made.optimizer.state.items()}
        made.optimizer.restore([saved(made.optimizer.replica_state(r)) for r in range(2)], 1)
        for name, own in made.optimizer.state.items():
            assert type(own["step"]) is type(counters[name]) is torch.Tensor
            assert type(own["exp_avg"]) is OnDevice


def test_a_window_that_a_checkpoint_holds_goes_on() -> None:
    with emulated_device():
        window = LogWindow(NAME)
        window.add(torch.ones((), device=NAME), 4)
        kept = saved(window.state(0))
        window.restore([kept])
        window.add(torch.zeros((), device=NAME), 4)
        (numbers,) = window.read([])
    assert numbers.losses == [1.0, 0.0]


def test_a_sweep_starts_no_cuda_before_its_workers() -> None:
    """A process that has started CUDA cannot fork; without a card the start would fail and be taken as an obstacle."""
    assert obstacle(choose(compose("component=binary", "strategy=ste", "device=cuda"))) is None
    assert not torch.cuda.is_initialized()


@pytest.fixture
def _settings_of_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    yield
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@pytest.mark.usefixtures("_settings_of_torch")
@pytest.mark.parametrize("given", [None, ":16:8"])
def test_products_on_cuda_are_made_deterministic_before_it_starts(
    given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's own setting stays."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", given or "")
    if given is None:
        monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    zeros = torch.zeros
    seen = []

    def start(*args: Any, **kwargs: Any) -> torch.Tensor:
        seen.append(os.environ.get("CUBLAS_WORKSPACE_CONFIG"))
        return zeros(*args, **{**kwargs, "device": "cpu"})

    monkeypatch.setattr(torch, "zeros", start)
    prepare(1, "cuda")
    assert seen == [given or ":4096:8"]
    assert torch.are_deterministic_algorithms_enabled()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_without_a_card_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match="device=cuda cannot be used"):
        prepare(1, "cuda")


def test_a_left_out_step_is_counted_without_reading_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scaler itself reads whether a gradient is infinite; a scale that grows leaves out no step."""
    choices = choose(compose("component=relu", "precision=float16", "model.width=8", "max_steps=9", "log_every=9"))
    made = Trainer(build_model(choices), choices.optimizer, choices.settings, load(choices.data))
    made.advance()
    reads: list[Callable[[], float]] = []
    monkeypatch.setattr(made.scaler, "get_scale", lambda: reads.append(0))
    made.scaler.update(new_scale=2.0)
    before, skipped = made.weights(0), made.skipped
    made.advance()
    assert (made.skipped, reads) == (skipped, [])
    assert any(not torch.equal(before[name], tensor) for name, tensor in made.weights(0).items())
    made.scaler.update(new_scale=float("inf"))
    before = made.weights(0)
    made.advance()
    assert (made.skipped, reads) == (skipped + 1, [])
    assert all(torch.equal(before[name], tensor) for name, tensor in made.weights(0).items())
