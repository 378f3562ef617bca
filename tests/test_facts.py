"""What a result says of its model and data: classes, parameters, and the layers that decide."""

from pathlib import Path

import pytest
import torch

from each import each
from experiments.measuring.facts import decides, is_exact
from experiments.training.loading import load
from products import OPS, generator, sample
from runs import ROOT, command, read
from surrogates import HardLayer
from surrogates.ops.max import Max

FACTS = ("classes", "parameters", "deciding_layers", "exact")


@each("op", OPS)
def test_an_op_decides_if_its_value_moves_in_jumps_only(op):
    """Against the value itself, all inputs moved a little: decisions stay as they are."""
    x = sample(op, (16, 8))
    moved = [value + 1e-9 * torch.randn(value.shape, generator=generator(1), dtype=value.dtype) for value in x]
    assert decides(op, *x) == torch.equal(op.hard(*x), op.hard(*moved))


@pytest.mark.parametrize(
    ("op", "strategy", "expected"),
    [("max", "subgradient", True), ("max", "rewrite", True), ("max", "ste", False), ("round", "rewrite", False)],
)
def test_training_is_exact_with_the_ops_own_value_and_derivative(op, strategy, expected):
    """The two strategies named exact have equal values and gradients, where nothing ties."""
    layer = HardLayer(op, strategy)
    assert is_exact(layer) is expected
    if expected:
        x = sample(Max(), (16, 8))[0].requires_grad_()
        own = HardLayer(op, "subgradient")
        assert torch.allclose(layer(x), own(x))
        (first,), (second,) = (torch.autograd.grad(one(x).square().sum(), x) for one in (layer, own))
        assert torch.allclose(first, second)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("component", "layers"), [("floor", ["blocks.0.component.floor", "blocks.1.component.floor"]), ("hard_max", [])]
)
def test_a_result_names_them(shared, component, layers):
    run = shared(f"component={component}", "max_steps=2", "model.width=8", "eval_every=1", "log_every=1")
    result = read(run / "result.json")
    assert list(result)[-4:] == list(FACTS)
    assert result["classes"] == 10
    assert result["parameters"] == sum(parameter.numel() for parameter in load(run).parameters())
    assert result["deciding_layers"] == layers


@pytest.mark.slow
def test_a_stack_records_what_each_run_alone_would(tmp_path):
    own = ("component=quantized_weight", "max_steps=2", "model.width=8", "eval_every=2", "seed=0,1")
    found = []
    for engine in ("single", "stacked"):
        arguments = ("-m", *own, f"engine={engine}", "hydra/launcher=stacked", f"hydra.sweep.dir={engine}")
        assert command(*arguments, cwd=tmp_path).code == 0
        results = [read(path) for path in sorted((tmp_path / engine).rglob("result.json"))]
        found.append([{key: result[key] for key in FACTS} for result in results])
    assert len(found[0]) == 2
    assert found[0] == found[1]
    assert found[0][0]["deciding_layers"] == ["blocks.0.values.weight.quantize", "blocks.1.values.weight.quantize"]


def test_the_design_lists_every_key_of_a_result(shared):
    run = shared("component=floor", "max_steps=2", "model.width=8", "eval_every=1", "log_every=1")
    (row,) = [line for line in Path(ROOT / "docs/design.md").read_text().splitlines() if "| `result.json` |" in line]
    assert all(f"`{key}`" in row for key in read(run / "result.json"))
