"""conf/ and the code it selects agree: same names, same keys, same defaults; every preset can run."""

import importlib
import inspect
import itertools
import pkgutil
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from torch import nn

from experiments.config.choices import SUPPLIED, choose
from experiments.config.settings import GROUPS, Settings
from experiments.optimizers.optimizer import Optimizer
from experiments.training.build import build_model
from runs import CONF, ROOT, compose
from surrogates import Component, Strategy

PACKAGES = {
    "component": "surrogates.layers",
    "strategy": "surrogates.strategies",
    "model": "experiments.models",
    "data": "experiments.data",
    "optimizer": "experiments.optimizers",
}


KINDS = {
    "component": lambda cls: issubclass(cls, Component),
    "strategy": lambda cls: issubclass(cls, Strategy) and "combine" in vars(cls),
    "model": lambda cls: issubclass(cls, nn.Module) and SUPPLIED["model"] <= set(inspect.signature(cls).parameters),
    "data": lambda cls: is_dataclass(cls) and hasattr(cls, "load") and hasattr(cls, "input_shape"),
    "optimizer": lambda cls: issubclass(cls, Optimizer) and cls is not Optimizer,
}


def options_in_code(group):
    """The option classes of a group's package by module stem."""
    package = importlib.import_module(PACKAGES[group])
    found = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        own = [c for c in vars(module).values() if inspect.isclass(c) and c.__module__ == module.__name__]
        options = [cls for cls in own if KINDS[group](cls)]  # bases leave something open, and are none
        assert len(options) <= 1, f"{module.__name__} has more than one option: {options}"
        if options:
            found[info.name] = options[0]
    return found


def options_in_conf(group):
    return {path.stem: yaml.safe_load(path.read_text()) for path in sorted((CONF / group).iterdir())}


OPTIONS = [(group, stem) for group in GROUPS for stem in options_in_conf(group)]
PRESETS = [(group, path.stem) for group in ("experiment", "debug") for path in sorted((CONF / group).iterdir())]
ASKING = [stem for group, stem in PRESETS if "question" in yaml.safe_load((CONF / group / f"{stem}.yaml").read_text())]


def test_it_is_a_group_or_a_preset():
    folders = {path.name for path in CONF.iterdir() if path.is_dir()} - {"local"}
    assert folders == {*GROUPS, *(group for group, _ in PRESETS), "study"}
    assert all(path.suffix == ".yaml" for path in CONF.rglob("*") if path.is_file())


def test_how_many_there_are():
    assert len(OPTIONS) >= 23
    assert len(PRESETS) >= 8
    assert {group for group, _ in OPTIONS} == set(GROUPS)


@pytest.mark.parametrize("group", GROUPS)
def test_modules_and_options_have_the_same_names(group):
    assert sorted(options_in_code(group)) == sorted(options_in_conf(group))


@pytest.mark.parametrize(("group", "stem"), OPTIONS)
def test_keys_and_values_are_the_constructors(group, stem):
    node = options_in_conf(group)[stem]
    cls = options_in_code(group)[stem]
    assert node.pop("_target_") == f"{PACKAGES[group]}.{stem}.{cls.__name__}"
    assert node.pop("_partial_", False) is (group in SUPPLIED)
    own = {
        name: parameter.default
        for name, parameter in inspect.signature(cls).parameters.items()
        if name not in SUPPLIED.get(group, ())
    }
    assert list(node) == list(own)
    for key, value in node.items():
        assert (key, type(value), value) == (key, type(own[key]), own[key])


def test_root_keys_and_values_are_those_of_the_settings():
    node = yaml.safe_load((CONF / "config.yaml").read_text())
    chosen = {key for entry in node.pop("defaults") if isinstance(entry, dict) for key in entry}
    node.pop("hydra")
    assert node == {field.name: field.default for field in fields(Settings)}
    assert {*GROUPS, "experiment", "debug", "optional local"} <= chosen


def jobs(overrides):
    """What a sweep over these overrides runs, job by job."""
    parsed = OverridesParser.create().parse_overrides(overrides)
    swept = [
        [f"{o.get_key_element()}={value}" for value in (o.sweep_string_iterator() if o.is_sweep_override() else [])]
        or [o.input_line]
        for o in parsed
    ]
    return [list(job) for job in itertools.product(*swept)]


@pytest.mark.parametrize(("group", "stem"), [preset for preset in PRESETS if preset[1] not in ASKING])
def test_every_job_of_every_preset_can_run(group, stem):
    """Composed, checked against the code, and the model made; a preset that changes nothing has no use."""
    preset = f"{group}={stem}"
    text = yaml.safe_load((CONF / group / f"{stem}.yaml").read_text())
    params = text.get("hydra", {}).get("sweeper", {}).get("params", {})
    assert (CONF / group / f"{stem}.yaml").read_text().startswith("# @package _global_\n# ")
    plain = choose(compose()).plain
    count = 0
    for job in jobs([f"{key}={value}" for key, value in params.items() if key != "seed"]):
        choices = choose(compose(preset, *job))
        build_model(choices)
        assert choices.plain != plain
        count += 1
    assert count >= max(1, len(params) - 1)


@pytest.mark.parametrize("stem", ASKING)
def test_a_preset_that_asks_has_a_module_of_its_name(stem):
    """And an output folder of its own; it trains nothing."""
    assert compose(f"experiment={stem}").question == stem
    text = (CONF / "experiment" / f"{stem}.yaml").read_text()
    assert text.startswith("# @package _global_\n# ")
    assert yaml.safe_load(text)["hydra"]["run"]["dir"] == f"runs/questions/{stem}"
    assert callable(importlib.import_module(f"experiments.oracles.questions.{stem}").answer)


@pytest.mark.slow
def test_every_option_can_be_chosen():
    for group, stem in OPTIONS:
        assert choose(compose(f"{group}={stem}")).plain[group]["_target_"].split(".")[-2] == stem


def test_packages_are_where_the_design_says():
    for package in PACKAGES.values():
        assert (ROOT / Path(*package.split("."))).is_dir()
