"""A model made low-bit in one call, against the same model made by hand."""

import copy
import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hardgrad as hg
from surrogates.layers.quantized_activation import QuantizedActivation
from surrogates.layers.quantized_weight import QuantizedWeight

BATCH = torch.randn(5, 2, 6, 6, generator=torch.Generator().manual_seed(0))


def net(seed: int = 0) -> nn.Sequential:
    """Two layers between the first and the last: one behind a relu, one with negative inputs."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3),
        nn.Flatten(),
        nn.LayerNorm(24),
        nn.Linear(24, 8),
        nn.GELU(),
        nn.Linear(8, 3),
    )


def by_hand(model: nn.Sequential, strategy: str, bits: int) -> nn.Sequential:
    for name, low in (("3", 0.0), ("6", -1.0)):
        layer = model.get_submodule(name)
        QuantizedWeight(strategy, bits=bits).prepare(layer)
        activation = QuantizedActivation(strategy, bits=bits, range="learned_step", low=low)
        model.set_submodule(name, nn.Sequential(activation, layer))
    hg.calibrate(model, BATCH)
    return model


def trained(model: nn.Module, x: Tensor) -> list[Tensor]:
    """The loss of two steps, and all parameters after them, in an order that does not depend on their names."""
    losses = []
    for step in range(2):
        hg.key_noise(model, seed=0, step=step)
        loss = model(x).square().sum()
        parameters = list(model.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.data -= 0.1 * gradient
        losses.append(loss.detach())
    return losses + sorted(model.parameters(), key=lambda p: (p.numel(), p.flatten()[0].item()))


@pytest.mark.parametrize("strategy", ["ste", "smooth", "subgradient"])
@pytest.mark.parametrize("bits", [1, 4])
def test_it_is_the_model_made_by_hand_bit_for_bit(strategy: str, bits: int) -> None:
    one_call, hand = net(), by_hand(net(), strategy, bits)
    hg.quantize_model(one_call, strategy, BATCH, weight_bits=bits, activation_bits=bits)
    for a, b in zip(trained(one_call, BATCH), trained(hand, BATCH), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(one_call.eval()(BATCH), hand.eval()(BATCH))


def test_weights_and_inputs_have_the_given_number_of_values() -> None:
    model, seen = net(), {}
    hg.quantize_model(model, "ste", BATCH, weight_bits=2, activation_bits=3)
    for name in ("3", "6"):
        layer = model.get_submodule(name)
        layer.register_forward_pre_hook(lambda _, inputs, name=name: seen.update({name: inputs[0]}))
        assert all(len(channel.unique()) <= 4 for channel in layer.weight.flatten(1))
        assert len(layer.weight.unique()) > 4
    model(BATCH)
    assert all(4 < len(x.unique()) <= 8 for x in seen.values())
    assert seen["3"].min() == 0 > seen["6"].min()


def test_the_report_names_what_was_quantized_and_what_was_not() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.last, self.first = nn.Embedding(7, 4), nn.Linear(4, 2), nn.Linear(4, 4)
            self.middle, self.spare, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.middle(self.first(self.norm(self.words(x)))).relu())

    model = Net()
    before = dict(model.named_modules())
    report = hg.quantize_model(model, "ste", torch.arange(7), activation_bits=None)
    assert [row[::2] for row in report.replaced] == [("Linear", "middle")]
    assert [row.fate for row in report.replaced] == ["4-bit weight"]
    assert {row.where: row.fate for row in report.not_replaced} == {
        "first": "the first layer to run",
        "last": "the last layer to run",
        "spare": "did not run on the batch",
        "words": "neither linear nor convolutional",
    }
    assert all(model.get_submodule(name) is module for name, module in before.items())


def test_the_ends_and_the_skipped_layers_keep_full_precision() -> None:
    everything = hg.quantize_model(net(), "ste", BATCH, keep_ends=False)
    assert [row.where for row in everything.replaced] == ["0", "3", "6", "8"]
    report = hg.quantize_model(net(), "ste", BATCH, keep_ends=False, skip=["0", "[67]"], weight_bits=None)
    assert [(row.where, row.fate) for row in report.replaced] == [
        ("3", "4-bit unsigned input"),
        ("8", "4-bit signed input"),
    ]
    assert hg.quantize_model(nn.Linear(36, 2), "ste", BATCH.flatten(2)[0], keep_ends=False).replaced


def test_it_changes_no_statistics_mode_or_other_calibrated_layer() -> None:
    model = nn.Sequential(*net(), QuantizedActivation("ste", range="learned_step", high=0.25))
    model[1].eval()
    statistics, step = model[1].running_mean.clone(), model[-1].step.item()
    hg.quantize_model(model, "ste", BATCH)
    assert torch.equal(model[1].running_mean, statistics)
    assert model[-1].step.item() == step
    assert [module.training for module in (model, model[1], model[3].quantized_input)] == [True, False, True]
    assert not hg.quantize_model(net().eval(), "ste", BATCH).not_replaced.keys() & {"3", "6"}


def test_copies_files_and_exports_carry_everything() -> None:
    model = net()
    hg.quantize_model(model, "ste", BATCH)
    fresh = net(seed=1)
    hg.quantize_model(fresh, "ste", BATCH)
    stream = io.BytesIO()
    torch.save(model.state_dict(), stream)
    stream.seek(0)
    fresh.load_state_dict(torch.load(stream, weights_only=True))
    expected = model.eval()(BATCH)
    assert torch.equal(fresh.eval()(BATCH), expected)
    assert torch.equal(copy.deepcopy(model)(BATCH), expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight_bits": 0}, "bits must be a whole number between 1 and 16, got 0"),
        ({"activation_bits": 17}, "bits must be a whole number between 1 and 16, got 17"),
        ({"weight_bits": None, "activation_bits": None}, "weight_bits and activation_bits are both None"),
        ({"skip": "33"}, "skip='33' fits no layer; did you mean '3'.; layers: 0, 3, 6, 8"),
        ({"skip": "*"}, "no layer is left to quantize [(]0: skipped; 3: skipped"),
        ({"strategy": "gumbel_rao"}, "gumbel_rao needs an op that picks one"),
        ({"strategy": "stee"}, "did you mean 'ste'"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_the_model(options: dict[str, Any], message: str) -> None:
    model = net()
    before = repr(model)
    with pytest.raises(ValueError, match=message):
        hg.quantize_model(model, **{"strategy": "ste", "batch": BATCH, **options})
    assert repr(model) == before


def test_a_model_is_quantized_once() -> None:
    model = net()
    hg.quantize_model(model, "ste", BATCH, weight_bits=None)
    with pytest.raises(ValueError, match=r"layer '3' is quantized .* already; skip it, or quantize a fresh model"):
        hg.quantize_model(model, "ste", BATCH)
    with pytest.raises(ValueError, match="the model has no linear or convolutional layer"):
        hg.quantize_model(nn.ReLU(), "ste", BATCH)


def test_a_layer_given_to_a_component_is_refused_with_what_to_call() -> None:
    with pytest.raises(TypeError, match=r"the layer Linear; QuantizedWeight\(...\).prepare\(layer\).*quantize_model"):
        QuantizedWeight("ste")(nn.Linear(2, 3))
