"""Bands of a curve: the range below five runs, from five on an interval that stays where its quantity can be."""

import numpy as np
import pytest

pytest.importorskip("scipy")

from scipy import stats

from experiments.compare.statistics.bands import FEW, band, scale_of


def of(rows, scale="linear"):
    rows = np.asarray(rows, dtype=float)
    return band([(np.arange(rows.shape[1]), row) for row in rows], len(rows), scale)


def within(values, low, high):
    return np.all((values >= low) & (values <= high))


@pytest.mark.parametrize("count", range(1, FEW))
def test_below_five_runs_a_band_is_median_and_range(count):
    rows = np.random.default_rng(count).normal(size=(count, 7))
    found = of(rows, "log")
    assert found.middle.tolist() == pytest.approx(np.median(rows, 0).tolist())
    assert found.low.tolist() == rows.min(0).tolist()
    assert found.high.tolist() == rows.max(0).tolist()
    assert found.mean.tolist() == pytest.approx(rows.mean(0).tolist())


@pytest.mark.parametrize("count", range(FEW, 9))
@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])
def test_an_interval_of_a_positive_quantity_is_positive_and_of_a_share_a_share(count, spread):
    draws = np.random.default_rng(count).normal(scale=spread, size=(count, 50))
    positive, shares = of(np.exp(draws), "log"), of(1 / (1 + np.exp(-draws)), "logit")
    assert within(positive.low, 0, positive.middle)
    assert np.all(positive.low > 0)
    assert np.all(positive.high >= positive.middle)
    assert np.isfinite(positive.high).all()
    assert within(shares.low, 0, shares.middle)
    assert within(shares.high, shares.middle, 1)


@pytest.mark.parametrize(
    ("scale", "change", "slope"),
    [
        ("linear", lambda m: m, lambda m: 1.0),
        ("log", np.log, lambda m: 1 / m),
        ("logit", lambda m: np.log(m / (1 - m)), lambda m: 1 / (m * (1 - m))),
    ],
)
def test_the_ends_lie_as_far_from_the_mean_as_the_delta_method_says(scale, change, slope):
    rows = np.array([[0.2], [0.25], [0.4], [0.3], [0.45]])
    found = of(rows, scale)
    mean, error = rows.mean(), rows.std(ddof=1) / np.sqrt(5)
    half = stats.t.ppf(0.975, 4) * error * slope(mean)
    assert change(found.high[0]) - change(mean) == pytest.approx(half)
    assert change(mean) - change(found.low[0]) == pytest.approx(half)


@pytest.mark.parametrize(("scale", "value"), [("log", 0.0), ("logit", 0.0), ("logit", 1.0), ("linear", 3.0)])
def test_runs_that_agree_have_no_spread(scale, value):
    found = of(np.full((FEW, 1), value), scale)
    assert [found.low[0], found.middle[0], found.high[0]] == [value, value, value]


@pytest.mark.parametrize(
    ("tag", "scale"),
    [
        ("accuracy/val", "logit"),
        ("accuracy/val_soft", "logit"),
        ("clip_fraction", "logit"),
        ("op/blocks.0/zero_gradient_fraction", "logit"),
        ("op/blocks.0/saturated_fraction", "logit"),
        ("op/blocks.0/flip_rate", "logit"),
        ("loss/train", "log"),
        ("grad_norm/total", "log"),
        ("op/blocks.0/grad_in_norm", "log"),
        ("gap/accuracy", "linear"),
        ("op/blocks.0/effective_slope", "linear"),
    ],
)
def test_a_tag_has_the_scale_of_its_quantity(tag, scale):
    assert scale_of(tag) == scale


@pytest.mark.parametrize("count", [FEW - 1, FEW])
def test_a_step_without_a_finite_value_has_a_gap(count):
    rows = np.ones((count, 2))
    rows[:, 1] = np.nan
    found = of(rows)
    assert found.n.tolist() == [count, 0]
    assert np.isnan([found.mean[1], found.middle[1], found.low[1], found.high[1]]).all()
