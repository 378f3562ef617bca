"""A composed configuration becomes checked objects; each thing that is wrong is refused by its name."""

import sys
from dataclasses import fields

import pytest
from omegaconf import OmegaConf

from experiments.config.choices import Choices, ConfigError, choose
from experiments.config.config_hash import NOT_HASHED, config_hash
from experiments.config.settings import CONDUCT, Settings
from experiments.data.digits import Digits
from experiments.models.mlp import MLP
from experiments.optimizers.sgd import SGD
from surrogates.layers.quantized_activation import QuantizedActivation
from surrogates.strategies.ste import StraightThrough

PLAIN = {
    "component": {"_target_": "surrogates.layers.quantized_activation.QuantizedActivation", "_partial_": True},
    "strategy": {"_target_": "surrogates.strategies.ste.StraightThrough"},
    "model": {"_target_": "experiments.models.mlp.MLP", "_partial_": True, "width": 8},
    "data": {"_target_": "experiments.data.digits.Digits"},
    "optimizer": {"_target_": "experiments.optimizers.sgd.SGD", "lr": 1},
    "max_steps": 7,
}


def config(**changes):
    """That configuration with changes; a double underscore is a dot."""
    made = OmegaConf.create(PLAIN)
    for key, value in changes.items():
        OmegaConf.update(made, key.replace("__", "."), value, merge=False, force_add=True)
    return made


def refusal(**changes):
    with pytest.raises(ConfigError) as refused:
        choose(config(**changes))
    return str(refused.value)


def test_what_is_chosen_is_built_or_waits_for_what_the_program_gives():
    found = choose(config())
    assert found.component.func is QuantizedActivation
    assert (found.model.func, found.model.keywords) == (MLP, {"width": 8})
    assert isinstance(found.strategy, StraightThrough)
    assert isinstance(found.data, Digits)
    assert found.optimizer == SGD(lr=1.0)
    assert found.settings == Settings(max_steps=7)
    assert {field.name for field in fields(Choices)} == {"plain", "settings", *PLAIN} - {"max_steps"}


def test_the_plain_configuration_is_kept_with_whole_numbers_made_floats():
    """Where floats are expected; presets and Hydra's own part are no part of it."""
    plain = choose(config(experiment="x", hydra={"a": 1}, optimizer__weight_decay=0)).plain
    assert plain == {**PLAIN, "optimizer": {**PLAIN["optimizer"], "lr": 1.0, "weight_decay": 0.0}}
    assert isinstance(plain["optimizer"]["lr"], float)
    assert isinstance(plain["max_steps"], int)


@pytest.mark.parametrize("group", ["component", "strategy", "model", "data", "optimizer"])
@pytest.mark.parametrize("value", [None, "ste"])
def test_a_group_that_is_not_chosen_is_named(group, value):
    assert refusal(**{group: value}) == f"{group} is not chosen; choose one with {group}=NAME"


TARGETS = {
    "os.system": "strategy._target_=os.system is no strategy",
    3: "strategy._target_ must name a class as MODULE.CLASS, got 3",
    "surrogates.nowhere.A": "strategy._target_=surrogates.nowhere.A does not exist",
    "surrogates.strategies.ste.A": "strategy._target_=surrogates.strategies.ste.A does not exist",
    "surrogates.hard_layer.hard_layers": "strategy._target_=surrogates.hard_layer.hard_layers is no strategy",
    "experiments.models.mlp.MLP": "strategy._target_=experiments.models.mlp.MLP is no strategy",
    "surrogates.Strategy": "strategy._target_=surrogates.Strategy is no strategy",
}


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_that_is_not_of_the_group_is_refused(target):
    assert refusal(strategy={"_target_": target}) == TARGETS[target]


