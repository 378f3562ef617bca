"""Every combination of options and values composes, or is refused in words; nothing else is ever raised."""

from __future__ import annotations

import itertools

import hydra
import pytest
from config_inputs import OFFLINE, command_lines
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hypothesis import HealthCheck, given, settings
from omegaconf.errors import OmegaConfBaseException

from experiments.command.errors import readable
from experiments.config import VERSION_BASE
from experiments.config.choices import ConfigError
from experiments.config.folder_names import register_resolvers
from experiments.config.keys import options
from experiments.data.dataset import DataError
from experiments.training.identity import Identifier
from runs import CONF, read_files_once

REFUSALS = (ConfigError, DataError, HydraException, OmegaConfBaseException)


@pytest.fixture(scope="module", autouse=True)
def _hydra():
    read_files_once()
    register_resolvers()
    GlobalHydra.instance().clear()
    with hydra.initialize_config_dir(str(CONF), version_base=VERSION_BASE):
        yield


def answer(arguments):
    """What the program makes of a command line up to the model: its hash, or its refusal in words."""
    try:
        identity = Identifier()(hydra.compose("config", list(arguments)), arguments)
    except REFUSALS as error:
        words = readable(error, CONF)
        assert words.strip()
        assert "Traceback" not in words
        return None
    assert len(identity.config_hash) == 16
    assert identity.missing is None or len(identity.missing) > 20
    return identity


def check(arguments):
    one = answer(arguments)
    again = answer(arguments)
    assert (one and one.config_hash) == (again and again.config_hash)


@pytest.mark.slow
@given(command_lines())
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_a_few_command_lines(arguments):
    check(arguments)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_command_lines(part, record_property):
    answers = []

    @given(command_lines())
    @settings(max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def run(arguments):
        answers.append(answer(arguments))

    run()
    record_property("composed", sum(found is not None for found in answers))
    record_property("refused in words", answers.count(None))
    assert len(answers) >= 1_000


@pytest.mark.nightly
def test_every_choice_of_options():
    groups = ("component", "strategy", "model", "optimizer")
    answered = 0
    for choice in itertools.product(*(options(CONF, group) for group in groups), OFFLINE[:1]):
        answer([f"{group}={option}" for group, option in zip((*groups, "data"), choice, strict=True)])
        answered += 1
    assert answered >= 900
