"""The components against plain references, and the ranges that are learned."""

import copy
import io
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from products import HALF, LAYER_CLASSES, STRATEGY_CLASSES, gradients
from surrogates import Component, EmptyCell, calibrate, hard_layers, mode
from surrogates.core import Strategy
from surrogates.layers.binary import Binary
from surrogates.layers.floor import FloorActivation
from surrogates.layers.hard_gate import HardGate
from surrogates.layers.hard_max import HardMax
from surrogates.layers.hard_max_pool import HardMaxPool
from surrogates.layers.quantized_activation import QuantizedActivation
from surrogates.ops.quantize import Quantize
from surrogates.quantizing.quantizer import Quantizer
from surrogates.strategies.gumbel import Gumbel
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

torch.set_num_threads(1)
STE, FIRST = StraightThrough(), Subgradient(rule="first")
CURVED = StraightThrough(carrier="smooth")
WEIGHT = torch.randn(12, 48, generator=torch.Generator().manual_seed(3))
STRATEGIES = [cls() for cls in STRATEGY_CLASSES.values()]
every_component = pytest.mark.parametrize("name", LAYER_CLASSES)


def made(name: str, strategy: Strategy) -> Component | None:
    try:
        return LAYER_CLASSES[name](strategy)
    except EmptyCell:
        return None


def applicable(name: str) -> list[Strategy]:
    return [strategy for strategy in STRATEGIES if made(name, strategy) is not None]


def branches(component: Component, seed: int = 0, space: tuple[int, ...] = (6, 8), width: int = 12) -> list[Tensor]:
    stream = torch.Generator().manual_seed(seed)
    return [torch.randn(3, fan_in * width, *space, generator=stream) for fan_in in component.branches.values()]


