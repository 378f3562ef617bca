"""Spikes, winners and learned thresholds against plain references."""

import math

import pytest
import torch

from experiments.config.choices import ConfigError, choose
from experiments.training.build import build_model
from products import HALF, gradients
from runs import compose
from surrogates.layers.k_winners import KWinners
from surrogates.layers.learned_threshold import LearnedThreshold
from surrogates.layers.spike import Spike
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

torch.set_num_threads(1)
STE = StraightThrough()
SOFT = Smooth(temperature=0.3, schedule="constant")


# spike


def by_hand(current: float, steps: int, decay: float, threshold: float, reset: str) -> tuple[list[int], list[float]]:
    """Spikes and potentials of one unit, after each step, in plain Python."""
    v, spikes, potentials = 0.0, [], []
    for _ in range(steps):
        v = decay * v + current
        fires = v >= threshold
        if fires and reset == "subtract":
            v -= threshold
        elif fires:
            v = 0.0
        spikes.append(int(fires))
        potentials.append(v)
    return spikes, potentials


@pytest.mark.parametrize("reset", ["subtract", "zero"])
@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 1.0])
def test_a_unit_integrates_leaks_fires_and_is_reset(reset: str, decay: float) -> None:
    currents = torch.linspace(-2, 4, 61, dtype=torch.float64)
    for steps in (1, 2, 7):
        layer = Spike(STE, steps=steps, decay=decay, threshold=0.75, reset=reset)
        expected = [sum(by_hand(x, steps, decay, 0.75, reset)[0]) / steps for x in currents.tolist()]
        assert layer(currents.unsqueeze(0)).tolist() == [expected]
        assert layer.eval()(currents.unsqueeze(0)).tolist() == [expected]


@pytest.mark.parametrize("reset", ["subtract", "zero"])
def test_input_over_time_gives_the_spikes_of_each_step(reset: str) -> None:
    """A constant current gives the spikes whose mean is the rate; one that varies, those of the loop by hand."""
    layer = Spike(STE, steps=7, decay=0.5, threshold=0.75, reset=reset)
    currents = torch.linspace(-2, 4, 60, dtype=torch.float64).view(3, 20)
    spikes = layer.over_time(currents.expand(7, 3, 20))
    expected = [[by_hand(x, 7, 0.5, 0.75, reset)[0] for x in row] for row in currents.tolist()]
    assert torch.equal(spikes, torch.tensor(expected, dtype=torch.float64).movedim(-1, 0))
    assert torch.equal(spikes.sum(0) / 7, layer(currents))
    pulse = torch.zeros(4, 1, 1)
    pulse[1] = 1.0
    assert layer.over_time(pulse).flatten().tolist() == [0, 1, 0, 0]
    slope = gradients(lambda x: layer.over_time(x)[2], [pulse])[0].flatten()
    assert slope[3] == 0 != slope[2]
    for shape in ((3, 20), (0, 3, 20)):
        with pytest.raises(ValueError, match=r"over_time takes \(time, batch, width, ...\), got the shape"):
            layer.over_time(torch.zeros(shape))


def test_the_resets_differ_and_subtracting_keeps_what_is_above_the_threshold() -> None:
    """0.75 without a leak: 0.75, 1.5 -> 0.5, 1.25 -> 0.25, 1.0 -> 0, 0.75; to zero: 0.75, 1.5 -> 0, 0.75, 1.5 -> 0."""
    assert by_hand(0.75, 5, 1.0, 1.0, "subtract")[0] == [0, 1, 1, 1, 0]
    assert by_hand(0.75, 5, 1.0, 1.0, "zero")[0] == [0, 1, 0, 1, 0]
    x = torch.full((1, 1), 0.75)
    assert Spike(STE, steps=5, decay=1.0, reset="subtract")(x).item() == pytest.approx(3 / 5)
    assert Spike(STE, steps=5, decay=1.0, reset="zero")(x).item() == pytest.approx(2 / 5)


def test_reaching_the_threshold_fires_and_no_input_does_not() -> None:
    x = torch.tensor([[1.0, 0.0, math.nextafter(1.0, 0.0)]], dtype=torch.float64)
    assert Spike(STE, steps=1)(x).tolist() == [[1, 0, 0]]


@pytest.mark.parametrize("reset", ["subtract", "zero"])
def test_the_smooth_rate_has_its_own_derivative_reset_included(reset: str) -> None:
    layer, h = Spike(SOFT, steps=5, reset=reset), 1e-6
    x = torch.linspace(-1, 2, 13, dtype=torch.float64).unsqueeze(0)
    (got,) = gradients(layer, [x])
    torch.testing.assert_close(got, (layer(x + h) - layer(x - h)) / (2 * h), atol=1e-7, rtol=1e-5)


def test_two_steps_of_the_straight_through_derivative_by_hand() -> None:
    """h = 1/2 within 1 of the threshold. Step 1: v = x, ds1 = h. Reset: dv = 1 - h. Step 2: ds2 = h2 (decay dv + 1)."""
    for current, h1, h2 in ((0.8, 0.5, 0.5), (1.2, 0.5, 0.5), (2.5, 0.0, 0.0)):
        x = torch.tensor([[current]], dtype=torch.float64)
        (got,) = gradients(Spike(STE, steps=2, decay=0.5), [x])
        assert got.item() == pytest.approx((h1 + h2 * (0.5 * (1 - h1) + 1)) / 2), current
    (still,) = gradients(Spike(Subgradient()), [x])
    assert (still == 0).all()


