"""The cheap health of hard layers: what it says, and what it costs."""

import pytest
import torch
from kernel_count import kernels
from torch import nn

from experiments.config.choices import choose
from experiments.config.keys import options
from experiments.measuring.layer_probe import LayerProbe, by_tag
from experiments.stacked.layers import stack
from experiments.training.build import build_model
from runs import CONF, compose, lines, train
from surrogates import HardLayer, hard_layers
from surrogates.ops.clamp import Clamp
from surrogates.strategies.ste import StraightThrough

LIMIT = 8  # kernels a component and logged step
IN_UNIT_SUITE = ("quantized_activation", "hard_max", "spike", "quantized_weight")
COMPONENTS = [
    pytest.param(name, marks=[] if name in IN_UNIT_SUITE else pytest.mark.slow)
    for name in options(CONF, "component")
    if name not in ("identity", "relu", "hard_max_pool")  # no hard layer; images only
]
SMALL = ("model.width=8", "model.depth=1", "data=digits")


def model_of(component, *overrides):
    return build_model(choose(compose(f"component={component}", *SMALL, *overrides)))


def loss_of(model, replicas=1):
    x = torch.randn(16, 1, 8, 8, generator=torch.Generator().manual_seed(0)).repeat(replicas, 1, 1, 1)
    y = (torch.arange(16) % 10).repeat(replicas)
    return nn.functional.cross_entropy(model(x), y)


def read(probe, make_loss):
    """The tags of every replica of one step."""
    with probe.watching():
        loss = make_loss()
    loss.backward()
    readings = probe.measure()
    rows = torch.stack([row for reading in readings for row in reading.sums.values()], dim=1).tolist()
    return [by_tag(readings, row) for row in rows]


@pytest.mark.parametrize("replicas", [1, 3], ids=["single", "stacked"])
@pytest.mark.parametrize("component", COMPONENTS)
def test_a_logged_step_costs_at_most_eight_kernels_a_component(component, replicas):
    models = [model_of(component) for _ in range(replicas)]
    model = models[0] if replicas == 1 else stack(models)
    probe = LayerProbe(model, replicas)

    def plain():
        loss_of(model, replicas).backward()

    def watched():
        with probe.watching():
            loss = loss_of(model, replicas)
        loss.backward()
        probe.measure()

    watched()
    before, with_probe = len(kernels(plain)), len(kernels(watched))
    assert 0 < with_probe - before <= LIMIT * len(hard_layers(model))


def test_the_count_of_kernels_sees_work_and_no_views():
    x = torch.ones(4, 4)
    assert kernels(lambda: x.view(16).unsqueeze(0).double().exp().neg()) == ["aten::copy_", "aten::exp", "aten::neg"]


def test_ratio_and_slope_are_those_of_the_gradients_at_the_layer():
    model = model_of("quantized_activation", "strategy=smooth")
    probe = LayerProbe(model)
    (tags,) = read(probe, lambda: loss_of(model))
    layer = model.blocks[0].component.quantize
    seen = {}
    layer.register_forward_hook(lambda module, inputs, output: seen.update(given=inputs[0], output=output))
    loss = loss_of(model)
    given, output = torch.autograd.grad(loss, [seen["given"], seen["output"]])
    (slopes,) = torch.autograd.grad(
        layer.acting(layer.op, seen["given"], T=layer.temperature).sum(), seen["given"]
    )  # of an elementwise op: the sum's gradient
    name = "op/blocks.0.component.quantize"
    assert tags[f"{name}/grad_ratio"] == pytest.approx(float(given.norm() / output.norm()), rel=1e-5)
    assert tags[f"{name}/effective_slope"] == pytest.approx(
        float((slopes * output**2).sum() / (output**2).sum()), rel=1e-4
    )


def test_identity_has_slope_one_and_a_derivative_of_zero_is_seen():
    layer = HardLayer(Clamp(-1.0, 1.0), StraightThrough(carrier="identity"))
    x = torch.tensor([0.5, 3.0], requires_grad=True)
    (tags,) = read(LayerProbe(layer), lambda: layer(x).square().sum())
    assert (tags["op//effective_slope"], tags["op//grad_ratio"]) == (1.0, 1.0)
    dead = model_of("binary", "strategy=subgradient")
    (tags,) = read(LayerProbe(dead), lambda: loss_of(dead))
    name = "op/blocks.0.component.sign"
    assert [tags[f"{name}/{key}"] for key in ("grad_in_norm", "grad_ratio", "effective_slope")] == [0, 0, 0]
    assert tags[f"{name}/zero_gradient_fraction"] == 1.0
    assert tags[f"{name}/grad_out_norm"] > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_bound_of_the_range_is_not_outside(dtype):
    low, high = -0.1, 0.7
    below, above = (torch.tensor(bound, dtype=dtype) for bound in (low, high))
    x = torch.stack([below, above, below - 1, above + 1, (below + above) / 2]).requires_grad_()
    layer = HardLayer(Clamp(low, high), StraightThrough())
    probe = LayerProbe(layer)
    (tags,) = read(probe, lambda: layer(x).sum())
    outside = ((x < low) | (x > high)).double().mean()
    assert tags["op//saturated_fraction"] == pytest.approx(float(outside))


def test_all_applications_of_a_layer_count_together_and_hooks_are_gone():
    layer = HardLayer(Clamp(-1.0, 1.0), StraightThrough())
    x = torch.tensor([0.5, 3.0], requires_grad=True)
    probe = LayerProbe(layer)
    (tags,) = read(probe, lambda: (2 * layer(x) + 3 * layer(x + 5)).sum())
    assert tags["op//grad_out_norm"] == pytest.approx((2 * 4 + 2 * 9) ** 0.5)
    assert tags["op//saturated_fraction"] == 0.75
    x.sum().backward()
    assert not x._backward_hooks
    assert probe.measure() == []


def test_a_tiny_gradient_is_not_zero():
    layer = HardLayer(Clamp(-1.0, 1.0), StraightThrough())
    x = torch.tensor([0.5, 0.25], requires_grad=True)
    (tags,) = read(LayerProbe(layer), lambda: (1e-30 * layer(x)).sum())
    assert tags["op//grad_in_norm"] == pytest.approx(2**0.5 * 1e-30, rel=1e-5)
    assert (tags["op//zero_gradient_fraction"], tags["op//effective_slope"]) == (0.0, pytest.approx(1.0))


def test_the_gap_is_that_of_the_layers_outputs(tmp_path):
    """A strategy with a hard value has none; a colder smooth one is nearer to the hard op."""
    short = (*SMALL, "max_steps=2", "eval_every=1")
    tag = "op/blocks.0.component.quantize/soft_hard_gap"
    hard = lines(train(tmp_path / "ste", *short, "strategy=ste").folder)
    assert tag not in hard[-1]
    found = [
        lines(train(tmp_path / T, *short, "strategy=smooth", f"strategy.temperature={T}").folder)[0][tag]
        for T in ("1.0", "0.1")
    ]
    assert 0 < found[1] < found[0] < 1
