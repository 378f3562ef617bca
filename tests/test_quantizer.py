"""Quantization with scales of its own: pieces, grids, LSQ's derivatives, and weights of every kind of layer."""

import copy
import io
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from products import HALF, STRATEGY_CLASSES, generator, gradients
from surrogates import EmptyCell, calibrate, hard_layers
from surrogates.core import Strategy
from surrogates.layers.quantized_weight import QuantizedWeight
from surrogates.quantizing.quantizer import CHANNEL_AXIS, Quantizer, quantize_weight
from surrogates.quantizing.scales import Pieces
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

torch.set_num_threads(1)
STE = StraightThrough()
STRATEGIES = [cls() for cls in STRATEGY_CLASSES.values()]
GRIDS = [(grid, bits) for grid in ("symmetric", "affine") for bits in (1, 2, 3, 4, 8)]
every_grid = pytest.mark.parametrize(("grid", "bits"), GRIDS)


def fitting(bits: int = 4, grid: str = "symmetric", scale: str = "measured") -> list[Strategy]:
    """The strategies that go with quantize."""
    found = []
    for strategy in STRATEGIES:
        try:
            QuantizedWeight(strategy, bits, grid=grid, scale=scale)
        except EmptyCell:
            continue
        found.append(strategy)
    assert len(found) >= 4
    return found


def weight(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64).to(dtype)


def quantizer(like: Tensor, strategy: Strategy = STE, **options: object) -> Quantizer:
    pieces = {key: options.pop(key) for key in ("per", "axis", "groups", "size") if key in options}
    return Quantizer(strategy, like, pieces=Pieces(**pieces), **options)


# pieces


LAYERS: list[tuple[Callable[[], nn.Module], Callable[[Tensor], list[Tensor]]]] = [
    (lambda: nn.Linear(6, 3), lambda w: [w[i] for i in range(3)]),
    (lambda: nn.Conv1d(4, 3, 5), lambda w: [w[i] for i in range(3)]),
    (lambda: nn.Conv2d(4, 6, 3, groups=2), lambda w: [w[i] for i in range(6)]),
    (lambda: nn.ConvTranspose1d(4, 3, 5), lambda w: [w[:, i] for i in range(3)]),
    (lambda: nn.ConvTranspose2d(2, 3, 1), lambda w: [w[:, i] for i in range(3)]),
    (
        lambda: nn.ConvTranspose2d(4, 6, 3, groups=2),
        lambda w: [w[2 * group : 2 * group + 2, i] for group in range(2) for i in range(3)],
    ),
]


@pytest.mark.parametrize(("make", "channels"), LAYERS, ids=lambda v: "")
def test_a_channel_is_an_output_of_the_layer(make: Callable[[], nn.Module], channels: Callable) -> None:
    """Case E05: one scale an output channel, in the dimension where that kind of layer has it, groups included."""
    layer = make()
    plain = layer.weight.detach().clone()
    quantize_weight(layer, STE, bits=3)
    assert layer.weight.shape == plain.shape
    for got, w in zip(channels(layer.weight), channels(plain), strict=True):
        step = w.abs().max() / 3
        torch.testing.assert_close(got, (w / step).round() * step, atol=1e-6, rtol=0)
    learned = quantize_weight(make(), STE, scale="learned")
    outputs = getattr(layer, "out_channels", None) or layer.out_features
    assert learned.parametrizations.weight[0].step.shape == (outputs,)


def test_the_axis_may_be_negative_and_is_checked() -> None:
    """Case E05."""
    x = weight(2, 3, 4)
    for axis in (1, -2):
        assert quantizer(x, axis=axis, scale="learned").step.shape == (3,)
        y = quantizer(x, axis=axis)(x)
        assert torch.equal(y, quantizer(x.movedim(1, 0))(x.movedim(1, 0)).movedim(0, 1))
    with pytest.raises(ValueError, match=r"axis.*\(2, 3, 4\).*got 3"):
        quantizer(x, axis=3)
    state = quantizer(weight(5, 4), scale="learned").state_dict()
    with pytest.raises(RuntimeError, match=r"torch.Size\(\[5\]\).*torch.Size\(\[3\]\)"):
        quantizer(weight(3, 4), scale="learned").load_state_dict(state)


def test_cutting_and_joining_is_the_identity() -> None:
    x = weight(4, 6, 5, 2)
    counts = []
    for options in (
        {"per": "tensor"},
        {"axis": 1},
        {"axis": -1},
        {"axis": 1, "groups": 2},
        {"per": "group", "size": 4},
    ):
        pieces = Pieces(**options)
        cut = pieces.cut(x)
        assert torch.equal(pieces.join(cut, x), x)
        counts.append(tuple(cut.shape))
    assert counts == [(1, 240), (6, 40), (2, 120), (12, 20), (60, 4)]


