"""Temperature schedules: ends, order, floor."""

import math
from itertools import pairwise

import pytest
import torch

from surrogates.ops.argmax import ArgMax
from surrogates.ops.relu import ReLU
from surrogates.schedules import SCHEDULES, SMALLEST, GapClock, require_temperature
from surrogates.strategies.smooth import Smooth

every_schedule = pytest.mark.parametrize("name", SCHEDULES)
SPANS = [(1.0, 0.1), (0.1, 1.0), (5.0, 1e-3), (0.3, 0.3), (1e6, 1e-12), (0.7, 0.1)]


def test_there_are_five_schedules() -> None:
    assert list(SCHEDULES) == ["constant", "linear", "exponential", "cosine", "sigmoid"]


@every_schedule
def test_both_ends_are_hit_exactly_and_held_beyond(name: str) -> None:
    for start, end in SPANS:
        schedule = SCHEDULES[name](start, end)
        last = start if name == "constant" else end
        assert (schedule(0.0), schedule(1.0)) == (start, last)
        assert (schedule(-0.5), schedule(1.5)) == (start, last)


@every_schedule
def test_the_way_is_monotone_and_stays_between_the_ends(name: str) -> None:
    for start, end in SPANS:
        values = [SCHEDULES[name](start, end)(k / 1000) for k in range(1001)]
        steps = [b - a for a, b in pairwise(values)]
        slack = 1e-14 * max(start, end)
        assert all(step <= slack for step in steps) or all(step >= -slack for step in steps)
        assert min(values) >= min(start, end) * (1 - 1e-12)
        assert max(values) <= max(start, end) * (1 + 1e-12)
        assert min(values) > 0


def test_the_formulas_half_way() -> None:
    assert SCHEDULES["constant"](2.0, 0.5)(0.5) == 2.0
    assert SCHEDULES["linear"](2.0, 0.5)(0.5) == pytest.approx(1.25)
    assert SCHEDULES["exponential"](2.0, 0.5)(0.5) == pytest.approx(1.0)
    rho = [SCHEDULES["sigmoid"](1.0, 1e-12)(p) for p in (0.25, 0.5)]
    ends = [1 / (1 + math.exp(-5)), 1 / (1 + math.exp(5))]
    assert rho == pytest.approx([(1 / (1 + math.exp(-2.5)) - ends[1]) / (ends[0] - ends[1]), 0.5])
    assert SCHEDULES["cosine"](2.0, 0.5)(0.5) == pytest.approx(1.25)
    assert SCHEDULES["cosine"](2.0, 0.5)(0.25) == pytest.approx(1.25 + 0.75 * math.cos(math.pi / 4))


@every_schedule
@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan, 1e-13])
def test_an_end_that_is_no_temperature_is_refused_by_name_and_value(name: str, bad: float) -> None:
    """Case C01."""
    for field, ends in (("start", (bad, 1.0)), ("end", (1.0, bad))):
        with pytest.raises(ValueError, match=f"{field} must be a (positive, finite )?number.*got {bad}"):
            SCHEDULES[name](*ends)


@every_schedule
def test_annealing_as_far_as_it_goes_never_underflows(name: str) -> None:
    """Case C02: 2,000 steps to the smallest temperature there is: values and gradients stay finite, and end hard."""
    schedule = SCHEDULES[name](1.0, SMALLEST)
    x = torch.tensor([1.0, 2.0, -3.0], requires_grad=True)
    for op, hard in ((ArgMax(), [0.0, 1.0, 0.0]), (ReLU(), [1.0, 2.0, 0.0])):
        for step in range(0, 2001, 100):
            T = torch.tensor(schedule(step / 2000))
            assert T > 0
            y = Smooth()(op, x, T=T)
            (gradient,) = torch.autograd.grad(y.square().sum(), x)
            assert y.isfinite().all()
            assert gradient.isfinite().all()
        if name != "constant":
            assert y.tolist() == hard


def test_the_clock_of_a_gap_counts_the_steps_before_which_it_was_above_its_target_or_not_measured() -> None:
    clock = GapClock(0.25)
    one = torch.ones(4)
    assert clock(0.0) == 0.0
    assert clock(0.1) == pytest.approx(0.1)  # nothing measured yet
    clock.measure(one, one - torch.tensor([1.0, -1.0, 0.0, 0.0]))  # a mean of 0.5
    assert clock(0.3) == pytest.approx(0.3)
    clock.measure(one, one - 0.25)  # the target itself
    assert [clock(0.4), clock(0.6)] == [pytest.approx(0.3)] * 2
    clock.measure(one, one - math.nan)
    assert clock(0.7) == pytest.approx(0.4)
    assert clock.state.tolist() == [0.7, pytest.approx(0.4), pytest.approx(math.nan, nan_ok=True)]
    assert str(clock) == "GapClock(target=0.25)"


def test_a_temperature_at_either_end_of_its_range_is_taken() -> None:
    for value in (1e-12, 1e12):
        require_temperature("T", value)
    for value in (math.nextafter(1e-12, 0), math.nextafter(1e12, math.inf), None):
        with pytest.raises(
            ValueError, match=f"^T must be a positive, finite number of at least 1e-12.*got {value}".replace("+", r"\+")
        ):
            require_temperature("T", value)