@every_component
def test_a_component_turns_its_branches_into_one_activation_a_unit(name: str) -> None:
    ran = 0
    for strategy in STRATEGIES:
        component = made(name, strategy)
        if component is None:
            continue
        for space in [(6, 8), (9,)] if component.needs_space else [(6, 8), (9,), ()]:
            x = branches(component, space=space)
            before = [t.clone() for t in x]
            y = component(*x)
            assert y.shape == (3, 12, *[n // component.downsampling for n in space]), strategy
            assert y.isfinite().all()
            assert all(torch.equal(a, b) for a, b in zip(x, before, strict=True))
            component.eval()
            hard = component(*x)
            assert torch.equal(component(*x), hard)
            component.train()
            if not strategy.soft_forward:
                assert torch.equal(y, hard), strategy
            got = gradients(component, x)
            assert all(g is not None and g.isfinite().all() for g in got), strategy
            ran += 1
    assert ran >= 4


@every_component
def test_an_empty_batch_and_low_precision_keep_shape_and_dtype(name: str) -> None:
    for strategy in STRATEGIES:
        component = made(name, strategy)
        if component is None:
            continue
        x = branches(component)
        assert component(*[t[:0] for t in x]).shape[0] == 0
        for dtype in HALF:
            y = component(*[t.to(dtype) for t in x])
            assert y.dtype == dtype
            assert y.isfinite().all()


@every_component
def test_copies_and_state_dicts_carry_everything(name: str) -> None:
    for strategy in STRATEGIES:
        component = made(name, strategy)
        if component is None:
            continue
        x = branches(component)
        component.calibrate(*x)
        stream = io.BytesIO()
        torch.save(component.state_dict(), stream)
        stream.seek(0)
        fresh = LAYER_CLASSES[name](strategy)
        fresh.load_state_dict(torch.load(stream, weights_only=True))
        copied = copy.deepcopy(component)
        expected = component.eval()(*x)
        assert torch.equal(fresh.eval()(*x), expected)
        assert torch.equal(copied.eval()(*x), expected)


@every_component
def test_evaluation_changes_nothing(name: str) -> None:
    """Case E10."""
    for strategy in STRATEGIES:
        component = made(name, strategy)
        if component is None:
            continue
        component.eval()
        state = {key: value.clone() for key, value in component.state_dict().items()}
        x = branches(component)
        assert torch.equal(component(*x), component(*x))
        assert all(torch.equal(component.state_dict()[key], value) for key, value in state.items())


def test_vmap_over_one_tensor_of_the_state_alone_is_a_loop() -> None:
    """A learned scale, threshold, table or codebook, or the temperature, by rows; x is the same for all of them."""
    made_of = {name: [made(name, strategy) for strategy in (STE, CURVED, Smooth())] for name in LAYER_CLASSES}
    made_of["quantizer"] = [Quantizer(STE, WEIGHT, grid=grid, scale="learned") for grid in ("symmetric", "affine")]
    ran = set()
    for name, components in made_of.items():
        for component in filter(None, components):
            state = {key: value for key, value in component.state_dict().items() if value.is_floating_point()}
            for key in state:
                assert_vmap_over_one_is_a_loop(component, state, key)
                ran.add((name, key.split(".")[-1]))
    assert len(ran) >= 15
    assert {("learned_threshold", "threshold"), ("lookup", "table"), ("quantizer", "offset")} <= ran


def assert_vmap_over_one_is_a_loop(component: nn.Module, state: dict[str, Tensor], key: str) -> None:
    """The value, and its gradient by x and by what is learned, taken outside of vmap."""
    x = [WEIGHT.clone()] if isinstance(component, Quantizer) else branches(component)
    given = {**state, key: torch.stack([state[key], 1.5 * state[key] + 0.1])}
    leaves = [t.requires_grad_() for t in x]
    leaves += [given[name].requires_grad_() for name, _ in component.named_parameters()]

    def value(one: Tensor) -> Tensor:
        return torch.func.functional_call(component, {**given, key: one}, tuple(x))

    mapped, looped = torch.func.vmap(value)(given[key]), torch.stack([value(one) for one in given[key]])
    torch.testing.assert_close(mapped, looped)
    by = [torch.autograd.grad(y.sin().sum(), leaves, allow_unused=True) for y in (mapped, looped)]
    for got, expected in zip(*by, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5, msg=lambda m: f"{component} by {key}: {m}")


def test_only_the_controls_have_no_hard_layer() -> None:
    without = set()
    for name in LAYER_CLASSES:
        component, layer = LAYER_CLASSES[name](Subgradient()), nn.Linear(64, 8)
        component.prepare(layer)
        if not hard_layers(nn.ModuleList([layer, component])):
            without.add(name)
    assert without == {"identity", "relu"}


# against plain torch


def test_the_gate_picks_the_value_of_the_largest_logit() -> None:
    gate = HardGate(STE, k=3)
    values, logits = branches(gate, width=4)
    y = gate(values, logits)
    for unit in range(4):
        own, scores = values[:, unit::4], logits[:, unit::4]
        chosen = scores.argmax(1, keepdim=True)
        assert torch.equal(y[:, unit], own.gather(1, chosen).squeeze(1))
    (for_values, for_logits) = gradients(gate, [values, logits])
    assert ((for_values == 0) | (for_values == 1)).all()
    assert (torch.unflatten(for_values, 1, (3, 4)).sum(1) == 1).all()
    reference = gradients(
        lambda v, s: (v.unflatten(1, (3, 4)) * s.unflatten(1, (3, 4)).softmax(1)).sum(), [values, logits]
    )
    torch.testing.assert_close(for_logits, reference[1])


def test_a_gate_that_never_learns_has_a_zero_gradient_at_its_logits() -> None:
    gate = HardGate(Subgradient())
    for_values, for_logits = gradients(gate, branches(gate))
    assert for_values.abs().sum() > 0
    assert (for_logits == 0).all()


def test_logits_that_lose_have_a_gradient_unless_the_choice_is_hard() -> None:
    """Case A09: the part of the case that applies to one-hot: the hard choice teaches nobody, the others losers too."""
    share = {}
    for strategy in applicable("hard_gate"):
        gate = HardGate(strategy)
        share[type(strategy).__name__] = (gradients(gate, branches(gate))[1] != 0).float().mean().item()
    assert share.items() >= {"Subgradient": 0.0, "StraightThrough": 1.0, "Smooth": 1.0, "Rewrite": 1.0}.items()


def test_maxout_is_the_maximum_over_a_units_own_values() -> None:
    for strategy in (STE, FIRST, Subgradient()):
        maxout = HardMax(strategy, k=3)
        (x,) = branches(maxout, width=4)
        y = maxout(x)
        for unit in range(4):
            assert torch.equal(y[:, unit], x[:, unit::4].max(1).values)
    (got,) = gradients(HardMax(FIRST, k=3), [x])
    (expected,) = gradients(lambda x: x.unflatten(1, (3, 4)).max(1).values, [x])
    assert torch.equal(got, expected)


@pytest.mark.parametrize("cls", [HardMax, HardMaxPool])
def test_the_noise_of_a_maximum_is_in_units(cls: type[HardMax | HardMaxPool]) -> None:
    strategy = Gumbel(temperature=0.5)
    layer = cls(strategy, k=3, unit=0.25)
    (x,) = branches(layer, width=4)
    rows = []
    layer.max.register_forward_pre_hook(lambda _, inputs: rows.append(inputs))
    y = layer(x)
    layer.max.draws = 0
    assert torch.equal(layer(x), y)
    layer.max.draws = 0
    assert torch.equal(y, 0.25 * strategy(layer.max.op, *rows[0], noise=layer.max._noise(rows[0])))
    assert torch.equal(0.25 * layer.max.op.hard(*rows[0]), cls(STE, k=3)(x))
    for unit in (0.3, 0.0, -1.0):
        with pytest.raises(ValueError, match=f"unit must be a power of two.*got {unit}"):
            cls(STE, unit=unit)


@pytest.mark.parametrize(("space", "k"), [((6, 8), 2), ((7, 9), 2), ((7, 9), 3), ((11,), 2), ((12,), 4)])
def test_the_pool_is_torchs_pool(space: tuple[int, ...], k: int) -> None:
    plain = F.max_pool2d if len(space) == 2 else F.max_pool1d
    for strategy in (STE, FIRST, Subgradient()):
        pool = HardMaxPool(strategy, k)
        (x,) = branches(pool, space=space)
        assert torch.equal(pool(x), plain(x, k))
        if strategy is not STE:
            assert torch.equal(gradients(pool, [x])[0], gradients(lambda x: plain(x, k), [x])[0])
    soft = HardMaxPool(Smooth(temperature=1e-3, schedule="constant"), k)
    torch.testing.assert_close(soft(x), plain(x, k), atol=1e-2, rtol=0)
    tied = torch.zeros_like(x)
    assert torch.equal(gradients(HardMaxPool(FIRST, k), [tied])[0], gradients(lambda x: plain(x, k), [tied])[0])
    shared = gradients(HardMaxPool(Subgradient(), k), [tied])[0]
    assert shared.max().item() == pytest.approx(1 / k ** len(space))


def test_binary_has_two_values() -> None:
    x = torch.tensor([[-0.5, 0.0, -0.0, 0.5]])
    for strategy in STRATEGIES:
        component = made("binary", strategy)
        if component is not None:
            assert component.eval()(x).tolist() == [[-1.0, 1.0, 1.0, 1.0]]


@pytest.mark.parametrize("carrier", ["own", "identity", "clipped", "power", "smooth", "smooth_peak"])
def test_binary_weights_are_signs_times_the_mean_size_of_their_channel(carrier: str) -> None:
    """dW/dw = mean|w| c'(u) / max|w| at u = w / max|w|, c the carrier on codes that jump from -1 to 1."""
    strategy = StraightThrough(carrier=carrier, kernel="triangular", width=0.5)
    layer = nn.Linear(40, 8, bias=False).double()
    Binary(strategy, weights="binary").prepare(layer)
    trained = layer.parametrizations.weight.original
    mean, most = (of(trained.detach().abs(), 1, keepdim=True) for of in (torch.mean, torch.amax))
    torch.testing.assert_close(layer.weight, trained.sign() * mean, rtol=1e-12, atol=0)
    u = (trained.detach() / most).abs()
    slopes = {
        "own": torch.ones_like(u),
        "identity": torch.ones_like(u),
        "clipped": (u <= 0.5).double(),
        "power": torch.where(u < 0.1, 0.1**-0.5, 0.5 * u**-0.5) * (u <= 0.5),
        "smooth": 1 - u / 2,
        "smooth_peak": 2 * (1 - u / 2),
    }
    (got,) = torch.autograd.grad(layer.weight.sum(), trained)
    torch.testing.assert_close(got, slopes[carrier] * mean / most, rtol=1e-5, atol=0)


def test_floor_is_torchs_floor_on_its_grid() -> None:
    x = torch.linspace(-3, 3, 601).unsqueeze(0)
    assert torch.equal(FloorActivation(STE)(x), (x / 0.5).floor().mul(0.5).clamp(-1, 1))


def test_a_fixed_range_is_torchs_fake_quantization() -> None:
    """Against torch's own kernel, away from the ends of its wider mask: value and derivative."""
    x = torch.linspace(-2, 3, 1003).unsqueeze(0)
    layer = QuantizedActivation(STE, bits=3, low=-0.75, high=1.0)
    scale = 0.25
    plain = lambda x: torch.fake_quantize_per_tensor_affine(x, scale, 3, 0, 7)  # noqa: E731
    torch.testing.assert_close(layer(x), plain(x))
    away = ((x - 1.0).abs() > scale) & ((x + 0.75).abs() > scale)
    assert torch.equal(gradients(layer, [x])[0][away], gradients(plain, [x])[0][away])


# learned ranges

E07 = torch.tensor([[0.3, 0.9, 5.0, -5.0]])


def test_the_steps_own_derivative_falls_out_of_the_straight_through_round() -> None:
    """Case E07: signed codes -4 .. 3, the example as published: -0.4, and times 1 / sqrt(4 * 3) it is -0.11547."""
    op = Quantize(3, -4.0, 3.0, "strict")
    s = torch.tensor(0.5, requires_grad=True)
    y = STE(op, E07 / s) * s
    assert y.tolist() == [[0.5, 1.0, 1.5, -2.0]]
    (ds,) = torch.autograd.grad(y.sum(), s)
    assert ds.item() == pytest.approx((1 - 0.6) + (2 - 1.8) + 3 - 4, abs=1e-6)
    assert ds.item() == pytest.approx(-0.4, abs=1e-6)
    assert ds.item() / math.sqrt(4 * 3) == pytest.approx(-0.11547, abs=1e-5)


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_a_learned_step_has_lsqs_scaled_derivative(bits: int) -> None:
    """Case E07.

    Unsigned codes 0 .. Q: ds = (1 - 0.6) + (2 - 1.8) + min(10, Q) [- 10 inside] + 0, times 1 / sqrt(n Q).
    """
    top = 2**bits - 1
    layer = QuantizedActivation(STE, bits=bits, range="learned_step", high=0.5 * top)
    assert layer.step.item() == 0.5
    x = E07.clone().requires_grad_()
    y = layer(x)
    assert y.tolist() == [[0.5, 1.0, min(5.0, 0.5 * top), 0.0]]  # the value does not know the gradient's scale
    dx, ds = torch.autograd.grad(y.sum(), [x, layer.step])
    beyond = top if top < 10 else 0.0  # 10 = 5 / 0.5 is a code if there are so many
    assert ds.item() == pytest.approx(((1 - 0.6) + (2 - 1.8) + beyond) / math.sqrt(4 * top), abs=1e-6)
    assert dx.tolist() == [[1, 1, float(top > 10), 0]]


@pytest.mark.parametrize(("bits", "low", "top"), [(1, -1, 1), (2, -2, 1), (3, -4, 3), (4, -8, 7)])
def test_a_learned_step_with_signed_codes_has_lsqs_scaled_derivative(bits: int, low: int, top: int) -> None:
    """Case E07.

    Codes low .. Q: ds = code - x/s inside, the bound's code outside, times 1 / sqrt(n Q). One bit has no code 0.
    """
    layer = QuantizedActivation(STE, bits=bits, range="learned_step", low=-1.0)
    layer.step.data.fill_(0.5)
    x = E07.clone().requires_grad_()
    v = (E07 / 0.5)[0].tolist()
    codes = [(1 if n > 0 else -1) if bits == 1 else min(max(round(n), low), top) for n in v]
    y = layer(x)
    assert y.tolist() == [[0.5 * code for code in codes]]
    dx, ds = torch.autograd.grad(y.sum(), [x, layer.step])
    inside = [low < n < top for n in v]
    expected = sum(code - n * is_inside for code, n, is_inside in zip(codes, v, inside, strict=True))
    assert ds.item() == pytest.approx(expected / math.sqrt(4 * top), abs=1e-6)
    assert dx.tolist() == [[float(is_inside) for is_inside in inside]]
    layer.calibrate(E07)
    mean = E07.abs().mean().item()
    assert layer.step.item() == pytest.approx(mean if bits == 1 else 2 * mean / math.sqrt(top), rel=1e-6)


def test_the_count_is_that_of_one_sample() -> None:
    """Case E07."""
    layer = QuantizedActivation(STE, bits=2, range="learned_step", high=1.5)

    def slope(x: Tensor) -> float:
        return torch.autograd.grad(layer(x).sum(), layer.step)[0].item()

    assert slope(E07.expand(6, 4)) == pytest.approx(6 * slope(E07), rel=1e-5)
    assert slope(E07.view(1, 2, 1, 2)) == pytest.approx(slope(E07), rel=1e-6)
    assert slope(E07.repeat(1, 4)) == pytest.approx(2 * slope(E07), rel=1e-6)  # 4 times the sum, half the scale
    assert slope(E07[:0]) == 0.0


def test_a_bound_counts_as_outside_for_a_learned_step() -> None:
    """Case D05."""
    layer = QuantizedActivation(STE, bits=2, range="learned_step", high=3.0)  # s = 1
    x = torch.tensor([[0.0, 3.0, 3.2, 2.9]], requires_grad=True)
    dx, ds = torch.autograd.grad(layer(x).sum(), [x, layer.step])
    assert dx.tolist() == [[0, 0, 0, 1]]
    assert ds.item() * math.sqrt(4 * 3) == pytest.approx(0 + 3 + 3 + (3 - 2.9), abs=1e-5)


def test_a_learned_step_keeps_its_own_derivative_without_the_straight_through_round() -> None:
    """Under `subgradient` d(s q)/ds = q, and nothing reaches what is upstream."""
    layer = QuantizedActivation(Subgradient(), bits=2, range="learned_step", high=1.5)
    x = E07.clone().requires_grad_()
    dx, ds = torch.autograd.grad(layer(x).sum(), [x, layer.step])
    assert (dx == 0).all()
    assert ds.item() == pytest.approx((1 + 2 + 3 + 0) / math.sqrt(4 * 3), rel=1e-6)


def test_a_learned_clip_has_pacts_derivative() -> None:
    layer = QuantizedActivation(STE, bits=2, range="learned_clip", high=1.5)
    x = torch.tensor([[-1.0, 0.0, 0.3, 0.8, 1.5, 4.0]], requires_grad=True)
    y = layer(x)
    torch.testing.assert_close(y, torch.tensor([[0.0, 0.0, 0.5, 1.0, 1.5, 1.5]]))
    for i, expected in enumerate([0, 0, 0, 0, 1, 1]):
        (da,) = torch.autograd.grad(y[0, i], layer.clip, retain_graph=True)
        assert da.item() == expected
    (dx,) = torch.autograd.grad(y.sum(), x)
    assert dx.tolist() == [[0, 0, 1, 1, 0, 0]]
    still = QuantizedActivation(Subgradient(), bits=2, range="learned_clip", high=1.5)
    dx, da = torch.autograd.grad(still(x).sum(), [x, still.clip])
    assert (dx == 0).all()
    assert da == 0


@pytest.mark.parametrize("range_", ["learned_step", "learned_clip"])
def test_a_range_that_left_the_positive_numbers_comes_back(range_: str) -> None:
    layer = QuantizedActivation(STE, bits=2, range=range_, high=1.0)
    (parameter,) = layer.parameters()
    parameter.data.fill_(-0.05)
    optimizer = torch.optim.SGD([parameter], lr=0.05)
    x = torch.linspace(0.1, 1, 30).view(10, 3)
    for _ in range(60):
        y = layer(x)
        assert y.isfinite().all()
        optimizer.zero_grad()
        (y - x).square().sum().backward()
        assert parameter.grad.isfinite()
        optimizer.step()
    assert parameter.item() > 0.1


@pytest.mark.parametrize("range_", ["learned_step", "learned_clip"])
@pytest.mark.parametrize("strategy", applicable("quantized_activation"), ids=lambda s: type(s).__name__)
def test_a_scale_of_zero_is_finite(range_: str, strategy: Strategy) -> None:
    """Case E06."""
    for dtype in (torch.float32, torch.float64, *HALF):
        for start in (0.0, -1.0):
            layer = QuantizedActivation(strategy, range=range_)
            (parameter,) = layer.parameters()
            parameter.data.fill_(start)
            x = torch.tensor([[0.0, 0.3, 1.0, -2.0, 1e3]], dtype=dtype, requires_grad=True)
            y = layer(x)
            gradient = torch.autograd.grad(y.sum(), [x, parameter])
            assert y.isfinite().all()
            assert y.abs().max() < 1e-3 or strategy.soft_forward
            assert all(g.isfinite().all() for g in gradient), (dtype, gradient)


def test_constant_and_zero_inputs_stay_finite() -> None:
    """Case E01."""
    for range_ in ("fixed", "learned_step", "learned_clip"):
        for value in (0.0, 0.4):
            layer = QuantizedActivation(STE, range=range_)
            x = torch.full((4, 6), value, requires_grad=True)
            layer.calibrate(x.detach())
            y = layer(x)
            assert y.isfinite().all()
            step = layer.step.item() if range_ == "learned_step" else 1 / 15
            assert (y - x).abs().max() <= step / 2 + 1e-6
            gradient = torch.autograd.grad(y.sum(), [x, *layer.parameters()])
            assert all(g.isfinite().all() for g in gradient)


@pytest.mark.parametrize("range_", ["fixed", "learned_step", "learned_clip"])
def test_all_strategies_share_the_value_of_a_range_that_is_learned(range_: str) -> None:
    x = torch.linspace(-1, 2, 300).view(10, 30)
    values = [QuantizedActivation(s, bits=3, range=range_).eval()(x) for s in applicable("quantized_activation")]
    assert all(torch.equal(v, values[0]) for v in values)
    assert len(values[0].unique()) == 8
    train = [QuantizedActivation(s, bits=3, range=range_)(x) for s in (STE, Subgradient())]
    assert all(torch.equal(v, values[0]) for v in train)


def test_a_learned_step_follows_the_whole_layer_by_finite_differences() -> None:
    """Under `smooth` nothing is grafted but the step's own scale: its derivative is the value's, scaled."""
    layer = QuantizedActivation(Smooth(temperature=0.5, schedule="constant"), bits=2, range="learned_step").double()
    x = torch.linspace(-0.5, 1.5, 24).double().view(2, 12)
    (ds,) = torch.autograd.grad(layer(x).sum(), layer.step)
    start, h = layer.step.item(), 1e-6
    values = []
    for moved in (start + h, start - h):
        layer.step.data.fill_(moved)
        values.append(layer(x).sum().item())
    assert ds.item() * math.sqrt(12 * 3) == pytest.approx((values[0] - values[1]) / (2 * h), rel=1e-5)


# calibration


def net(strategy: Strategy) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8),
        nn.BatchNorm1d(8),
        QuantizedActivation(strategy, range="learned_step"),
        nn.Dropout(0.5),
        nn.Linear(8, 8),
        QuantizedActivation(strategy, range="learned_step"),
    )