def test_groups_have_scales_of_their_own() -> None:
    x = torch.tensor([[1.0, 0.6, 100.0, 30.0]])
    y = quantizer(x, bits=4, per="group", size=2)(x)
    torch.testing.assert_close(y, torch.tensor([[1.0, 4 / 7, 100.0, 200 / 7]]))
    with pytest.raises(ValueError, match="group_size must divide the 4 weights"):
        quantizer(x, per="group", size=3)


# grids


@every_grid
def test_a_piece_has_at_most_two_to_the_bits_values_and_its_extremes_are_among_them(grid: str, bits: int) -> None:
    x = 2 * torch.rand(5, 4000, generator=generator(0)) - 0.8
    x = x - 0.2 if grid == "symmetric" else x
    y = quantizer(x, bits=bits, grid=grid)(x)
    for row, original in zip(y, x, strict=True):
        values = row.unique()
        assert len(values) == (2**bits if grid == "affine" or bits == 1 else 2**bits - 1)
        step = values.diff()
        torch.testing.assert_close(step, step.mean().expand_as(step), atol=1e-5, rtol=1e-3)
        if (grid, bits) == ("symmetric", 1):
            mean = original.abs().mean()
            torch.testing.assert_close(values, torch.stack([-mean, mean]))
            continue
        assert (row - original).abs().max() <= step.max() / 2 * (1 + 1e-4) + 1e-6
        if grid == "symmetric":
            assert (row == 0).any()
            torch.testing.assert_close(row.abs().max(), original.abs().max())
        else:
            torch.testing.assert_close(
                torch.stack([row.min(), row.max()]), torch.stack([original.min(), original.max()])
            )


@every_grid
def test_the_straight_through_derivative_reaches_every_weight(grid: str, bits: int) -> None:
    """Extremes included: rounding must not move them out of the range. One bit: mean|x| / max|x|, stated constants."""
    for seed in range(20):
        x = weight(7, 33, seed=seed)
        (got,) = gradients(quantizer(x, bits=bits, grid=grid), [x])
        expected = torch.ones_like(x)
        if (grid, bits) == ("symmetric", 1):
            expected = (x.abs().mean(1) / x.abs().amax(1)).unsqueeze(1).expand_as(x)
        torch.testing.assert_close(got, expected, atol=2e-6, rtol=2e-6)


@every_grid
@pytest.mark.parametrize("scale", ["measured", "learned"])
def test_constant_and_zero_pieces_are_finite(grid: str, bits: int, scale: str) -> None:
    """Case E01."""
    for strategy in fitting(bits, grid, scale):
        for value in (0.0, 3.0, -3.0):
            x = torch.full((2, 4), value)
            layer = quantizer(x, strategy, bits=bits, grid=grid, scale=scale)
            for training in (True, False):
                y = layer.train(training)(x)
                assert y.isfinite().all()
                if training and (strategy.soft_forward or strategy.noisy(layer.op)):
                    continue
                step = layer.step.max() if scale == "learned" else torch.tensor(abs(value) / max(1, layer.op.high))
                assert (y - x).abs().max() <= (1 if bits == 1 else 0.5) * step + 1e-6, (strategy, value)
                if value == 0 and not (grid == "symmetric" and bits == 1):
                    assert (y == 0).all()
                elif value == 0:
                    assert y.abs().max() <= 1e-6
                elif scale == "measured":
                    torch.testing.assert_close(y, x)
            got = gradients(layer.train(), [x])
            assert all(g.isfinite().all() for g in got)


@pytest.mark.parametrize("value", [0.0, -1.0, -1e30, 1e-40])
def test_a_learned_step_that_is_not_positive_is_finite_and_comes_back(value: float) -> None:
    """Case E06."""
    x = weight(3, 50)
    for grid in ("symmetric", "affine"):
        for strategy in fitting(2, grid, "learned"):
            layer = quantizer(x, strategy, bits=2, grid=grid, scale="learned")
            layer.step.data.fill_(value)
            y = layer(x)
            assert y.isfinite().all()
            assert all(g.isfinite().all() for g in torch.autograd.grad(y.sum(), list(layer.parameters())))
    layer = quantizer(x, bits=3, scale="learned")
    layer.step.data.fill_(max(value, -1.0))
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(80):
        optimizer.zero_grad()
        (layer(x) - x).square().sum().backward()
        optimizer.step()
    assert (layer.step > 0.1).all()


