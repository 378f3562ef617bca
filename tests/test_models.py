"""Models: any component, any data set's shape, and sizes that do not fit are said."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from experiments.config.choices import ConfigError, choose
from experiments.training.build import build_model
from runs import CONF, compose
from surrogates import EmptyCell

SHAPES = {"digits": (1, 8, 8), "mnist1d": (1, 40), "fashion_mnist": (1, 28, 28), "mnist": (1, 28, 28)}
SHAPES |= {"cifar10": (3, 32, 32), "fake": (1, 8, 8)}
MODELS = sorted(path.stem for path in (CONF / "model").iterdir())
COMPONENTS = sorted(path.stem for path in (CONF / "component").iterdir())


def test_every_data_set_has_a_shape_here():
    assert sorted(SHAPES) == sorted(path.stem for path in (CONF / "data").iterdir())
    for data, shape in SHAPES.items():
        assert tuple(choose(compose(f"data={data}")).data.input_shape) == shape


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("data", sorted(SHAPES))
def test_logits_for_every_component_on_every_shape(model, data):
    base, count = choose(compose(f"model={model}", f"data={data}", "model.width=4")), 0
    x = torch.randn(3, *SHAPES[data], generator=torch.Generator().manual_seed(0))
    for component in COMPONENTS:
        takes_k = component.startswith("hard_") or component == "k_winners"
        fan_in = ["component.k=2"] if takes_k else []  # a unit on a signal has three inputs only
        choices = replace(base, component=choose(compose(f"component={component}", *fan_in)).component)
        if (model, component) == ("mlp", "hard_max_pool"):
            with pytest.raises(EmptyCell, match="use model=cnn"):
                build_model(choices)
            continue
        made = build_model(choices)
        for training in (True, False):
            logits = made.train(training)(x)
            assert logits.shape == (3, 10)
            assert logits.dtype == torch.float32
            assert logits.isfinite().all()
        count += 1
    assert count == len(COMPONENTS) - (model == "mlp")


def width_of(component, **options):
    overrides = [f"component.{key}={value}" for key, value in options.items()]
    return build_model(choose(compose(f"component={component}", *overrides, "model.width=6", "model.depth=1")))


def test_a_block_makes_a_layer_a_branch_as_wide_as_the_component_asks():
    assert width_of("floor").blocks[0].values.out_features == 6
    assert width_of("hard_max", k=3).blocks[0].values.out_features == 18
    gate = width_of("hard_gate", k=5).blocks[0]
    assert (gate.values.out_features, gate.logits.out_features) == (30, 30)
    assert dict(gate.named_children()).keys() >= {"values", "logits", "component"}
    assert width_of("hard_max").readout.in_features == 6


def test_batch_norm_is_there_if_asked_for():
    for model, kind in (("mlp", nn.BatchNorm1d), ("cnn", nn.BatchNorm2d)):
        made = build_model(choose(compose(f"model={model}", "model.batch_norm=true", "component=hard_gate")))
        assert sum(isinstance(module, kind) for module in made.modules()) == 4  # two blocks of two branches
        plain = build_model(choose(compose(f"model={model}", "component=hard_gate")))
        assert not any(isinstance(module, kind) for module in plain.modules())
    signals = build_model(choose(compose("model=cnn", "data=mnist1d", "model.batch_norm=true")))
    assert any(isinstance(module, nn.BatchNorm1d) for module in signals.modules())


def test_each_block_of_a_cnn_halves_space_whatever_pools():
    for component in ("floor", "hard_max_pool"):
        for data, left in (("digits", 4), ("mnist1d", 10), ("cifar10", 64)):
            overrides = (f"component={component}", f"data={data}", "model=cnn", "model.width=4")
            assert build_model(choose(compose(*overrides))).readout.in_features == 4 * left


def test_sizes_that_do_not_fit_are_said():
    for overrides, words in [
        (["model=cnn", "model.depth=4"], r"inputs of shape \(1, 8, 8\) are too small for model\.depth=4"),
        (["model=cnn", "data=mnist1d", "model.depth=6"], r"shape \(1, 40\) are too small for model\.depth=6"),
        (["component=hard_max", "component.k=65"], r"component\.k=65 is larger than the 64 inputs of a unit"),
        (["component=hard_gate", "model.width=2", "component.k=3"], r"component\.k=3 is larger than the 2 inputs"),
        (["model=cnn", "component=hard_max", "component.k=10"], r"component\.k=10 is larger than the 9 inputs"),
        (["batch_size=1", "model.batch_norm=true"], "batch_size=1 is too small"),
    ]:
        with pytest.raises(ConfigError, match=words):
            build_model(choose(compose(*overrides)))


def test_initial_weights_follow_torchs_rule():
    """U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for weights and biases of linear and conv layers."""
    for overrides, fan_in in ((["model.width=300"], 64), (["model=cnn", "model.width=300"], 9)):
        layer = build_model(choose(compose(*overrides))).blocks[0].values
        bound = fan_in**-0.5
        for value in (layer.weight.detach(), layer.bias.detach()):
            assert value.abs().max() <= bound
            assert value.abs().max() > 0.97 * bound
        assert float(layer.weight.detach().std()) == pytest.approx(bound / 3**0.5, rel=0.05)