@pytest.mark.parametrize("reset", ["subtract", "zero"])
def test_a_detached_reset_passes_no_derivative(reset: str) -> None:
    """The sum over steps of h_t times dv_t/dx, where dv grows by the leak alone, or is cut by the spike's value."""
    layer = Spike(STE, steps=4, decay=0.5, reset=reset, detach_reset=True)
    x = torch.linspace(-1, 2.5, 29, dtype=torch.float64).unsqueeze(0)
    v = dv = total = torch.zeros_like(x)
    for _ in range(4):
        v, dv = 0.5 * v + x, 0.5 * dv + 1
        s = (v >= 1).double()
        total = total + 0.5 * ((v - 1).abs() <= 1) * dv
        v, dv = (v - s, dv) if reset == "subtract" else (v * (1 - s), dv * (1 - s))
    torch.testing.assert_close(gradients(layer, [x])[0], total / 4)
    assert torch.equal(layer(x), Spike(STE, steps=4, decay=0.5, reset=reset)(x))
    assert not torch.equal(gradients(Spike(STE, steps=4, decay=0.5, reset=reset), [x])[0], total / 4)


# k winners


def test_the_k_largest_of_the_layer_pass() -> None:
    x = torch.randn(6, 10, 3, generator=torch.Generator().manual_seed(0))
    for strategy in (STE, Subgradient()):
        y = KWinners(strategy, k=4)(x)
        assert ((y != 0).sum(1) == 4).all()
        kept = x.topk(4, dim=1)
        assert torch.equal(y, torch.zeros_like(x).scatter(1, kept.indices, kept.values))
    (got,) = gradients(KWinners(Subgradient(), k=4), [x])
    assert torch.equal(got, (y != 0).float())
    (taught,) = gradients(KWinners(STE, k=4), [x])
    assert (taught[y == 0] != 0).all()


def test_all_of_a_layer_may_win_but_not_more() -> None:
    x = torch.randn(2, 3)
    assert torch.equal(KWinners(STE, k=3)(x), x)
    with pytest.raises(ConfigError, match=r"component\.k must be at most the layer's 4 activations, got 5"):
        build_model(choose(compose("component=k_winners", "component.k=5", "model.width=4")))


# learned thresholds


def test_a_learned_threshold_passes_what_reaches_it() -> None:
    x = torch.tensor([[-1.0, 0.25, 0.5, 0.75, 0.5 - 1e-7]])
    assert LearnedThreshold(STE)(x).tolist() == [[0.0, 0.0, 0.5, 0.75, 0.0]]
    assert LearnedThreshold(STE, start=-2.0)(x).tolist() == x.tolist()


def test_its_derivative_is_minus_the_height_of_the_jump_times_the_density_at_it() -> None:
    """d/dt E[x 1(x + T e >= t)] = -x F'((x - t) / T) / T, by finite differences; exactly 0 under the subgradient."""
    x = torch.linspace(-1, 2, 40, dtype=torch.float64).unsqueeze(0)
    layer, h = LearnedThreshold(SOFT).double(), 1e-6
    (got,) = torch.autograd.grad(layer(x).sum(), layer.threshold)
    u = (x - 0.5) / 0.3
    torch.testing.assert_close(got, -(x * torch.sigmoid(u) * torch.sigmoid(-u) / 0.3).sum())
    values = []
    for moved in (0.5 + h, 0.5 - h):
        layer.threshold.data.fill_(moved)
        values.append(layer(x).sum())
    torch.testing.assert_close(got, (values[0] - values[1]).detach() / (2 * h), rtol=1e-6, atol=0)
    still = LearnedThreshold(Subgradient())
    assert torch.autograd.grad(still(x.float()).sum(), still.threshold)[0] == 0
    for dtype in HALF:
        half = LearnedThreshold(STE)
        (slope,) = torch.autograd.grad(half(x.to(dtype)).sum(), half.threshold)
        assert slope.dtype == torch.float32
        assert slope != 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Spike(STE, steps=0), "steps.*0"),
        (lambda: Spike(STE, decay=1.5), "decay.*1.5"),
        (lambda: Spike(STE, decay=math.nan), "decay.*nan"),
        (lambda: Spike(STE, threshold=0.0), "threshold.*0.0"),
        (lambda: Spike(STE, threshold=1e300), "threshold.*1e\\+300"),
        (lambda: Spike(STE, reset="hard"), "reset must be one of subtract, zero; got 'hard'"),
        (lambda: KWinners(STE, k=0), "k.*0"),
        (lambda: LearnedThreshold(STE, start=math.inf), "start.*inf"),
        (lambda: LearnedThreshold(STE, start=1e-300), "start.*1e-300"),
    ],
)
def test_bad_arguments_are_refused_with_their_value(make, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()
