"""convert: modules against the surrogate calls written by hand, what is kept, what is reported, and the way back."""

import copy
import io
import math
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.ao.quantization as ao
import torch.nn.functional as F
from test_through import by_default
from torch import Tensor, nn

from each import each
from products import generator, gradients, same
from surrogates import EmptyCell, HardLayer, anneal, convert, hard_layers, key_noise, mode, revert, through
from surrogates.core import Strategy
from surrogates.ops.clamp import Clamp
from surrogates.ops.heaviside import Heaviside
from surrogates.ops.max import Max
from surrogates.ops.maximum import Maximum
from surrogates.ops.minimum import Minimum
from surrogates.ops.relu import ReLU
from surrogates.ops.round import Round
from surrogates.own_model.converted import Converted
from surrogates.own_model.modules import kinds
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

STE = StraightThrough(temperature=0.7)
SOFT = Smooth(temperature=0.4, schedule="constant", final_temperature=None)
SUB = Subgradient()
X = 1.7 * torch.randn(2, 3, 6, 8, generator=generator(0), dtype=torch.float64)


def fake(**kwargs: object) -> nn.Module:
    """A fake-quant layer as torch.ao makes it, its observer switched off after one batch."""
    kwargs = {"observer": ao.MovingAverageMinMaxObserver, "quant_min": 0, "quant_max": 15, **kwargs}
    kind = kwargs.pop("kind", ao.FakeQuantize)
    layer = kind(**kwargs)
    layer(X.float())
    return layer.apply(ao.disable_observer)


def step(s: Strategy, x: Tensor) -> Tensor:
    return s(Heaviside(zero=0.0), x)


def windows(x: Tensor) -> Tensor:
    x = F.pad(x, (1, 1, 1, 1), value=-torch.inf)
    return x.unfold(2, 3, 2).unfold(3, 3, 2).flatten(4)


def clip(s: Strategy, x: Tensor, low: float, high: float) -> Tensor:
    return s(Minimum(), s(Maximum(), x, torch.full_like(x, low)), torch.full_like(x, high))


def codes(s: Strategy, x: Tensor, layer: nn.Module, bits: int, low: int) -> Tensor:
    scale, zero = layer.scale, layer.zero_point
    if layer.is_per_channel:
        scale, zero = scale.reshape(1, -1, 1, 1), zero.reshape(1, -1, 1, 1)
    return (clip(s, s(Round(), x / scale) + zero, low, low + 2**bits - 1) - zero) * scale


PER_CHANNEL = {
    "observer": ao.MovingAveragePerChannelMinMaxObserver, "ch_axis": 1, "qscheme": torch.per_channel_symmetric,
    "dtype": torch.qint8, "quant_min": -8, "quant_max": 7,
}  # fmt: skip
CASES: dict[str, tuple[Callable[[], nn.Module], Callable[..., Tensor]]] = {
    "ReLU": (nn.ReLU, lambda s, x, m: s(ReLU(), x)),
    "ReLU in place": (lambda: nn.ReLU(inplace=True), lambda s, x, m: s(ReLU(), x)),
    "ReLU6": (nn.ReLU6, lambda s, x, m: clip(s, x, 0.0, 6.0)),
    "Hardtanh": (lambda: nn.Hardtanh(-2, 0.5), lambda s, x, m: clip(s, x, -2.0, 0.5)),
    "Hardsigmoid": (nn.Hardsigmoid, lambda s, x, m: clip(s, x, -3.0, 3.0) / 6 + 0.5),
    "Hardswish": (nn.Hardswish, lambda s, x, m: x * (clip(s, x, -3.0, 3.0) / 6 + 0.5)),
    "Hardshrink": (lambda: nn.Hardshrink(0.4), lambda s, x, m: x * (step(s, x - 0.4) + step(s, -x - 0.4))),
    "Softshrink": (lambda: nn.Softshrink(0.4), lambda s, x, m: x - clip(s, x, -0.4, 0.4)),
    "LeakyReLU": (lambda: nn.LeakyReLU(0.2), lambda s, x, m: 0.2 * x + 0.8 * s(ReLU(), x)),
    "PReLU": (
        lambda: nn.PReLU(3).double(),
        lambda s, x, m: m.weight.reshape(3, 1, 1) * x + (1 - m.weight.reshape(3, 1, 1)) * s(ReLU(), x),
    ),
    "Threshold": (lambda: nn.Threshold(0.1, 0.2), lambda s, x, m: 0.2 + step(s, x - 0.1) * (x - 0.2)),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, 2, 1), lambda s, x, m: s(Max(), windows(x))),
    "MaxPool1d": (
        lambda: nn.Sequential(nn.Flatten(2), nn.MaxPool1d(2)),
        lambda s, x, m: s(Max(), x.flatten(2).unflatten(2, (-1, 2))),
    ),
    "FakeQuantize": (fake, lambda s, x, m: codes(s, x, m, 4, 0)),
    "FakeQuantize by channel": (lambda: fake(**PER_CHANNEL), lambda s, x, m: codes(s, x, m, 4, -8)),
    "FusedMovingAvgObsFakeQuantize": (
        lambda: fake(kind=ao.FusedMovingAvgObsFakeQuantize, quant_max=255),
        lambda s, x, m: codes(s, x, m, 8, 0),
    ),
}


