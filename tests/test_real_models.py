"""Models of other libraries: `through` keeps their values and gives the derivatives of a reference.

The reference of a model is the same model with the functions of models_by_hand.py.
"""

from pathlib import Path

import pytest
import torch

import hardgrad as hg
from models_by_hand import REFERENCES, ByHand
from real_models import IDENTITY, MODELS, RealModel, alike, first, outcome, release, row

PAGE = Path(__file__).parents[1] / "docs" / "real_models.md"


def lines_of_page() -> list[str]:
    return PAGE.read_text(encoding="utf-8").splitlines()


@pytest.fixture(params=MODELS, ids=lambda model: model.name)
def model(request: pytest.FixtureRequest) -> RealModel:
    if request.param.package:
        pytest.importorskip(request.param.package.replace("-", "_"))
    return request.param


@pytest.mark.nightly
def test_values_are_the_models_own_and_derivatives_those_of_the_reference(model: RealModel) -> None:
    plain, changed = outcome(model), outcome(model, model.block())
    by_hand = outcome(model, ByHand(REFERENCES.get(model.name, {})))
    for block in (model.block(), hg.through("ste"), hg.through("subgradient")):
        assert torch.equal(outcome(model, block).value, plain.value)
    wrong = [name for name, slope in by_hand.derivatives.items() if not alike(slope, changed.derivatives[name])]
    assert not wrong
    differs = [name for name, slope in plain.derivatives.items() if not alike(slope, by_hand.derivatives[name])]
    assert bool(differs) == (model.name in REFERENCES)


@pytest.mark.nightly
def test_convert_keeps_the_values_and_revert_the_modules(model: RealModel) -> None:
    plain = outcome(model)
    torch.manual_seed(0)
    net, x = model.build(), model.draw()
    before = dict(net.named_modules())
    report = hg.convert(net, "ste", relu=IDENTITY)
    assert {row.where for row in report.replaced} == {
        name for name, module in net.named_modules() if name in before and module is not before[name]
    }
    assert torch.equal(first(net(x)), plain.value)
    hg.revert(net)
    assert dict(net.named_modules()) == before


@pytest.mark.nightly
def test_diagnose_names_the_parameters_without_a_gradient(model: RealModel) -> None:
    slopes = outcome(model).derivatives
    torch.manual_seed(0)
    net, x = model.build(), model.draw()
    found = hg.diagnose(net, lambda output: (first(output) * torch.randn(first(output).shape)).sum(), x)
    dead = {name for name, slope in slopes.items() if slope is None or not slope.any()}
    assert set(found.wanted) == dead - {"input"}


@pytest.mark.nightly
def test_the_page_has_the_row(model: RealModel) -> None:
    (line,) = (line for line in lines_of_page() if line.startswith(f"| {model.name} |"))
    if release(model) not in line:
        pytest.skip(f"the page was made with another version than {release(model)}")
    assert line == row(model), "make the table again: python tests/real_models.py"


def test_the_page_has_a_row_for_each_model() -> None:
    rows = [
        line.split(" | ")[0].removeprefix("| ")
        for line in lines_of_page()
        if line.startswith("| ") and "`through(" in line
    ]
    assert rows == [model.name for model in MODELS]
