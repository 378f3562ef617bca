"""The statistics of the comparison: against scipy, published worked examples, enumeration and simulation."""

import itertools
import math

import numpy as np
import pytest

pytest.importorskip("scipy")
from scipy import stats

from experiments.compare.statistics.intervals import (
    ConfidenceInterval,
    difference_interval,
    mean_interval,
    seeds_needed,
)
from experiments.compare.statistics.permutation import (
    holm,
    permutation_test,
    probability_of_improvement,
    seeds_to_reach,
    smallest_p,
)

# Extra hours of sleep under two drugs, 10 patients (Student 1908, The probable error of a mean; R's data set `sleep`).
SLEEP = (
    np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]),
    np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]),
)
# Cross- less self-fertilised maize, eighths of an inch, 15 pairs (Darwin 1876; Fisher 1935, The Design of Experiments).
MAIZE = np.array([49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48.0])
# Spatial test, 26 children (Efron and Tibshirani 1993, An Introduction to the Bootstrap, table 14.1, column A).
SPATIAL = [48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6, 0, 33, 28, 34, 4, 32, 24, 47, 41, 24, 26, 30, 41]


def test_paired_t_on_students_sleep_data():
    """R's documentation of t.test: mean of the differences -1.58, 95 % interval -2.4598858 to -0.7001142."""
    found = difference_interval(*SLEEP, paired=True)
    assert (found.mean, found.n) == (pytest.approx(-1.58), 10)
    assert (found.low, found.high) == (pytest.approx(-2.4598858, abs=5e-8), pytest.approx(-0.7001142, abs=5e-8))


def test_welch_on_students_sleep_data():
    """R's documentation of t.test, unpaired: -3.3654832 to 0.2054832."""
    found = difference_interval(*SLEEP, paired=False)
    assert (found.low, found.high) == (pytest.approx(-3.3654832, abs=5e-8), pytest.approx(0.2054832, abs=5e-8))


def test_sign_flips_on_darwins_maize():
    """Fisher 1935, section 21: 863 of the 32,768 assignments of signs reach the observed sum of 314."""
    assert MAIZE.sum() == 314
    found = permutation_test(MAIZE, np.zeros(15), paired=True)
    assert found.p == 2 * 863 / 32768
    assert found.smallest == 2 / 32768


def test_bca_on_the_spatial_test_data():
    """Efron and Tibshirani 1993, table 14.2: 90 % interval 115.8 to 259.6 of the variance 171.5, 2,000 resamples.

    The bootstrap that our intervals hand their statistic to; the tolerance is what 2,000 resamples leave open.
    """
    from experiments.compare.statistics.intervals import _bca

    assert np.var(SPATIAL) == pytest.approx(171.5, abs=0.05)
    ends = _bca((np.array(SPATIAL, float),), lambda x, axis: np.var(x, axis=axis), 0.9)
    assert ends.low == pytest.approx(115.8, abs=4)
    assert ends.high == pytest.approx(259.6, abs=6)


def test_holm_on_demsars_classifiers():
    """Demsar 2006, JMLR 7, section 3.2.2: C4.5 against three variants, p = .016, .019, .607 held against .05 / 3, 2, 1.

    The first two are rejected and the third is not; Bonferroni's .05 / 3 would keep the second.
    """
    adjusted = holm([0.607, 0.016, 0.019])
    assert adjusted == pytest.approx([0.607, 0.048, 0.048])
    assert [value <= 0.05 for value in adjusted] == [False, True, True]


def test_holm_of_none_and_of_p_that_would_pass_one():
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_holm_rejects_what_the_step_down_procedure_rejects():
    generator = np.random.default_rng(0)
    for _ in range(200):
        p = generator.beta(0.3, 2, size=5).round(3)
        adjusted = np.array(holm(p.tolist()))
        alpha, rejected = 0.05, set()
        for rank, index in enumerate(np.argsort(p, kind="stable")):
            if p[index] > alpha / (5 - rank):
                break
            rejected.add(int(index))
        assert set(np.flatnonzero(adjusted <= alpha + 1e-15)) == rejected


def test_mann_whitney_of_scipys_own_example():
    """Ages at the diagnosis of diabetes, from scipy's documentation of mannwhitneyu: U = 17 of 20."""
    assert probability_of_improvement([19, 22, 16, 29, 24], [20, 11, 17, 12]) == 17 / 20
    assert probability_of_improvement([1, 1], [1, 1]) == 0.5


@pytest.mark.parametrize("method", ["t", "bca"])
@pytest.mark.parametrize("paired", [True, False])
def test_intervals_are_scipys(method, paired):
    generator = np.random.default_rng(1)
    a, b = generator.normal(size=12), generator.normal(0.3, 2, size=12)
    found = difference_interval(a, b, paired, method)
    if method == "t":
        reference = (stats.ttest_rel(a, b) if paired else stats.ttest_ind(a, b, equal_var=False)).confidence_interval()
    else:
        settings = {"n_resamples": 9_999, "rng": np.random.default_rng(0)}
        reference = stats.bootstrap(
            (a, b), lambda a, b, axis: a.mean(axis) - b.mean(axis), paired=paired, **settings
        ).confidence_interval
    tolerance = 1e-12 if method == "t" or not paired else 0.05  # pairs are resampled as differences: other draws
    assert (found.low, found.high) == pytest.approx(tuple(reference), abs=tolerance)
    assert found.mean == pytest.approx(a.mean() - b.mean())
    again = difference_interval(a, b, paired, method)
    assert again == found