@pytest.mark.parametrize("s", [SUB, STE, SOFT], ids=lambda s: type(s).__name__)
@each("name", CASES)
def test_each_module_is_the_surrogate_call(name: str, s: Strategy) -> None:
    make, reference = CASES[name]
    x = X.float() if "Fake" in name else X
    module = make()
    model = nn.Sequential(module)
    with torch.no_grad():
        plain = model(x.clone())
    report = convert(model, s, empty="raise")
    assert sum(report.replaced.values()) == 1, report
    assert not report.not_replaced
    value = model(x.clone().requires_grad_() * 1)
    if s.soft_forward:
        torch.testing.assert_close(value, reference(s, x, module))
    else:
        assert same(value, plain)
    weight = torch.randn(plain.shape, generator=generator(3), dtype=torch.float64).to(x.dtype)
    got = gradients(lambda x: model(x * 1), [x], weight)[0]
    right = gradients(lambda x: reference(by_default(s), x, module), [x], weight)[0]
    torch.testing.assert_close(got, right)
    for evaluated in (model.eval(), model.train()):
        with mode(model, "hard"):
            assert same(evaluated(x.clone()), plain)
    with mode(model.eval(), "strategy"):
        assert same(model(x.clone()), value.detach())
    revert(model)
    assert model[0] is module
    assert same(model(x.clone()).detach(), plain)


def test_the_table_is_covered() -> None:
    assert {kind.__name__ for kind in kinds()} == {name.split()[0] for name in CASES}


class Net(nn.Module):
    """One activation in two places, pooling, a branch that is no hard module, one with a forward of its own."""

    def __init__(self) -> None:
        super().__init__()
        act = nn.ReLU()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), act)
        self.body = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), act, nn.MaxPool2d(2), nn.Hardswish())
        self.head = nn.Sequential(nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(4, 2), Own(), nn.PReLU())

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(self.stem(x)))
        return out


class Own(nn.ReLU):
    """A rectifier with a forward of its own."""

    def forward(self, input: Tensor) -> Tensor:
        return 2 * F.relu(input)


def net() -> Net:
    torch.manual_seed(0)
    return Net().double()


def test_the_report_names_what_was_converted_and_what_not() -> None:
    model = net()
    report = convert(model, STE, max=STE, clamp=None)
    assert {(row.call, row.where, row.fate) for row in report.replaced} == {
        ("ReLU", "stem.2", "ReLU() by Subgradient()"),
        ("MaxPool2d", "body.2", "Max() by StraightThrough(temperature=0.7)"),
        ("PReLU", "head.4", "ReLU() by Subgradient()"),
    }
    assert {(row.call, row.where, row.fate) for row in report.not_replaced} == {
        ("Hardswish", "body.3", "no strategy chosen"),
        ("AdaptiveMaxPool2d", "head.0", "not supported"),
        ("Own", "head.3", "not supported"),
    }
    assert "body.2  Max() by StraightThrough(temperature=0.7)" in str(report)
    assert not convert(model, STE, types=nn.Conv2d).replaced
    assert model.stem[2] is model.body[1]  # shared still