def test_zero_is_a_value_of_the_affine_grid_only_if_it_is_an_extreme() -> None:
    """Case E08.

    The choice: not forced into the range. [1000, 1001] keeps its two ends; 0 among [0.1, 1.0] is not kept.
    """
    far = torch.tensor([[1000.0, 1001.0, 1000.4]])
    y = quantizer(far, bits=8, grid="affine")(far)
    torch.testing.assert_close(y, torch.tensor([[1000.0, 1001.0, 1000.4]]), atol=1 / 510 + 1e-4, rtol=0)
    assert len(y.unique()) == 3
    op = quantizer(torch.tensor([[0.1, 1.0]]), bits=2, grid="affine", scale="learned")
    assert op(torch.tensor([[0.0, 1.0]])).tolist() == [[pytest.approx(0.1), pytest.approx(1.0)]]
    with_zero = torch.tensor([[0.0, 0.3, 1.0]])
    assert quantizer(with_zero, bits=2, grid="affine")(with_zero)[0, 0] == 0


def test_one_symmetric_bit_has_two_values_and_zero_takes_the_lower() -> None:
    """Case E02."""
    x = torch.tensor([[-0.5, 0.0, -0.0, 0.5]])
    assert quantizer(x, bits=1)(x).tolist() == [[-0.25, -0.25, -0.25, 0.25]]


# learned scales


E07 = torch.tensor([[0.3, 0.9, 5.0, -5.0]])


def lsq_slope(x: Tensor, s: Tensor, low: int, high: int) -> Tensor:
    """Esser et al. 2020, equation 3."""
    v = x / s
    return torch.where(v <= low, low, torch.where(v >= high, high, v.round() - v))


def test_the_published_example() -> None:
    """Case E07."""
    layer = quantizer(E07, bits=3, scale="learned")
    layer.step.data.fill_(0.5)
    y = layer(E07)
    assert y.tolist() == [[0.5, 1.0, 1.5, -2.0]]
    (ds,) = torch.autograd.grad(y.sum(), layer.step)
    assert ds.item() == pytest.approx(-0.4 / math.sqrt(4 * 3), abs=1e-6)
    assert ds.item() == pytest.approx(-0.11547, abs=1e-5)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("options", [{"per": "tensor"}, {}, {"per": "group", "size": 5}], ids=str)
def test_lsqs_derivative_with_the_count_of_its_own_piece(bits: int, options: dict) -> None:
    """Case E07."""
    x = weight(3, 20, dtype=torch.float64)
    layer = quantizer(x, bits=bits, scale="learned", **options)
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    rows = layer.pieces.cut(x)
    torch.testing.assert_close(layer.step.detach(), 2 * rows.abs().mean(1) / math.sqrt(high))
    upstream = weight(3, 20, seed=1, dtype=torch.float64)
    (dx, ds) = torch.autograd.grad((layer(y := x.clone().requires_grad_()) * upstream).sum(), [y, layer.step])
    s = layer.step.detach().unsqueeze(1)
    expected = (layer.pieces.cut(upstream) * lsq_slope(rows, s, low, high)).sum(1) / math.sqrt(rows.shape[1] * high)
    torch.testing.assert_close(ds, expected)
    inside = layer.pieces.join(((rows / s > low) & (rows / s < high)).double(), x)
    torch.testing.assert_close(dx, upstream * inside)


def test_lsqs_formula_is_the_difference_quotient_of_the_published_function_with_its_codes_held() -> None:
    """Equation 3 against finite differences: round(v) held as v + (round(v) - v), the second part a constant."""
    x, s, h = weight(200, dtype=torch.float64), torch.tensor(0.4, dtype=torch.float64), 1e-6

    def y(step: Tensor) -> Tensor:
        held = ((x / s).round() - x / s).detach()
        return step * torch.where(x / s <= -4, -4.0, torch.where(x / s >= 3, 3.0, x / step + held))

    torch.testing.assert_close((y(s + h) - y(s - h)) / (2 * h), lsq_slope(x, s, -4, 3), atol=1e-8, rtol=0)


def test_an_affine_offset_has_lsq_plus_derivative() -> None:
    """0 inside and 1 outside, scaled as the step's; inside the step's is code - (x - z) / s."""
    x = torch.tensor([[-2.0, 0.2, 0.7, 5.0]])
    layer = quantizer(x, bits=2, grid="affine", scale="learned")
    layer.step.data.fill_(0.5)
    layer.offset.data.fill_(0.1)
    y = layer(x)
    torch.testing.assert_close(y, torch.tensor([[0.1, 0.1, 0.6, 1.6]]))
    ds, dz = torch.autograd.grad(y.sum(), [layer.step, layer.offset])
    g = 1 / math.sqrt(4 * 3)
    assert dz.item() == pytest.approx(2 * g, abs=1e-6)
    assert ds.item() == pytest.approx(g * (0 + (0 - 0.2) + (1 - 1.2) + 3), abs=1e-6)


