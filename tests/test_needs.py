"""What a run needs is estimated before anything is built; what cannot fit is refused, what is long is said."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from experiments.config.choices import ConfigError, choose
from experiments.config.config_hash import config_hash
from experiments.config.keys import options
from experiments.sweep.arrange import _reason_against
from experiments.training import needs
from experiments.training.build import build_model
from experiments.training.loading import load
from experiments.training.needs import Scale, least_seconds, note_long, require_memory, shortage
from runs import CONF, SHORT, command, compose, rewrite_status, train
from surrogates import EmptyCell

GIB = 2**30


def chosen(*overrides: str):
    return choose(compose(*overrides))


@pytest.fixture
def eight_gigabytes(monkeypatch):
    monkeypatch.setattr(needs, "memory", lambda device: 8 * GIB)


@pytest.mark.slow
def test_the_estimated_parameters_are_the_models():
    """Exact for an mlp; for a cnn the readout, whose size depends on the pooling, is not counted."""
    compared = 0
    for component in options(CONF, "component"):
        for own in ((), ("model.width=12", "model.depth=3"), ("model=cnn",)):
            try:
                choices = chosen(f"component={component}", *own)
                model = build_model(choices)
            except EmptyCell:
                continue
            found, estimate = sum(p.numel() for p in model.parameters()), Scale.of(choices).model.parameters
            own_scales = "learned" in str(choices.plain["component"])
            if "model=cnn" in own or own_scales:
                assert 0.5 * found <= estimate <= found, (component, own)
            else:
                assert estimate == found, (component, own)
            compared += 1
    assert compared >= 40


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["model.depth=3000000"], "needs at least 723 GB of memory, 594 GB of it for weights (model.depth=3000000"),
        (["model.depth=300000000", "model.width=1"], "for layers (model.depth=300000000"),
        (["model.width=1000000000"], "for weights (model.width=1000000000"),
        (["component=hard_gate", "component.k=2000000000"], "for weights (component.k=2000000000"),
        (
            ["component=spike", "component.steps=1000000000"],
            "for the activations of a batch (component.steps=1000000000",
        ),
        (["component=binary", "strategy=perturbed", "strategy.samples=1000000000"], "(strategy.samples=1000000000"),
        (["batch_size=1000000000000"], "for the activations of a batch (batch_size=1000000000000"),
        (["data=fake", "data.size=1000000000"], "for data (data.size=1000000000"),
        (["data=fake", "data.side=1000000000"], "(data.side=1000000000"),
        (["data=fake", "data.classes=2000000000"], "for weights (data.classes=2000000000"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_cannot_fit_is_refused_with_the_estimate_the_memory_and_the_keys(eight_gigabytes, overrides, words):
    with pytest.raises(ConfigError) as refused:
        build_model(chosen(*overrides), training=True)
    assert words in str(refused.value)
    assert "this machine has 8.59 GB; choose smaller values" in str(refused.value)


@pytest.mark.slow
def test_such_a_command_ends_with_code_2_and_no_folder(tmp_path):
    for key, value in (("model.depth", 3_000_000), ("data.size", 10**12), ("component.steps", 10**10)):
        answer = command("data=fake", "component=spike", f"{key}={value}", cwd=tmp_path)
        assert answer.code == 2
        assert key in answer.err
        assert not list(tmp_path.rglob("*"))


@pytest.mark.slow
def test_no_preset_and_no_default_is_refused(monkeypatch):
    """With 1 GiB, of which the largest data set takes the most."""
    monkeypatch.setattr(needs, "memory", lambda device: GIB)
    presets = [(f"experiment={name}",) for name in options(CONF, "experiment")]
    pairs = [(f"component={c}", f"strategy={s}") for c in options(CONF, "component") for s in options(CONF, "strategy")]
    others = [(f"{group}={name}",) for group in ("data", "model", "optimizer") for name in options(CONF, group)]
    asked = 0
    for overrides in (*presets, *pairs, *others):
        config = compose(*overrides)
        try:
            if "question" not in config:
                assert shortage(choose(config)) is None, overrides
                assert not note_long(choose(config))
                asked += 1
        except EmptyCell:
            continue
    assert asked >= 80


def test_a_run_folder_that_asks_for_too_much_is_refused(tmp_path, eight_gigabytes):
    """Building the model would take hours, and all memory."""
    folder = train(tmp_path / "run", *SHORT).folder
    assert load(folder) is not None
    config = OmegaConf.load(folder / "config.yaml")
    config.model.depth = 300_000_000
    OmegaConf.save(config, folder / "config.yaml")
    rewrite_status(folder, config_hash=config_hash(OmegaConf.to_container(config)))
    with pytest.raises(ConfigError, match=r"model\.depth=300000000"):
        load(folder)


def test_a_model_that_is_only_loaded_needs_no_gradients(monkeypatch):
    choices = chosen("model.width=2000", "model.depth=4")
    monkeypatch.setattr(needs, "memory", lambda device: 100_000_000)
    require_memory(choices, training=False)
    with pytest.raises(ConfigError, match="146 MB of it for weights"):
        require_memory(choices, training=True)


def test_a_stack_that_cannot_fit_is_not_stacked(monkeypatch):
    choices = chosen()
    monkeypatch.setattr(needs, "memory", lambda device: 10_000_000)
    assert shortage(choices, 2) is None
    assert _reason_against(choices, 100).startswith("cannot be stacked: a stack of 100 runs needs at least 3")


def test_where_the_system_does_not_say_its_memory_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(needs, "memory", lambda device: None)
    require_memory(chosen("model.depth=3000000"), training=True)


def test_the_memory_is_that_of_the_container_if_that_is_less(tmp_path, monkeypatch):
    limit = tmp_path / "memory.max"
    limit.write_text("123456\n")
    monkeypatch.setattr(needs, "LIMITS", (str(limit), str(tmp_path / "none")))
    assert needs.memory("cpu") == 123456
    limit.write_text("max\n")
    assert needs.memory("cpu") > GIB
    assert needs.memory("cuda") is None  # on a machine without one


def test_what_takes_more_than_a_day_is_said_and_runs(tmp_path, monkeypatch):
    """No machine makes a step in less than 50 microseconds."""
    (note,) = note_long(chosen("max_steps=" + "1" + "0" * 12))
    assert note == (
        "this run takes at least 4 years (max_steps=1000000000000, model.width=128); "
        "it may be stopped at any time; the same command resumes it"
    )
    assert least_seconds(chosen()) < 1
    monkeypatch.setattr(needs, "LONG", least_seconds(chosen(*SHORT)) / 2)
    outcome = train(tmp_path / "run", *SHORT)
    assert "note: this run takes at least " in (Path(outcome.folder) / "train.log").read_text()