class RoundSte(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return torch.round(x)

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return gradient


def weight_codes(w: Tensor) -> Tensor:
    scale = w.abs().mean()
    return torch.clamp((w / scale).round(), -1, 1) * scale


class BitLinear(nn.Linear):
    """A linear layer with ternary weights, by a function, and rounded inputs, by a method and a custom Function."""

    def forward(self, input: Tensor) -> Tensor:
        weight = self.weight + (weight_codes(self.weight) - self.weight).detach()
        return F.linear(self.codes(input), weight, self.bias)

    def codes(self, x: Tensor) -> Tensor:
        return RoundSte.apply(torch.div(x, 0.25)) * 0.25


class Head(nn.Module):
    """No hard call: a division without rounding, and functions that are not torch's."""

    def forward(self, x: Tensor) -> Tensor:
        steps = max(1, math.floor(2.5))
        return torch.div(x.softmax(-1), round(steps))


def test_a_hard_call_in_a_forward_is_reported() -> None:
    """Case K25: named with its line, in the model itself and below."""
    model = nn.Sequential(BitLinear(2, 3), nn.ReLU(), Head(), nn.BatchNorm1d(3), HardLayer("round", "ste"))
    report = convert(model, STE)
    ((call, fate, where),) = report.not_replaced
    assert (call, where) == ("BitLinear", "0")
    assert fate.startswith("its forward calls ")
    assert fate.endswith("; surrogates.through replaces calls")
    lines = Path(__file__).read_text().splitlines()
    found = re.findall(r"(\w+) at test_convert.py:(\d+)", fate)
    assert {name for name, _ in found} == {"abs", "clamp", "round"}
    assert all(name in lines[int(line) - 1] for name, line in found)
    root = convert(Around(nn.ReLU()), STE)
    assert {(row.call, row.where) for row in root.not_replaced} == {("Around", "the model itself")}


class Around(nn.Sequential):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).floor()


def test_a_forward_without_source_is_passed_over() -> None:
    names: dict[str, type[nn.Module]] = {"Module": nn.Module}
    exec("class Typed(Module):\n    def forward(self, x): return x.round()", names)
    assert not convert(nn.Sequential(names["Typed"](), nn.ReLU()), STE).not_replaced


def test_selection_by_type_name_and_filter() -> None:
    def converted(**kwargs: object) -> set[str]:
        model = net()
        report = convert(model, STE, **kwargs)
        assert {row.fate for row in report.not_replaced} <= {"not selected", "not supported"}
        return {row.where for row in report.replaced}

    assert converted(types=nn.ReLU) == {"stem.2"}
    assert converted(types=(nn.ReLU, nn.MaxPool2d)) == {"stem.2", "body.2"}
    assert converted(names="body.*") == {"body.2", "body.3"}  # the shared one has the name of its first place
    assert converted(names=["*.2", "head.4"]) == {"stem.2", "body.2", "head.4"}
    assert converted(filter=lambda name, module: "2" in name, types=nn.MaxPool2d) == {"body.2"}
    with pytest.raises(ValueError, match=r"names='tail\.\*'"):
        convert(net(), STE, names="tail.*")
    with pytest.raises(ValueError, match="Linear has no modules inside"):
        convert(nn.Linear(1, 1), STE)
    with pytest.raises(ValueError, match=r"ReLU has no parent.*nn.Sequential"):
        convert(nn.ReLU(), STE)
    with pytest.raises(ValueError, match="no op 'reul'; did you mean 'relu'"):
        convert(net(), STE, reul=SUB)


def test_names_parameters_buffers_hooks_and_mode_are_kept() -> None:
    model = net().eval()
    keys, parameters = list(model.state_dict()), dict(model.named_parameters())
    saved = copy.deepcopy(model.state_dict())
    originals = dict(model.named_modules())
    seen: list[str] = []
    handle = model.stem[2].register_forward_hook(lambda module, inputs, output: seen.append("before"))
    convert(model, SOFT)
    assert isinstance(model.stem[2], Converted)
    assert list(model.state_dict()) == keys
    assert all(model.state_dict()[key] is not None for key in keys)
    assert dict(model.named_parameters()).keys() == parameters.keys()
    assert all(parameters[name] is p for name, p in model.named_parameters())
    assert {layer.mode for layer in hard_layers(model).values()} == {"hard"}
    model.load_state_dict(saved)
    model.stem[2].register_forward_hook(lambda module, inputs, output: seen.append("after"))
    model.train()(X)
    assert seen == ["before", "after"] * 2  # in both of its places
    handle.remove()
    model(X)
    assert seen == ["before", "after"] * 2 + ["after"] * 2
    model.float()
    revert(model)
    assert {name: module for name, module in model.named_modules()} == originals
    assert all(module.training for module in model.modules())
    assert all(p.dtype == torch.float32 for p in model.parameters())
    model(X.float())
    assert seen[-2:] == ["after"] * 2