@pytest.mark.parametrize("n", [5, 10, 20])
def test_the_default_interval_covers(n):
    """95 % of the intervals of normal data hold the truth; 20,000 samples, standard error 0.0015."""
    x = np.random.default_rng(n).normal(0.3, 1.0, size=(20_000, n))
    ends = stats.ttest_1samp(x, 0.0, axis=1).confidence_interval(0.95)
    for row in (0, 1, 2):
        found = mean_interval(x[row])
        assert (found.low, found.high) == pytest.approx((ends.low[row], ends.high[row]))
    assert 0.93 < np.mean((ends.low < 0.3) & (ends.high > 0.3)) < 0.97


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 10, 20])
def test_the_default_interval_covers_one_comparison_at_a_time(n):
    """The functions themselves, paired on data that share most of their noise and unpaired on unequal spreads."""
    generator = np.random.default_rng(100 + n)
    for paired in (True, False):
        hits = 0
        for _ in range(2_000):
            common = generator.normal(0, 3, n) if paired else 0
            found = difference_interval(
                common + generator.normal(0.5, 1, n), common + generator.normal(0, 2, n), paired
            )
            hits += found.low < 0.5 < found.high
        assert 0.93 < hits / 2_000 < 0.97


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6])
def test_sign_flip_p_by_enumeration(n):
    d = np.random.default_rng(n).normal(0.8, 1, n)
    sums = np.array([np.dot(signs, d) for signs in itertools.product((1, -1), repeat=n)])
    expected = min(1.0, 2 * min(np.mean(sums >= d.sum() - 1e-12), np.mean(sums <= d.sum() + 1e-12)))
    assert permutation_test(d, np.zeros(n), True).p == pytest.approx(expected)
    extreme = permutation_test(np.arange(1.0, n + 1), np.zeros(n), True)
    assert extreme.p == extreme.smallest == min(1.0, 2 / 2**n)


def test_unpaired_p_by_enumeration():
    a, b = np.array([1.0, 2.5, 0.3]), np.array([0.1, 0.2, -1.0, 0.4])
    pooled, observed = np.concatenate([a, b]), a.mean() - b.mean()
    means = []
    for chosen in itertools.combinations(range(7), 3):
        rest = [i for i in range(7) if i not in chosen]
        means.append(pooled[list(chosen)].mean() - pooled[rest].mean())
    expected = 2 * min(np.mean(np.array(means) >= observed - 1e-12), np.mean(np.array(means) <= observed + 1e-12))
    found = permutation_test(a, b, False)
    assert found.p == pytest.approx(expected)
    assert found.smallest == 2 / math.comb(7, 3)


def test_five_seeds_cannot_reach_five_percent():
    assert smallest_p(5, 5, True) == 0.0625
    assert smallest_p(6, 6, True) == 0.03125
    assert [smallest_p(n, n, True) for n in (0, 1, 2, 16, 17)] == [1, 1, 0.5, 2 / 65_536, 2 / 10_000]
    assert [seeds_to_reach(0.05, comparisons) for comparisons in (1, 2, 3, 7)] == [6, 7, 7, 9]
    assert [seeds_to_reach(p, 1) for p in (1.0, 0.0625, 1e-9)] == [1, 5, 64]  # 64 stands for more than can be reached
    drawn = permutation_test(np.arange(1.0, 21), np.zeros(20), True)
    assert drawn.p == drawn.smallest == 2 / 10_000


def test_no_difference_is_no_evidence():
    same = np.array([0.5, 0.7, 0.6])
    found = difference_interval(same, same, True)
    assert (found.mean, found.low, found.high) == (0, 0, 0)
    assert permutation_test(same, same, True).p == 1
    assert difference_interval([0.5, 0.5], [0.25] * 3, False) == ConfidenceInterval(0.25, 0.25, 0.25, 2)


@pytest.mark.parametrize("method", ["t", "bca"])
@pytest.mark.parametrize("constant", [[0.1] * 6, [0.1 + 1e-16 * i for i in range(6)]], ids=["equal", "rounded"])
def test_a_side_without_spread_is_treated_as_such(method, constant):
    """All runs at a guess, say; scipy warns of its own precision there, which would be an error here."""
    varied = np.array([0.5, 0.6, 0.52, 0.58, 0.61, 0.49])
    alone = mean_interval(varied, method)
    for a, b, sign in ((varied, constant, 1), (constant, varied, -1)):
        found = difference_interval(a, b, False, method)
        assert found.mean == pytest.approx(sign * (alone.mean - 0.1))
        if method == "t":
            ends = sorted(sign * (end - 0.1) for end in (alone.low, alone.high))
            assert (found.low, found.high) == pytest.approx(tuple(ends))
    assert mean_interval(constant, method).half_width == 0
    assert permutation_test(varied, constant, False).p == pytest.approx(2 / math.comb(12, 6))


