"""The intervals and verdicts behind the findings: exact coverage by enumeration, and where nothing is decided."""

import itertools
import math

import pytest
import torch

pytest.importorskip("scipy")
from scipy import stats

from experiments.oracles import first_layer
from experiments.oracles.intervals import (
    Interval,
    mean_interval,
    share_difference_interval,
    share_interval,
    together,
)
from experiments.oracles.many_nets import agreement_of_orders
from experiments.oracles.scores import score
from experiments.oracles.verdicts import above, below, within, words

SLEEP = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]  # differences of ten patients (Student 1908)
ALONE = (0.0, 0.05, 0.2, 0.45)  # chances that one of two methods succeeds alone


@pytest.mark.parametrize("n", [1, 5, 20])
def test_share_intervals_hold_every_share_often_enough(n):
    intervals = [share_interval(hits, n) for hits in range(n + 1)]
    assert (intervals[0].low, intervals[-1].high) == (0, 1)
    assert intervals[0].high == pytest.approx(1 - 0.025 ** (1 / n))
    for p in (0.0, 0.01, 0.1, 0.3, 0.5, 0.99, 1.0):
        held = sum(stats.binom.pmf(k, n, p) for k, i in enumerate(intervals) if i.low <= p <= i.high)
        assert held >= 0.95 - 1e-12


def test_differences_of_paired_shares_hold_the_true_one_often_enough():
    n = 6
    counts = [(a, b) for a, b in itertools.product(range(n + 1), repeat=2) if a + b <= n]
    found = {
        (a, b): share_difference_interval([True] * a + [False] * (n - a), [False] * (n - b) + [True] * b)
        for a, b in counts
    }
    assert all(interval.mean == pytest.approx((a - b) / n) for (a, b), interval in found.items())
    for p, q in itertools.product(ALONE, repeat=2):
        held = [key for key, interval in found.items() if interval.low <= p - q <= interval.high]
        chances = [stats.multinomial.pmf((a, b, n - a - b), n, (p, q, 1 - p - q)) for a, b in held]
        assert sum(chances) >= 0.95 - 1e-12


def test_both_successes_count_for_neither_side():
    assert share_difference_interval([True, True, False], [True, False, False]).mean == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="zip"):
        share_difference_interval([True], [True, False])


def test_the_interval_of_a_mean_is_scipys():
    expected = stats.ttest_1samp(SLEEP, 0).confidence_interval(0.99)
    found = mean_interval(SLEEP, 0.99)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert (found.mean, found.n) == (pytest.approx(1.58), 10)


@pytest.mark.parametrize("values", [[0.3], [0.1 + 0.2, 0.3, 0.3], [0.0, 0.0]])
def test_equal_values_have_no_interval_and_decide_nothing(values):
    interval = mean_interval(values)
    assert math.isnan(interval.low)
    assert above([interval], -1) is below([interval], 1) is within([interval], -1, 1) is None
    assert "no interval" in words(interval)


def test_a_verdict_is_about_all_intervals():
    low, middle, high = Interval(-2, -3, -1, 9), Interval(0, -1, 1, 9), Interval(2, 1, 3, 9)
    assert [above([i], 0) for i in (low, middle, high)] == [False, None, True]
    assert [below([i], 0) for i in (low, middle, high)] == [True, None, False]
    assert [within([i], -1.5, 1.5) for i in (low, middle, high)] == [None, True, None]
    assert [within([i], -0.5, 0.5) for i in (low, middle, high)] == [False, None, False]
    assert above([high, middle], 0) is None
    assert above([high, middle, low], 0) is False
    assert words(high.moved(1, 2), ".1f") == "0.5 (0.0 to 1.0)"


@pytest.mark.parametrize("count", [1, 3, 20])
def test_intervals_together_miss_in_five_of_a_hundred(count):
    assert count * (1 - together(count)) == pytest.approx(0.05)


def test_the_rate_is_the_smallest_with_half_of_the_largest_decrease(monkeypatch):
    decreases = {("a", 1.0): 0.2, ("a", 3.0): 0.5, ("a", 9.0): 0.9, ("b", 0.1): 0.4, ("b", 0.2): 1.0}
    monkeypatch.setattr(first_layer, "OPTIMIZERS", {"a": "a", "b": "b"})
    monkeypatch.setattr(
        first_layer, "train", lambda seed, arm, by, lr: torch.tensor([2.0 + seed, 2.0 + seed - decreases[by, lr]])
    )
    assert first_layer.choose_rates({"a": (9.0, 1.0, 3.0), "b": (0.1, 0.2)}, range(3)) == {"a": 3.0, "b": 0.2}


def test_opposite_orders_of_bias_and_cosine():
    truth = torch.tensor([1.0, 0.0], dtype=torch.float64)
    noisy = torch.tensor([[1.1, 4.0], [1.1, -4.0]], dtype=torch.float64).repeat(500, 1)  # nearly right in the mean
    steady = torch.tensor([[2.0, 0.1]], dtype=torch.float64)  # twice too long, and hardly any noise
    scores = [score(noisy, truth), score(steady, truth)]
    assert agreement_of_orders(scores) == pytest.approx(-1)
    assert agreement_of_orders(scores[::-1]) == pytest.approx(-1)
