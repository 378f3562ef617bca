"""The statistics of the comparison: against scipy, published worked examples, enumeration and simulation."""

import itertools
import math

import numpy as np
import pytest

pytest.importorskip("scipy")
from scipy import stats

from experiments.compare.statistics.estimates import difference_estimate, mean_estimate, mean_interval
from experiments.compare.statistics.family import Family, families
from experiments.compare.statistics.intervals import Estimate, Part
from experiments.compare.statistics.permutation import compare_ranks, permutation_test, seeds_to_reach, smallest_p

# Extra hours of sleep under two drugs, 10 patients (Student 1908, The probable error of a mean; R's data set `sleep`).
SLEEP = (
    np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]),
    np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]),
)
# Cross- less self-fertilised maize, eighths of an inch, 15 pairs (Darwin 1876; Fisher 1935, The Design of Experiments).
MAIZE = np.array([49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48.0])


def difference(a, b, paired):
    return difference_estimate(a, b, paired).interval()


def test_paired_t_on_students_sleep_data():
    """R's documentation of t.test: mean of the differences -1.58, 95 % interval -2.4598858 to -0.7001142."""
    found = difference(*SLEEP, paired=True)
    assert (found.mean, found.n) == (pytest.approx(-1.58), 10)
    assert (found.low, found.high) == (pytest.approx(-2.4598858, abs=5e-8), pytest.approx(-0.7001142, abs=5e-8))


def test_welch_on_students_sleep_data():
    """R's documentation of t.test, unpaired: -3.3654832 to 0.2054832."""
    found = difference(*SLEEP, paired=False)
    assert (found.low, found.high) == (pytest.approx(-3.3654832, abs=5e-8), pytest.approx(0.2054832, abs=5e-8))


def test_sign_flips_on_darwins_maize():
    """Fisher 1935, section 21: 863 of the 32,768 assignments of signs reach the observed sum of 314."""
    assert MAIZE.sum() == 314
    found = permutation_test(MAIZE, np.zeros(15), paired=True)
    assert found.p == 2 * 863 / 32768
    assert found.smallest == 2 / 32768


def test_mann_whitney_of_scipys_own_example():
    """Ages at the diagnosis of diabetes, from scipy's documentation of mannwhitneyu: U = 17 of 20."""
    assert compare_ranks([19, 22, 16, 29, 24], [20, 11, 17, 12], False).better == 17 / 20
    assert compare_ranks([1, 1], [1, 1], True).better == 0.5


def test_failed_runs_rank_below_all_and_equal_to_each_other():
    inf = math.inf
    found = compare_ranks([0.9, 0.8, 0.7, -inf], [0.5, -inf, -inf, -inf], True)
    assert found.better == (4 + 4 + 4 + 0.5 * 3) / 16
    worse = compare_ranks([0.9, 0.8, 0.7, -inf], [-9.0, -inf, -inf, -inf], True)
    assert worse == found  # their values do not count
    everywhere = compare_ranks(np.arange(1.0, 9), np.full(8, -inf), True)
    assert (everywhere.better, everywhere.test.p) == (1.0, 2 / 2**8)


def test_the_p_of_ranks_is_that_of_scipys_exact_mann_whitney():
    generator = np.random.default_rng(5)
    for _ in range(5):
        a, b = generator.normal(0.5, 1, 6), generator.normal(size=5)
        expected = stats.mannwhitneyu(a, b, method="exact")
        found = compare_ranks(a, b, False)
        assert (found.better, found.test.p) == (pytest.approx(expected.statistic / 30), pytest.approx(expected.pvalue))


@pytest.mark.parametrize("paired", [True, False])
def test_intervals_and_p_are_scipys(paired):
    generator = np.random.default_rng(1)
    a, b = generator.normal(size=12), generator.normal(0.3, 2, size=12)
    found = difference_estimate(a, b, paired)
    reference = stats.ttest_rel(a, b) if paired else stats.ttest_ind(a, b, equal_var=False)
    for level in (0.9, 0.95):
        ends = tuple(reference.confidence_interval(level))
        assert (found.interval(level=level).low, found.interval(level=level).high) == pytest.approx(ends, abs=1e-12)
    assert found.mean == pytest.approx(a.mean() - b.mean())
    assert found.p() == pytest.approx(reference.pvalue)
    below = stats.ttest_1samp(a - b, -0.7, alternative="greater").pvalue
    above = stats.ttest_1samp(a - b, 0.7, alternative="less").pvalue
    if paired:
        assert found.p_equivalent(0.7) == pytest.approx(max(below, above))


