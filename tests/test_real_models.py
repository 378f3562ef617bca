"""Models of other libraries: `through` keeps their values and gives the derivatives of a reference.

The reference of a row is the same model, with the replaced functions written by hand.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

import hardgrad as hg
from real_models import IDENTITY, MODELS, RealModel, alike, first, outcome, release, row

PAGE = (Path(__file__).parents[1] / "docs" / "real_models.md").read_text(encoding="utf-8").splitlines()


class ByHand(TorchFunctionMode):
    """Calls other functions in place of torch's."""

    def __init__(self, functions: dict[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self.functions = functions

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.functions.get(function, function)(*args, **(kwargs or {}))


def with_slope(value: Tensor, carrier: Tensor) -> Tensor:
    """The value with the derivative of the carrier."""
    return value.detach() + (carrier - carrier.detach())


def identity_relu(x: Tensor, inplace: bool = False) -> Tensor:
    return with_slope(x.relu(), x)


def soft_relu(x: Tensor, inplace: bool = False) -> Tensor:
    return with_slope(x.relu(), F.softplus(x))


def soft_hardsigmoid(x: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6: the slopes of softplus(x + 3) and, at that maximum m, of 6 - softplus(6 - m)."""
    m = soft_relu(x + 3)
    return with_slope(m.clamp(max=6), -F.softplus(6 - m)) / 6


def soft_hardswish(x: Tensor, inplace: bool = False) -> Tensor:
    return x * soft_hardsigmoid(x)


def top_two(x: Tensor, k: int, dim: int) -> tuple[Tensor, Tensor]:
    """The slopes of S_1 and S_2 - S_1, S_k = log of the sum over sets of k entries of exp(their sum)."""
    values, chosen = torch.topk(x, k, dim)
    weights = x.exp()
    one, two = weights.sum(-1), (weights.sum(-1) ** 2 - (weights**2).sum(-1)) / 2
    return with_slope(values, torch.stack([one.log(), two.log() - one.log()], -1)), chosen


def half_clamp(x: Tensor, min: float = -torch.inf, max: float = torch.inf) -> Tensor:
    """The slope is 1/2 on a bound."""
    share = ((x > min) * 1.0 + (x >= min)) * ((x < max) * 1.0 + (x <= max)) / 4
    return with_slope(x.clamp(min, max), share * x)


def boxed_masks() -> dict[Any, Callable[..., Any]]:
    """where(a > b, u, v) = m u + (1 - m) v; the mask m has the slope 1/2 by a - b where |a - b| <= 1."""
    numbers: dict[Tensor, Tensor] = {}

    def compare(function: Callable[..., Tensor], sign: int) -> Callable[..., Tensor]:
        def compared(a: Tensor, b: Tensor) -> Tensor:
            mask, gap = function(a, b), a - b
            numbers[mask] = with_slope(mask * 1.0, sign * gap / 2 * (gap.detach().abs() <= 1))
            return mask

        return compared

    def where(mask: Tensor, u: Any, v: Any) -> Tensor:
        return numbers[mask] * u + (1 - numbers[mask]) * v if mask in numbers else torch.where(mask, u, v)

    signs = {Tensor.gt: 1, Tensor.ge: 1, Tensor.lt: -1}
    return {torch.where: where} | {function: compare(function, sign) for function, sign in signs.items()}


REFERENCES: dict[str, dict[Any, Callable[..., Any]]] = {
    "ResNet-18": {F.relu: identity_relu},
    "MobileNetV3": {F.relu: soft_relu, F.hardsigmoid: soft_hardsigmoid, F.hardswish: soft_hardswish},
    "QuantConv2d, QuantLinear": boxed_masks(),
    "FakeQuantizedLinear": {torch.clamp: half_clamp},
    "mixture of experts": {Tensor.topk: top_two},
}


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
    (line,) = (line for line in PAGE if line.startswith(f"| {model.name} |"))
    if release(model) not in line:
        pytest.skip(f"the page was made with another version than {release(model)}")
    assert line == row(model), "make the table again: python tests/real_models.py"


def test_the_page_has_a_row_for_each_model() -> None:
    rows = [line.split(" | ")[0].removeprefix("| ") for line in PAGE if line.startswith("| ") and "`through(" in line]
    assert rows == [model.name for model in MODELS]