def test_copies_pickles_and_checkpoints() -> None:
    model = net()
    convert(model, SOFT)
    stream = io.BytesIO()
    torch.save(model, stream)
    stream.seek(0)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(stream, weights_only=False)):
        assert torch.equal(twin(X), model(X))
        revert(twin)
        with mode(model, "hard"):
            assert torch.equal(twin(X), model(X))


def test_a_hard_layer_that_was_exchanged_saves_and_loads_its_temperature() -> None:
    model = nn.Sequential(nn.ReLU())
    convert(model, SUB)
    model[0].hard[0] = HardLayer(ReLU(), Smooth(temperature=1.0, schedule="linear", final_temperature=0.1))
    twin = copy.deepcopy(model)
    anneal(model, 0.5)
    twin.load_state_dict(model.state_dict())
    assert torch.equal(twin(X), model(X))


def test_annealing_and_noise_act_on_converted_modules() -> None:
    model = nn.Sequential(nn.ReLU())
    convert(model, Smooth(temperature=1.0, schedule="linear", final_temperature=0.1))
    anneal(model, 0.5)
    torch.testing.assert_close(model(X), SOFT(ReLU(), X, T=0.55), rtol=1e-6, atol=1e-6)
    layer = fake()
    model = nn.Sequential(layer)
    convert(model, Rewrite())
    key_noise(model, 1, 2)
    first = model(X.float())
    assert not torch.equal(model(X.float()), first)
    key_noise(model, 1, 2)
    assert torch.equal(model(X.float()), first)


def test_an_observer_goes_on_and_a_switched_off_layer_passes() -> None:
    model = nn.Sequential(ao.FakeQuantize(observer=ao.MovingAverageMinMaxObserver, quant_min=0, quant_max=15))
    twin = copy.deepcopy(model)
    convert(model, STE)
    for batch in (X.float(), 3 * X.float()):
        assert same(model(batch), twin(batch))
    assert torch.equal(model[0].scale, twin[0].scale)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), twin.state_dict().values(), strict=True))
    model[0].fake_quant_enabled[0] = 0
    x = X.float().requires_grad_()
    assert torch.equal(model(x), x)
    assert torch.autograd.grad(model(x).sum(), x)[0].eq(1).all()


def test_a_prepared_model_of_torch_ao() -> None:
    """The fake-quant layers that torch.ao puts on weights and activations, found inside its own layers."""
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
    model.qconfig = ao.get_default_qat_qconfig("fbgemm", version=0)
    ao.prepare_qat(model.train(), inplace=True)
    model(X[0, 0].float())
    before = model(X[0, 0].float())
    report = convert(model, STE, types=ao.FakeQuantize)
    assert {row.where for row in report.replaced} >= {"0.weight_fake_quant", "0.activation_post_process"}, report
    after = model(X[0, 0].float())
    assert after.shape == before.shape
    after.sum().backward()
    assert model[0].weight.grad.abs().sum() > 0


def test_layers_of_this_library_and_what_through_sees() -> None:
    model = nn.Sequential(HardLayer(Clamp(), SOFT), nn.ReLU())
    report = convert(model, STE)
    assert [row.where for row in report.replaced] == ["1"]
    with through(SUB) as seen:
        x = X.clone().requires_grad_()
        model(x)
    assert not seen.replaced
    assert not seen.not_replaced


def test_a_refused_pair_leaves_the_model_as_it_was() -> None:
    model = nn.Sequential(nn.ReLU(), nn.Hardshrink())
    first = model[0]
    with pytest.raises(EmptyCell, match="Heaviside"):
        convert(model, Rewrite(), empty="raise")
    assert model[0] is first
    report = convert(model, Rewrite())
    assert [row.where for row in report.not_replaced] == ["1"]
    assert next(iter(report.not_replaced)).fate.startswith("Heaviside declares no reading 'rewrite'")


@each("module, name", [(nn.Hardtanh(), "max_val"), (nn.Hardshrink(), "lambd"), (nn.MaxPool2d(2), "kernel_size")])
def test_a_module_that_was_changed_asks_to_be_converted_anew(module: nn.Module, name: str) -> None:
    model = nn.Sequential(module)
    convert(model, STE)
    setattr(model[0], name, 3)
    with pytest.raises(RuntimeError, match=f"{name} of .* was changed.*revert and convert again"):
        model(X)


def test_integer_inputs_go_to_the_original() -> None:
    model = nn.Sequential(nn.ReLU())
    convert(model, STE)
    assert torch.equal(model(torch.tensor([-1, 2])), torch.tensor([0, 2]))