@pytest.mark.parametrize("n", [5, 10, 20])
def test_the_default_interval_covers(n):
    """95 % of the intervals of normal data hold the truth; 20,000 samples, standard error 0.0015."""
    x = np.random.default_rng(n).normal(0.3, 1.0, size=(20_000, n))
    ends = stats.ttest_1samp(x, 0.0, axis=1).confidence_interval(0.95)
    for row in (0, 1, 2):
        found = mean_interval(x[row])
        assert (found.low, found.high) == pytest.approx((ends.low[row], ends.high[row]))
    assert 0.93 < np.mean((ends.low < 0.3) & (ends.high > 0.3)) < 0.97


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


@pytest.mark.parametrize("tied", [[0.1] * 6, [0.1 + 1e-16 * i for i in range(6)]], ids=["equal", "rounded"])
def test_ties_have_no_interval(tied):
    """A zero-width interval would read as certainty."""
    for found in (mean_interval(tied), difference(tied, [0.1] * 6, True), difference(tied, [0.3] * 6, False)):
        assert found.missing
        assert math.isnan(found.high)
        assert found.why_missing("pair") == "all 6 pairs agree, which shows nothing about the spread: no interval"
    assert permutation_test(tied, tied, True).p == 1


def test_a_side_without_spread_leaves_that_of_the_other():
    """All runs at one value, say; only the other side's degrees of freedom count."""
    varied, constant = np.array([0.5, 0.6, 0.52, 0.58, 0.61, 0.49]), [0.1] * 6
    alone = mean_interval(varied)
    for a, b, sign in ((varied, constant, 1), (constant, varied, -1)):
        found = difference(a, b, False)
        ends = sorted(sign * (end - 0.1) for end in (alone.low, alone.high))
        assert (found.low, found.high) == pytest.approx(tuple(ends))


def test_unpaired_seeds_are_counted_on_the_smaller_side():
    few, many = [0.5, 0.7, 0.6], [0.1, 0.2, 0.4, 0.3]
    assert (difference(few, many, False).n, difference(many, few, False).n) == (3, 3)


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_seeds_have_no_interval(n):
    a, b = [0.5, 0.7][:n], [0.25, 0.2][:n]
    for paired in (True, False):
        found = difference_estimate(a, b, paired)
        assert (found.mean, found.n) == (pytest.approx(np.mean(a) - np.mean(b)), n)
        assert found.interval().missing
        assert not found.known
        assert found.seeds_needed(0.01) is None
    assert mean_interval(a).why_missing("run") == ("1 run: no interval", "2 runs: no interval")[n - 1]


@pytest.mark.parametrize("mean", [0.5, 0.9, 0.999])
def test_the_interval_of_a_share_lies_within_0_and_1(mean):
    x = mean + np.array([-1.0, 0.0, 1.0]) * (1 - mean)
    found, plain = mean_interval(x, "share"), mean_interval(x)
    assert 0 < found.low < mean < found.high < 1 < plain.high
    logit = np.log(mean / (1 - mean))
    half = plain.half_width / (mean * (1 - mean))
    assert found.high == pytest.approx(1 / (1 + np.exp(-logit - half)))
    assert (1 - found.high) == pytest.approx(mean_interval(1 - x, "share").low)
    wide = difference_estimate(x, 1 - x, True).interval("difference of shares")
    assert -1 <= wide.low < wide.high <= 1


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_an_interval_is_in_the_unit_of_its_numbers(unit):
    x = np.array([0.1, 0.2, 0.4])
    assert mean_interval(unit * x).half_width == pytest.approx(unit * mean_interval(x).half_width)
    assert mean_interval(unit * np.array([0.1, 0.1 + 1e-16, 0.1])).missing


def test_an_interval_is_computed_in_float64():
    x = np.array([0.1, 0.2, 0.4], np.float32)
    assert mean_interval(x) == mean_interval(x.astype(np.float64))


def test_bad_samples_are_refused():
    for bad in ([], [[1.0]], [math.nan, 1.0], [math.inf]):
        with pytest.raises(ValueError, match=r"^an interval needs"):
            mean_interval(bad)
    with pytest.raises(ValueError, match="one length, got 2 and 3"):
        difference_estimate([1, 2], [1, 2, 3], True)


@pytest.mark.parametrize("paired", [True, False])
def test_seeds_needed_is_the_first_that_suffices(paired):
    a, b = SLEEP
    n = difference_estimate(a, b, paired).seeds_needed(0.8)
    own = [(a - b).var(ddof=1)] if paired else [a.var(ddof=1), b.var(ddof=1)]

    def half(n):
        return Estimate(0.0, n, tuple(Part(variance / n, n - 1) for variance in own)).interval().half_width

    assert half(n) <= 0.8 < half(n - 1)
    assert difference_estimate(a, b, paired).seeds_needed(1e-9) is None


def test_seeds_needed_by_the_table_of_student():
    """A spread of 1; two-sided 95 % points of t: 4.303, 3.182, 2.776 for 2 to 4 degrees of freedom."""
    found = Estimate(0.0, 5, (Part(1 / 5, 4),))
    for n, point in ((3, 4.303), (4, 3.182), (5, 2.776)):
        half = point / math.sqrt(n)
        assert found.seeds_needed(half + 0.001, most=9) == n
        assert found.seeds_needed(half - 0.001, most=9) == n + 1
        assert found.seeds_needed(half - 0.001, most=n) is None