def test_unpaired_seeds_are_counted_on_the_smaller_side():
    few, many = [0.5, 0.7], [0.1, 0.2, 0.4]
    assert (difference_interval(few, many, False).n, difference_interval(many, few, False).n) == (2, 2)


def test_one_seed_has_no_interval():
    for paired in (True, False):
        found = difference_interval([0.5], [0.25], paired)
        assert (found.mean, found.n) == (0.25, 1)
        assert math.isnan(found.low)
        assert math.isnan(found.high)
        assert seeds_needed([0.5], [0.25], paired, 0.01) is None


@pytest.mark.parametrize("method", ["t", "bca"])
def test_the_interval_of_pairs_is_that_of_their_differences_at_any_level(method):
    a, b = SLEEP
    found = [difference_interval(a, b, True, method, level) for level in (0.8, 0.95)]
    assert found == [mean_interval(a - b, method, level) for level in (0.8, 0.95)]
    assert found[0].half_width < found[1].half_width


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_an_interval_is_in_the_unit_of_its_numbers(unit):
    x = np.array([0.1, 0.2, 0.4])
    found, scaled = mean_interval(x), mean_interval(unit * x)
    assert scaled.half_width == pytest.approx(unit * found.half_width)
    assert mean_interval(unit * np.array([0.1, 0.1 + 1e-16])).half_width == 0


def test_an_interval_is_computed_in_float64():
    x = np.array([0.1, 0.2, 0.4], np.float32)
    assert mean_interval(x) == mean_interval(x.astype(np.float64))


def test_bad_samples_are_refused():
    for bad in ([], [[1.0]], [math.nan, 1.0], [math.inf]):
        with pytest.raises(ValueError, match=r"^an interval needs"):
            mean_interval(bad)
    with pytest.raises(ValueError, match="one length, got 2 and 3"):
        difference_interval([1, 2], [1, 2, 3], True)


def test_seeds_needed_is_the_first_that_suffices():
    a, b = SLEEP
    for paired in (True, False):
        n = seeds_needed(a, b, paired, 0.5)
        spread = (a - b).std(ddof=1) if paired else math.hypot(a.std(ddof=1), b.std(ddof=1))

        def half(n, paired=paired, spread=spread):
            return stats.t.ppf(0.975, n - 1 if paired else 2 * n - 2) * spread / math.sqrt(n)

        assert half(n) <= 0.5 < half(n - 1)
    assert seeds_needed(a, b, True, 1e-9) is None


@pytest.mark.parametrize(("paired", "sides"), [(True, (1.0, 0.0)), (False, (0.6, 0.8))])
def test_seeds_needed_by_the_table_of_student(paired, sides):
    """A spread of 1; two-sided 95 % points of t: 12.706, 4.303, 3.182, 2.776 for 1 to 4 degrees of freedom."""
    a, b = (scale * np.array([-1.0, 1.0]) / math.sqrt(2) for scale in sides)
    freedom = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}
    for n in (2, 3):
        half = freedom[n - 1 if paired else 2 * n - 2] / math.sqrt(n)
        assert seeds_needed(a, b, paired, half + 0.001, most=9) == n
        assert seeds_needed(a, b, paired, half - 0.001, most=9) == n + 1
        assert seeds_needed(a, b, paired, half + 0.001, most=n) == n
        assert seeds_needed(a, b, paired, half - 0.001, most=n) is None


def test_more_than_100_000_seeds_are_not_proposed():
    a, b = np.array([-1.0, 1.0]) / math.sqrt(2), np.zeros(2)
    half = stats.t.ppf(0.975, 99_999) / math.sqrt(100_000)
    assert seeds_needed(a, b, True, half * (1 + 1e-9)) == 100_000
    assert seeds_needed(a, b, True, half * (1 - 1e-9)) is None
    assert seeds_needed([0.0, 1.0], [0.0], False, 1.0) is None


def test_as_many_relabellings_as_are_enumerated_give_the_exact_p(monkeypatch):
    monkeypatch.setattr("experiments.compare.statistics.permutation.ENUMERATED", 16)
    monkeypatch.setattr("experiments.compare.statistics.permutation.DRAWN", 3)
    assert permutation_test(np.arange(1.0, 5), np.zeros(4), True).p == 2 / 16


@pytest.mark.parametrize("paired", [True, False])
def test_drawn_relabellings_are_the_same_in_every_report(paired):
    a, b = np.random.default_rng(3).normal(size=(2, 18))
    p = permutation_test(a, b, paired).p
    assert 2 / 10_000 < p < 1
    assert permutation_test(a, b, paired).p == p