def test_a_learned_scale_under_smooth_follows_finite_differences() -> None:
    x = weight(2, 9, dtype=torch.float64)
    layer = quantizer(x, Smooth(temperature=0.5, schedule="constant"), bits=3, grid="affine", scale="learned")
    found = torch.autograd.grad(layer(x).sin().sum(), [layer.step, layer.offset])
    factor = math.sqrt(9 * 7)
    for parameter, got in zip((layer.step, layer.offset), found, strict=True):
        for i in range(2):
            values = []
            for h in (1e-6, -1e-6):
                parameter.data[i] += h
                values.append(layer(x).sin().sum().item())
                parameter.data[i] -= h
            assert got[i].item() * factor == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4, abs=1e-6)


# as weights


@pytest.mark.parametrize("scale", ["measured", "learned"])
def test_every_strategy_trains_the_same_parameter_and_is_hard_in_evaluation(scale: str) -> None:
    hard = []
    for strategy in fitting(3, scale=scale):
        layer = nn.Linear(6, 4)
        layer.weight.data.copy_(weight(4, 6))
        quantize_weight(layer, strategy, bits=3, scale=scale)
        names = [name for name, _ in layer.named_parameters()]
        own = ["parametrizations.weight.0.step"] if scale == "learned" else []
        assert names == ["bias", "parametrizations.weight.original", *own]
        layer(weight(5, 6)).square().sum().backward()
        assert layer.parametrizations.weight.original.grad.isfinite().all()
        hard.append(layer.eval().weight.detach())
        copied = copy.deepcopy(layer)
        assert torch.equal(copied.weight, layer.weight)
        parametrize.remove_parametrizations(copied, "weight")
        assert torch.equal(copied.weight, hard[-1])
    assert all(torch.equal(w, hard[0]) for w in hard)


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    x = weight(3, 40, dtype=dtype)
    for grid, bits in GRIDS:
        y = quantizer(x, bits=bits, grid=grid)(x)
        assert y.dtype == dtype
        assert torch.equal(y, quantizer(x.float(), bits=bits, grid=grid)(x.float()).to(dtype))


def test_a_saved_step_is_loaded_and_not_measured_again() -> None:
    """Case E11."""
    model = nn.Sequential(quantize_weight(nn.Linear(6, 4), STE, scale="learned"), nn.ReLU())
    calibrate(model, weight(5, 6))
    step = model[0].parametrizations.weight[0].step
    step.data.mul_(1.5)
    stream = io.BytesIO()
    torch.save(model.state_dict(), stream)
    stream.seek(0)
    fresh = nn.Sequential(quantize_weight(nn.Linear(6, 4), STE, scale="learned"), nn.ReLU())
    fresh.load_state_dict(torch.load(stream, weights_only=True))
    fresh(weight(5, 6, seed=3))
    assert torch.equal(fresh[0].parametrizations.weight[0].step, step)


def test_calibration_sets_the_step_from_the_weights_before_they_are_used() -> None:
    layer = quantize_weight(nn.Linear(6, 4), STE, scale="learned")
    layer.parametrizations.weight.original.data.copy_(weight(4, 6))
    calibrate(layer, weight(5, 6))
    torch.testing.assert_close(
        layer.parametrizations.weight[0].step.detach(), 2 * weight(4, 6).abs().mean(1) / math.sqrt(7)
    )
    assert len(hard_layers(layer)) == 1


def test_under_the_subgradient_a_weight_never_learns_but_a_learned_step_does() -> None:
    layer = quantize_weight(nn.Linear(6, 4), Subgradient(), scale="learned")
    layer(weight(5, 6)).square().sum().backward()
    assert (layer.parametrizations.weight.original.grad == 0).all()
    assert (layer.parametrizations.weight[0].step.grad != 0).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bits": 0}, "bits.*0"),
        ({"per": "row"}, "per must be one of tensor, channel, group.*'row'"),
        ({"grid": "log"}, "grid must be one of symmetric, affine.*'log'"),
        ({"scale": "max"}, "scale must be one of measured, learned.*'max'"),
        ({"group_size": 0}, "group_size.*0"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        QuantizedWeight(STE, **options)


def test_an_unknown_layer_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"Linear, Conv1d.*ConvTranspose3d; got Bilinear"):
        quantize_weight(nn.Bilinear(2, 3, 4), STE)
    assert len(CHANNEL_AXIS) == 7
    with pytest.raises(EmptyCell):
        QuantizedWeight(StraightThrough(form="nothing"))


@pytest.mark.parametrize("bits", [1, 2, 8])
def test_the_largest_numbers_of_float32_overflow_no_symmetric_grid(bits: int) -> None:
    """Numbers whose sum float32 cannot hold."""
    x = torch.tensor([[3e38, -3e38, 3e38, 3e38]])
    assert quantizer(x, bits=bits)(x).isfinite().all()
    if bits == 1:
        torch.testing.assert_close(quantizer(x, bits=1)(x), x)
