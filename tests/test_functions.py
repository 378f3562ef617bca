"""Every op as a function under torch's name, equal to the op under the strategy, from `surrogates` and `hardgrad`."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import hardgrad as hg
import surrogates as sg
from surrogates.core import OPS, Op
from surrogates.functional.op_function import function_names
from surrogates.strategies.ste import StraightThrough

ROOT = Path(__file__).resolve().parents[1]
X = torch.tensor([[0.4, -1.6, 2.3], [0.7, 0.2, -0.9]])


def inputs(op):
    """Tensors of the shapes that the op takes."""
    special = {"lookup": [X, torch.tensor([1.0, 2.0, 4.0])], "vector_quantize": [X, torch.eye(3)]}
    stem = type(op).__module__.rpartition(".")[2]
    return [x.requires_grad_() for x in special.get(stem, [X.clone() for _ in range(op.inputs)])]


def test_every_op_has_a_function():
    assert {hg.__getattr__(name).op for name in function_names()} == set(OPS.classes.values())
    assert {"round", "max", "topk", "gt", "ge", "lt", "le", "eq", "quantize"} <= set(function_names())
    assert "compare" not in function_names()


@pytest.mark.parametrize("name", function_names())
def test_a_function_is_the_op_under_the_strategy(name):
    function = getattr(hg, name)
    op = function.op(**function.constants, **({"k": 2} if "top" in name else {}))
    x = inputs(op)
    by_name = function(*x, "ste", **({"k": 2} if "top" in name else {}))
    by_object = StraightThrough()(op, *x)
    assert torch.equal(by_name, by_object)
    gradients = [torch.autograd.grad(y.sum(), x, allow_unused=True) for y in (by_name, by_object)]
    assert all(a is b or torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    assert function.__name__ == name
    assert getattr(sg, name).op is function.op


def test_a_function_takes_constants_temperature_and_noise():
    x = torch.tensor([0.2, 0.9])
    assert torch.equal(hg.quantize(x, "ste", bits=1), torch.tensor([0.0, 1.0]))
    smooth = hg.strategies.Smooth(kernel="normal")
    assert torch.equal(hg.heaviside(x, smooth, T=0.5), smooth(hg.ops.Heaviside(), x, T=0.5))
    with pytest.raises(ValueError, match="needs noise, a tensor of uniform numbers of shape") as refused:
        hg.round(x, "dither")
    example = str(refused.value).partition("Give ")[2].partition(", or")[0]
    assert example == "noise=torch.rand((2,))"
    assert eval(f"hg.round(x, 'rewrite', {example})", {"hg": hg, "x": x, "torch": torch}).shape == (2,)
    assert torch.equal(hg.round(x, "dither", noise=torch.tensor([0.5, 0.5])), torch.tensor([0.0, 1.0]))


@pytest.mark.parametrize("arguments", [(), (X,), (X, X, "ste"), ("ste", X), (2.5, "ste")])
def test_a_call_without_tensor_or_strategy_is_refused(arguments):
    with pytest.raises(TypeError, match=r"round takes x and a strategy: round\(x, 'ste'\)"):
        hg.round(*arguments)


def test_an_unknown_function_gets_a_suggestion():
    with pytest.raises(AttributeError, match="no attribute 'rond'; did you mean 'round'"):
        _ = hg.rond


OTHER_NAMES = [(op, name) for op, cls in OPS.classes.items() for name in function_names() if name in cls.functions]


def test_some_functions_have_another_name_than_their_op():
    assert {("top_k", "topk"), ("compare", "gt"), ("compare", "eq")} <= {*OTHER_NAMES}


@pytest.mark.parametrize(("op", "function"), OTHER_NAMES)
def test_the_name_of_an_op_and_that_of_its_function_suggest_each_other(op, function):
    with pytest.raises(AttributeError, match=f"no attribute '{op}'; did you mean .*'{function}'.*, of the op '{op}'"):
        getattr(sg, op)
    with pytest.raises(ValueError, match=f"no op '{function}'; did you mean '{op}', the op of the function {function}"):
        hg.HardLayer(function, "ste")
    with pytest.raises(ValueError, match=f"no op '{function}'; did you mean '{op}'"):
        hg.through("ste", **{function: None}).__enter__()


@pytest.mark.parametrize("name", ["topk", "Topk", "TOPK"])
def test_a_class_in_other_letters_is_suggested(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; did you mean 'TopK'"):
        getattr(hg.ops, name)


def test_a_new_op_has_a_function(tmp_path, monkeypatch):
    text = (ROOT / "surrogates" / "ops" / "round.py").read_text().replace("class Round(", "class Nearest(")
    (tmp_path / "nearest.py").write_text(text)
    monkeypatch.setattr(sg.ops, "__path__", [*sg.ops.__path__, str(tmp_path)])
    for cached in ("stems", "classes"):
        monkeypatch.delitem(vars(OPS), cached, raising=False)
    assert torch.equal(sg.__getattr__("nearest")(X, "ste"), torch.round(X))
    monkeypatch.delattr(sg, "nearest")
    assert isinstance(sg.ops.Nearest(), Op)


def test_a_function_compiles():
    compiled = torch.compile(lambda x: hg.round(x, StraightThrough()), fullgraph=True, backend="eager")
    assert torch.equal(compiled(X), torch.round(X))


def test_hardgrad_shows_the_public_names_and_nothing_else():
    runs = [
        "Comparison",
        "ConfigError",
        "Monitor",
        "Run",
        "RunFailed",
        "SweepRuns",
        "compare",
        "load",
        "options",
        "sweep",
        "train",
    ]
    assert dir(hg) == sorted([*dir(sg), "__version__", *runs])
    assert hg.__all__ == sorted([*sg.__all__, *runs])
    assert hg.HardLayer is sg.HardLayer


def test_hardgrad_and_the_help_of_its_command_import_no_torch():
    code = "import sys, hardgrad; from hardgrad.__main__ import usage; usage(); print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"