def test_a_module_outside_this_program_is_imported_only_where_that_is_allowed(tmp_path, monkeypatch):
    (tmp_path / "own_of_a_test").mkdir()
    (tmp_path / "own_of_a_test" / "digits.py").write_text("class Own:\n    def load(self): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    own = config(data={"_target_": "own_of_a_test.digits.Own"})
    with pytest.raises(ConfigError) as refused:
        choose(own, may_import=False)
    said = "is no part of hardgrad; import own_of_a_test.digits first, if you trust it"
    assert str(refused.value) == f"data._target_=own_of_a_test.digits.Own {said}"
    assert "own_of_a_test" not in sys.modules
    assert choose(config(), may_import=False).data == Digits()
    with pytest.raises(ConfigError, match=r"data\._target_=surrogates\.nowhere\.A does not exist"):
        choose(config(data={"_target_": "surrogates.nowhere.A"}), may_import=False)
    try:
        assert type(choose(own).data).__module__ == "own_of_a_test.digits"
        assert type(choose(own, may_import=False).data).__name__ == "Own"
    finally:
        for name in ("own_of_a_test", "own_of_a_test.digits"):
            sys.modules.pop(name, None)


def test_data_are_whatever_can_load():
    said = "data._target_=experiments.models.mlp.MLP is no data"
    assert refusal(data={"_target_": "experiments.models.mlp.MLP"}) == said


def test_a_group_without_a_target_is_refused():
    assert refusal(data={}) == "data._target_ must name a class as MODULE.CLASS, got None"


def test_only_component_and_model_wait():
    assert refusal(model___partial_=False) == "model._partial_ must be true"
    assert refusal(component={"_target_": PLAIN["component"]["_target_"]}) == "component._partial_ must be true"
    assert refusal(data___partial_=True) == "data._partial_ must be left out"
    assert choose(config(data___partial_=False)).data == Digits()


def test_keys_that_are_not_known_are_refused_with_the_nearest():
    assert refusal(max_step=3) == "there is no key max_step; did you mean max_steps?"
    assert refusal(optimizer__lrr=3) == "there is no key optimizer.lrr; did you mean optimizer.lr?"


@pytest.mark.parametrize("key", ["component", "input_shape", "classes"])
def test_what_the_program_gives_cannot_be_set(key):
    assert refusal(**{f"model__{key}": 1}).startswith(f"there is no key model.{key}; ")


def test_values_are_checked_and_a_constructor_s_refusal_names_the_dotted_key():
    assert refusal(max_steps=2.5) == "max_steps must be int, got 2.5"
    assert refusal(optimizer__lr="x") == "optimizer.lr must be float, got 'x'"
    assert refusal(optimizer__lr=-1.0).startswith("optimizer.lr ")
    assert refusal(max_steps=0).startswith("max_steps ")
    assert not refusal(max_steps=0).startswith("settings.")


def test_an_error_that_is_not_about_a_value_is_no_refusal(monkeypatch):
    def broken(self):
        raise RuntimeError("a fault of the program")

    monkeypatch.setattr(Settings, "__post_init__", broken)
    with pytest.raises(RuntimeError, match="a fault of the program"):
        choose(config())


def test_a_question_and_a_removed_engine_are_refused():
    assert refusal(question="ties") == "a preset that asks a question is asked once; leave -m away"
    removed = "engine=compiled was removed; use engine=stacked, which trains the same runs together"
    assert refusal(engine="compiled") == removed


def test_the_hash_of_a_configuration_stays():
    """Of every version: folders of runs are known by it. Sixteen digits of SHA-256 of the sorted JSON text."""
    assert config_hash({"b": 1, "a": {"c": 0.5, "d": None}}) == "9d9658fa813f6d5d"
    assert config_hash({"a": {"d": None, "c": 0.5}, "b": 1}) == config_hash({"b": 1, "a": {"c": 0.5, "d": None}})


def test_the_hash_leaves_out_what_changes_no_number_and_nothing_else():
    assert (*CONDUCT, "data.root", "data.download") == NOT_HASHED
    plain = {"seed": 0, "workers": 2, "data": {"root": "a", "download": True, "name": "b"}, "root": "c"}
    without = config_hash(plain)
    assert without == config_hash({"seed": 0, "data": {"name": "b"}, "root": "c"})
    assert len({without, config_hash({**plain, "seed": 1}), config_hash({**plain, "root": "d"})}) == 3
    assert config_hash({"a": 1}, ["x.y.z", "a"]) == config_hash({}, [])
    assert plain["data"]["root"] == "a"
