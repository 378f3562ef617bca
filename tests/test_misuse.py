"""A wrong word or object is refused when the op, strategy, schedule or layer is made, with the known words."""

import inspect
import re
import typing
from dataclasses import fields

import pytest
import torch
from torch import nn

from surrogates import HardLayer, convert, hard_layers, mode, revert, through
from surrogates.component import Component
from surrogates.core import OPS, STRATEGIES
from surrogates.naming.catalogue import Catalogue
from surrogates.ops.round import Round
from surrogates.quantizing.scales import Pieces
from surrogates.schedules import SCHEDULES
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough

LAYERS = Catalogue("layer", "surrogates.layers", Component).classes
MEMBERS = {**OPS.classes, **STRATEGIES.classes, "pieces": Pieces}
ANY_WORD = {"form"}  # the op's own forms: checked when the two meet, with the op's list


def words_of(hint):
    """The words of an annotation's `Literal`s."""
    parts = [hint, *typing.get_args(hint)]
    return [word for part in parts if typing.get_origin(part) is typing.Literal for word in typing.get_args(part)]


def cases(classes, hints):
    return [(cls, name, hint) for cls in classes for name, hint in hints(cls).items()]


FIELDS = cases(MEMBERS.values(), lambda cls: {f.name: typing.get_type_hints(cls)[f.name] for f in fields(cls)})
ARGUMENTS = cases(LAYERS.values(), lambda cls: typing.get_type_hints(cls.__init__) | {"return": float})


@pytest.mark.parametrize(("cls", "name", "hint"), FIELDS)
def test_a_string_that_a_field_does_not_take_is_refused(cls, name, hint):
    """K27."""
    known = words_of(hint)
    if name in ANY_WORD:
        return
    with pytest.raises(ValueError if known else TypeError, match=name) as refused:
        cls(**{name: f"{known[-1]}x" if known else "1"})
    assert all(word in str(refused.value) for word in known)
    assert not known or re.search(r"did you mean '", str(refused.value))


def test_the_laws_see_words():
    words = [case for case in FIELDS + ARGUMENTS if words_of(case[2])]
    assert len(words) >= 30
    assert {name for _, name, hint in FIELDS if str in (hint, *typing.get_args(hint))} == ANY_WORD


@pytest.mark.parametrize(("cls", "name", "hint"), [case for case in FIELDS if words_of(case[2])])
def test_a_word_given_by_position_to_a_number_names_its_field(cls, name, hint):
    """K27."""
    first, *_ = fields(cls)
    if cls.words[first.name].known == ():
        with pytest.raises(TypeError, match=rf"{first.name} must be a number.*did you mean .*{name}='"):
            cls(words_of(hint)[0])


@pytest.mark.parametrize(("cls", "name", "hint"), [case for case in ARGUMENTS if words_of(case[2])])
def test_a_word_that_a_layer_does_not_take_is_refused(cls, name, hint):
    known = words_of(hint)
    with pytest.raises(ValueError, match=f"{name} must be one of {', '.join(known)}; got '{known[0]}x'; did you mean"):
        cls("ste", **{name: f"{known[0]}x"})


@pytest.mark.parametrize("cls", LAYERS.values())
def test_a_layer_refuses_an_unknown_strategy(cls):
    with pytest.raises(ValueError, match="no strategy 'stee'; did you mean 'ste'"):
        cls("stee")
    assert next(iter(inspect.signature(cls).parameters)) == "strategy"


@pytest.mark.parametrize("cls", SCHEDULES.values())
def test_a_schedule_refuses_a_string(cls):
    with pytest.raises(TypeError, match="start must be a number, got the string '1'"):
        cls("1", 0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Round(), StraightThrough), "StraightThrough is a class; give an object, StraightThrough()"),
        ((torch.round, StraightThrough()), "expected an object of class Op, or a name; .*; write 'round'"),
        ((Round(), 0.5), "expected an object of class Strategy, or a name; got 0.5"),
        ((StraightThrough(), Round()), "expected an object of class Op, or a name; got StraightThrough"),
    ],
)
def test_what_is_no_op_or_strategy_is_refused(arguments, message):
    """K27."""
    with pytest.raises(TypeError, match=message):
        HardLayer(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rond", "ste"), "no op 'rond'; did you mean 'round'[?]; op names: abs, argmax"),
        (("round", "straight"), "no strategy 'straight'.*; strategy names: dither, gumbel"),
    ],
)
def test_an_unknown_name_is_refused(arguments, message):
    """K27."""
    with pytest.raises(ValueError, match=message):
        HardLayer(*arguments)


def test_through_and_convert_take_names():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    assert sum(convert(model, "smooth").replaced.values()) == 1
    with through(None, round="ste") as report:
        torch.round(torch.ones(2, requires_grad=True))
    assert [row.fate for row in report.replaced] == ["Round() by StraightThrough()"]
    with pytest.raises(ValueError, match="no strategy 'smoth'; did you mean 'smooth'"):
        convert(model, "smoth")


def test_a_second_conversion_replaces_the_first():
    """K28."""
    relu, pool = nn.ReLU(), nn.MaxPool1d(2)
    model = nn.Sequential(nn.Linear(3, 4), relu, pool)
    convert(model, Smooth())
    report = convert(model, None, types=nn.ReLU, relu="ste")
    assert [row.where for row in report.replaced] == ["1"]
    assert [(row.where, row.fate) for row in report.not_replaced] == [("2", "not selected")]
    assert [layer.strategy for layer in hard_layers(model).values()] == [StraightThrough(), Smooth()]
    with mode(model, "strategy"):
        assert model(torch.ones(2, 3)).shape == (2, 2)
    revert(model)
    assert model[1] is relu
    assert model[2] is pool
