"""The short names: what `surrogates` and its rooms show, what a name given as a string makes."""

import ast
import importlib
import inspect
import subprocess
import sys
import typing
from html import escape
from pathlib import Path

import pytest
import torch
from torch import nn

import surrogates as sg
from surrogates.component import Component
from surrogates.core import OPS, STRATEGIES
from surrogates.functional.op_function import function_names
from surrogates.naming.catalogue import Catalogue
from surrogates.schedules import Linear

LAYERS = Catalogue("layer", "surrogates.layers", Component)
CATALOGUES = {"ops": OPS, "strategies": STRATEGIES, "layers": LAYERS}


def declared(package):
    """The classes that the package names for type checkers, by file."""
    tree = ast.parse(Path(importlib.import_module(package).__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {statement.module.rpartition(".")[2]: statement.names[0].asname for statement in block.body}


@pytest.mark.parametrize("room", CATALOGUES)
def test_a_room_shows_its_classes_and_nothing_else(room):
    package, catalogue = getattr(sg, room), CATALOGUES[room]
    classes = {stem: cls.__name__ for stem, cls in catalogue.classes.items()}
    assert declared(package.__name__) == classes, f"list them in {package.__file__}"
    assert dir(package) == package.__all__ == sorted(classes.values())
    assert all(getattr(package, name) in catalogue.classes.values() for name in classes.values())


def test_surrogates_shows_its_public_names_and_nothing_else():
    assert dir(sg) == sorted([*sg.__all__, *function_names()])
    assert all(hasattr(sg, name) for name in dir(sg))
    assert not {*sg.__all__} & {*function_names()}


@pytest.mark.parametrize("room", CATALOGUES)
def test_an_unknown_class_gets_a_suggestion(room):
    name = CATALOGUES[room].names()[0]
    with pytest.raises(AttributeError, match=f"no attribute '{name}s'; did you mean '{name}'"):
        getattr(getattr(sg, room), f"{name}s")
    assert not hasattr(getattr(sg, room), "_private")


@pytest.mark.parametrize("name", OPS.classes)
def test_every_op_is_made_by_its_name(name):
    assert OPS.make(name) == OPS.classes[name]()


@pytest.mark.parametrize("name", STRATEGIES.classes)
def test_every_strategy_is_made_by_its_name(name):
    assert STRATEGIES.make(name) == STRATEGIES.classes[name]()


def test_a_layer_takes_names_and_objects():
    by_name = sg.HardLayer("round", "smooth")
    assert (by_name.op, by_name.strategy) == (sg.ops.Round(), sg.strategies.Smooth())
    assert sg.layers.VectorQuantizer("ste").quantize.strategy == sg.strategies.StraightThrough()
    given = sg.HardLayer(sg.ops.Quantize(bits=3), sg.strategies.Smooth(temperature=0.5))
    assert (given.op.bits, given.strategy.temperature) == (3, 0.5)


@pytest.mark.slow
def test_a_class_is_found_without_importing_the_others():
    code = "import sys, surrogates; surrogates.ops.Round; print('surrogates.ops.sort' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_a_repr_shows_what_was_changed():
    assert repr(sg.strategies.StraightThrough()) == "StraightThrough()"
    assert repr(sg.strategies.Smooth(temperature=0.5, kernel="normal")) == "Smooth(temperature=0.5, kernel='normal')"
    assert repr(sg.ops.Quantize(bits=2)) == "Quantize(bits=2)"
    assert repr(sg.HardLayer("floor", "ste")) == "HardLayer(Floor(), StraightThrough())"
    assert repr(Linear(1.0, 0.5)) == "Linear(start=1.0, end=0.5)"


NOT_SHOWN = {"strategy", "unit", "start"}  # the strategy is the hard layer's; `unit` and `start` are taken in


@pytest.mark.parametrize("name", LAYERS.classes)
def test_a_layers_repr_shows_its_arguments(name):
    """Another value of an argument gives another repr."""
    cls = LAYERS.classes[name]
    for argument, parameter in inspect.signature(cls).parameters.items():
        if argument not in NOT_SHOWN:
            assert repr(cls("ste", **{argument: other_value(parameter)})) != repr(cls("ste")), argument


def other_value(parameter):
    words = typing.get_args(parameter.annotation)
    if words:
        return next(word for word in words if word != parameter.default)
    if parameter.default == 0.0:
        return -1.0
    return parameter.default / 2 if isinstance(parameter.default, float) else parameter.default + 1


def test_the_repr_of_a_layer_shows_bits_and_codes():
    assert repr(sg.layers.QuantizedWeight("ste", bits=2)).startswith("QuantizedWeight(bits=2, per=channel, ")
    assert "(\n  entries=8, size=3\n" in repr(sg.layers.VectorQuantizer("ste", entries=8, size=3))
    layer = nn.Linear(2, 3)
    sg.layers.QuantizedWeight("ste", bits=2, scale="learned").prepare(layer)
    assert "bits=2, per=channel, grid=symmetric, scale=learned\n" in repr(layer)


def test_reports_are_tables_in_a_notebook():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.ReLU6())
    report = sg.convert(model, None, relu="ste")
    html = report._repr_html_()
    assert "<td>ReLU() by StraightThrough()</td>" in html
    assert html.count("<tr>") == 1 + 2
    assert "<td>rule</td>" in sg.kinks()._repr_html_()
    diagnosis = sg.diagnose(nn.Linear(2, 1), lambda y: y.round().sum(), torch.ones(3, 2))
    assert diagnosis._repr_html_() == f"<pre>{escape(str(diagnosis))}</pre>"
