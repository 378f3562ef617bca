"""A law over every numeric option: a value is refused before training in words that name the key, or it trains."""

from __future__ import annotations

import random

import pytest
from numeric_options import VALUES, answer, numeric_options

from experiments.config.settings import GROUPS
from runs import read_files_once

CASES = [(option, value) for option in numeric_options() for value in VALUES]


@pytest.fixture(autouse=True)
def _faster():
    read_files_once()


def test_every_group_has_numeric_options():
    keys = {option.key for option, _ in CASES}
    assert {key.partition(".")[0] for key in keys if "." in key} == set(GROUPS)
    assert {"seed", "max_steps", "strategy.samples", "component.step", "data.size", "optimizer.lr"} <= keys
    assert len(keys) >= 44


@pytest.mark.slow
def test_a_few_values_are_refused_in_words_or_train(tmp_path):
    drawn = random.Random(16).sample(CASES, 25)
    answers = [answer(option, value, tmp_path / str(number)) for number, (option, value) in enumerate(drawn)]
    assert len(set(answers)) >= 2


@pytest.mark.nightly
@pytest.mark.parametrize("group", ["", *GROUPS])
def test_every_value_is_refused_in_words_or_trains(group, tmp_path, record_property):
    own = [case for case in CASES if case[0].key.rpartition(".")[0] == group]
    answers = [answer(option, value, tmp_path / str(number)) for number, (option, value) in enumerate(own)]
    for kind in ("refused", "trained", "diverged"):
        record_property(f"{group or 'root'}: {kind}", answers.count(kind))
    assert len(answers) >= 10 * len({option.key for option, _ in own})