def test_more_seeds_do_not_narrow_the_part_of_the_test_samples():
    found = Estimate(0.0, 4, (Part(1.0, 3),), Part(0.25, 999))
    floor = stats.t.ppf(0.975, 999) * 0.5
    assert found.seeds_needed(floor * 0.99) is None
    assert found.seeds_needed(floor * 1.1) > 4


def right(generator, n, samples, training):
    """Outcomes with a common difficulty of each sample."""
    hard = generator.normal(size=samples)
    return hard + training * generator.normal(size=(n, 1)) + generator.normal(size=(n, samples)) > 0


def test_the_variance_over_samples_is_that_of_the_two_way_analysis():
    """By the mean squares of a table with effects of rows and columns, as their definitions give them."""
    y = right(np.random.default_rng(2), 4, 50, 0.5).astype(float)
    n, count = y.shape
    rows, columns, mean = y.mean(1), y.mean(0), y.mean()
    between = ((y - rows[:, None] - columns + mean) ** 2).sum() / ((n - 1) * (count - 1))
    found = mean_estimate(rows, y > 0)
    assert found.seeds == (Part(pytest.approx(rows.var(ddof=1) / n), n - 1),)
    assert found.samples == Part(pytest.approx((columns.var(ddof=1) - between / n) / count), count - 1)
    points = [stats.t.ppf(0.975, part.freedom) ** 2 * part.variance for part in (*found.seeds, found.samples)]
    assert found.interval().half_width == pytest.approx(math.sqrt(sum(points)))


def test_p_and_interval_agree_with_a_part_of_the_samples():
    found = Estimate(0.3, 5, (Part(0.01, 4),), Part(0.02, 99))
    p = found.p()
    assert found.interval(level=1 - p).low == pytest.approx(0, abs=1e-9)
    assert found.interval(level=1 - 2 * found.p_equivalent(0.7)).high == pytest.approx(0.7)
    assert found.p_equivalent(0.1) == pytest.approx(1 - found.p_equivalent(0.5))
    assert Estimate(0.0, 5, (Part(0.01, 4),)).p() == 1
    assert Estimate(1.0, 5, (), Part(1e-9, 99)).p() == 0


def test_a_pair_on_one_test_part_is_the_table_of_its_differences():
    """Unpaired, the difficulty that the samples have for both cancels too."""
    generator = np.random.default_rng(3)
    a, b = right(generator, 5, 200, 0.3), right(generator, 5, 200, 0.3)
    found = difference_estimate(a.mean(1), b.mean(1), True, (a, b))
    table = mean_estimate((a.mean(1) - b.mean(1)), a.astype(int) - b.astype(int))
    assert (found.mean, found.samples) == (pytest.approx(table.mean), table.samples)
    shared = right(generator, 5, 200, 0.0)
    alike = difference_estimate(shared.mean(1), shared[::-1].mean(1), False, (shared, shared[::-1]))
    assert alike.samples.variance == 0
    assert mean_estimate(shared.mean(1), shared).samples.variance > 0


def test_equal_scores_with_other_outcomes_have_an_interval():
    a = np.array([[True, False, True, False]] * 3)
    found = difference_estimate(a.mean(1), (~a).mean(1), True, (a, ~a))
    assert found.known
    assert not difference_estimate(a.mean(1), a.mean(1), True, (a, a)).known


def test_a_family_divides_the_error_by_its_pairs():
    assert [family.pairs for family in families([4, 2, 1], "report")] == [7, 7, 7]
    assert [family.pairs for family in families([4, 2, 1], "block")] == [6, 1, 0]
    family = Family(6, "report")
    assert family.level() == pytest.approx(1 - 0.05 / 6)
    assert [family.adjust(p) for p in (0.01, 0.5)] == [pytest.approx(0.06), 1.0]
    assert Family(0, "block").level() == Family(1, "block").level() == pytest.approx(0.95)
    assert "for all 6 pairs of strategies within the blocks of this report (Bonferroni)" in str(family)
    assert "of this block (" in str(Family(6, "block"))
    assert str(Family(1, "report")) == "One pair of strategies is compared, so nothing is adjusted."


def test_an_adjusted_p_is_below_5_percent_exactly_where_the_interval_excludes_0():
    family, generator = Family(6, "report"), np.random.default_rng(4)
    found = set()
    for shift in np.linspace(0, 3, 40):
        estimate = mean_estimate(generator.normal(shift, 1, 6))
        interval = estimate.interval(level=family.level())
        excluded = not interval.low <= 0 <= interval.high
        assert (family.adjust(estimate.p()) <= 0.05) == excluded
        found.add(excluded)
    assert found == {True, False}


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