def test_calibration_is_the_same_for_every_strategy_and_leaves_the_rest_alone() -> None:
    batch = torch.randn(32, 6, generator=torch.Generator().manual_seed(1))
    steps = []
    for strategy in applicable("quantized_activation"):
        model = net(strategy)
        model[3].eval()
        before = {key: value.clone() for key, value in model.state_dict().items()}
        modes = [module.training for module in model.modules()]
        stream = torch.get_rng_state()
        calibrate(model, batch)
        assert torch.equal(torch.get_rng_state(), stream)
        assert [module.training for module in model.modules()] == modes
        assert [layer.mode for layer in hard_layers(model).values()] == ["strategy"] * 2
        assert all(layer.draws == 0 for layer in hard_layers(model).values())
        changed = {key for key, value in model.state_dict().items() if not torch.equal(value, before[key])}
        assert changed == {"2.step", "5.step"}
        assert not any(module._forward_pre_hooks for module in model.modules())
        steps.append((model[2].step.item(), model[5].step.item()))
    assert len(set(steps)) == 1


def test_calibration_sets_lsqs_first_step_layer_after_layer() -> None:
    model = net(STE).eval()
    batch = torch.randn(32, 6, generator=torch.Generator().manual_seed(1))
    calibrate(model, batch)
    first = model[:2](batch)
    assert model[2].step.item() == pytest.approx(2 * first.abs().mean().item() / math.sqrt(15), rel=1e-5)
    with mode(model, "hard"):
        second = model[:5](batch)
    assert model[5].step.item() == pytest.approx(2 * second.abs().mean().item() / math.sqrt(15), rel=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_calibration_normalizes_as_the_mode_of_a_batch_norm_says(training: bool) -> None:
    """Before training the running statistics are 0 and 1, whatever comes in."""
    model = nn.Sequential(nn.BatchNorm1d(6), QuantizedActivation(STE, range="learned_step"))
    model[0].train(training)
    batch = 100 * torch.randn(32, 6, generator=torch.Generator().manual_seed(1))
    calibrate(model, batch)
    assert torch.equal(model[0].running_mean, torch.zeros(6))
    assert model[0].num_batches_tracked == 0
    assert model[0].training is training
    assert model[0].track_running_stats
    seen = model[0](batch)
    assert model[1].step.item() == pytest.approx(2 * seen.abs().mean().item() / math.sqrt(15), rel=1e-5)


def test_calibration_restores_the_modes_after_an_error() -> None:
    model = net(STE)
    with pytest.raises(RuntimeError):
        calibrate(model, torch.zeros(3, 5))
    assert all(module.training for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert [layer.mode for layer in hard_layers(model).values()] == ["strategy"] * 2


def test_a_saved_step_is_not_initialised_again() -> None:
    """Case E11."""
    model = net(STE)
    calibrate(model, torch.randn(32, 6, generator=torch.Generator().manual_seed(1)))
    fresh = net(STE)
    fresh.load_state_dict(model.state_dict())
    saved = fresh[2].step.item()
    fresh(torch.randn(4, 6) * 100)
    assert fresh[2].step.item() == saved == model[2].step.item()
    assert fresh[2].step.shape == ()


# arguments

REFUSED = [
    (QuantizedActivation, {"bits": 0}, "bits.*0"),
    (QuantizedActivation, {"bits": 17}, "bits.*17"),
    (QuantizedActivation, {"bits": 2.5}, "bits.*2.5"),
    (QuantizedActivation, {"bits": True}, "bits.*True"),
    (QuantizedActivation, {"low": 1.0, "high": 1.0}, "low=1.0 and high=1.0"),
    (QuantizedActivation, {"high": math.inf}, "high=inf"),
    (QuantizedActivation, {"high": math.nan}, "high must be a number, got nan"),
    (QuantizedActivation, {"range": "learned"}, "range.*fixed, learned_step, learned_clip.*'learned'"),
    (QuantizedActivation, {"range": "learned_step", "low": -0.5}, "range=learned_step.*low=-high.*low=-0.5"),
    (QuantizedActivation, {"range": "learned_clip", "low": 0.5}, "range=learned_clip.*low=0.5"),
    (QuantizedActivation, {"range": "learned_step", "high": -1.0}, "high=-1.0"),
    (HardMax, {"k": 1}, "k must be a whole number of at least 2.*1"),
    (HardGate, {"k": 0}, "k must be a whole number of at least 2.*0"),
    (HardMaxPool, {"k": 1}, "k must be a whole number of at least 2.*1"),
    (FloorActivation, {"step": 0.0}, "step.*0.0"),
    (FloorActivation, {"step": math.inf}, "step.*inf"),
    (FloorActivation, {"step": 0.3}, "multiple of step=0.3.*-1.0"),
    (FloorActivation, {"low": 1.0, "high": -1.0}, "low=1.0 and high=-1.0"),
    (FloorActivation, {"low": -math.inf}, "both finite or both infinite, got low=-inf, high=1.0"),
]


@pytest.mark.parametrize(("cls", "arguments", "message"), REFUSED, ids=str)
def test_bad_arguments_are_refused_with_their_value(cls: type, arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cls(STE, **arguments)


def test_a_window_must_fit() -> None:
    with pytest.raises(ValueError, match=r"k=4.*\(3, 8\)"):
        HardMaxPool(STE, k=4)(torch.zeros(1, 2, 3, 8))
    with pytest.raises(ValueError, match=r"k=2.*\(\)"):
        HardMaxPool(STE)(torch.zeros(1, 2))


def test_an_empty_cell_is_said_at_construction() -> None:
    with pytest.raises(EmptyCell, match=r"Sign.*rewrite"):
        Binary(Rewrite())
