"""through on fake-quant layers of other packages: whole under the new strategy, or hard and reported."""

import importlib
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from doc_blocks import blocks
from torch import Tensor, nn

import hardgrad
from surrogates import convert, through
from surrogates.own_model.replacements import Replacements

X = torch.randn(3, 32, generator=torch.Generator().manual_seed(0))


def torch_ao(kind: str) -> nn.Module:
    ao = importlib.import_module("torch.ao.quantization")
    layer = getattr(ao, kind)(observer=ao.MovingAverageMinMaxObserver, quant_min=0, quant_max=15)
    layer(X)
    return nn.Sequential(nn.Linear(32, 32), nn.ReLU(), layer, nn.Linear(32, 4)).apply(ao.disable_observer)


def torchao() -> nn.Module:
    qat = pytest.importorskip("torchao.quantization.qat")
    weights = qat.IntxFakeQuantizeConfig(torch.int4, group_size=16)
    inputs = qat.IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False)
    return nn.Sequential(qat.FakeQuantizedLinear(32, 4, bias=False, activation_config=inputs, weight_config=weights))


def brevitas() -> nn.Module:
    return nn.Sequential(pytest.importorskip("brevitas.nn").QuantLinear(32, 4, bias=False, weight_bit_width=4))


def run(model: nn.Module, strategy: str | None, **by_op: str) -> tuple[Tensor, Tensor, Replacements]:
    """Value, derivative by the first weight, report."""
    with through(strategy, **by_op) as report:
        y = model(X)
    slope = torch.autograd.grad(y.square().sum(), next(model.parameters()))[0]
    return y.detach(), slope, report


def custom_functions(report: Replacements) -> set[str]:
    """The calls inside custom Functions."""
    return {row.call for row in report.not_replaced if "a custom Function with its own backward" in row.fate}


def test_torch_ao_is_whole() -> None:
    """Case K25."""
    model = torch_ao("FakeQuantize")
    plain = model(X)
    value, _, report = run(model, "ste")
    assert torch.equal(value, plain)
    assert {row.call for row in report.replaced} == {"relu", "fake_quantize_per_tensor_affine"}
    value, _, report = run(model, "smooth")
    assert not torch.equal(value, plain)
    assert not report.not_replaced


def test_what_torchs_own_observer_detaches_is_in_effect() -> None:
    """Before any backward pass."""
    model = torch_ao("FakeQuantize").apply(importlib.import_module("torch.ao.quantization").enable_observer)
    with through("ste") as report:
        model(X)
    assert {row.call for row in report.replaced} == {"relu", "fake_quantize_per_tensor_affine"}


def test_torch_ao_with_its_observer_in_one_call_is_reported() -> None:
    """Case K25: convert replaces this layer."""
    model = torch_ao("FusedMovingAvgObsFakeQuantize")
    _, _, report = run(model, None, round="smooth")
    assert [(row.call, row.fate) for row in report.not_replaced][-1] == (
        "fused_moving_avg_obs_fake_quant",
        "no op; convert replaces the layer of torch.ao that calls it",
    )
    assert {row.call for row in convert(model, "smooth").replaced} == {"ReLU", "FusedMovingAvgObsFakeQuantize"}


# package: model, module and name of its straight-through round, what takes its place
PEERS: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "torchao": (torchao, "torchao.quantization.quant_primitives", "_Round.apply"),
    "brevitas": (brevitas, "brevitas.ops.autograd_ste_ops", "round_ste_impl"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", PEERS)
def test_a_round_in_a_custom_function_stays_hard_and_is_reported(name: str) -> None:
    """Case K25."""
    model = PEERS[name][0]()
    plain = model(X).detach()
    for choice in ({"strategy": "ste"}, {"strategy": None, "round": "smooth", "clamp": "smooth"}):
        value, _, report = run(model, **choice)
        assert torch.equal(value, plain)
        assert "round" in custom_functions(report)
        assert all(row.call != "round" for row in report.replaced)
    assert any("its forward calls" in row.fate for row in convert(model, "ste").not_replaced)


@pytest.mark.nightly
@pytest.mark.parametrize("name", PEERS)
def test_with_torchs_round_in_its_place_the_strategy_takes_effect(name: str) -> None:
    make, module, function = PEERS[name]
    model = make()
    plain = model(X).detach()
    with patch(f"{module}.{function}", torch.round):
        hard, slope, report = run(model, "subgradient")
        soft, soft_slope, _ = run(model, None, round="smooth")
    assert torch.equal(hard, plain)
    assert not torch.equal(soft, plain)
    assert not torch.allclose(slope, soft_slope)
    assert "round" in {row.call for row in report.replaced}
    assert "round" not in custom_functions(report)


@pytest.mark.nightly
@pytest.mark.parametrize("name", PEERS)
def test_the_swap_on_the_page(name: str) -> None:
    page = Path(__file__).parents[1] / "docs" / "own_model.md"
    (block,) = (block for block in blocks(page) if block.language == "py" and f"from {name}." in block.text)
    names = {"model": PEERS[name][0](), "x": X, "hg": hardgrad, "torch": torch, "patch": patch}
    exec(block.text, names)
    assert ("round", "Round() by Smooth()") in {(row.call, row.fate) for row in names["report"].replaced}
    names["loss"].backward()
    assert "round" in {row.call for row in names["report"].replaced}
