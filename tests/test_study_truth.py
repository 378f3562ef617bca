"""Whether measures of the gradient's truth are read, ranked and correlated as documented."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from experiments.study.truth.measures import MEASURES, OUTCOMES, MeasuredRun, measure, read_measured
from experiments.study.truth.prediction import predictions
from experiments.study.truth.rank_correlation import mean_rank_correlation
from experiments.tracking.metrics import MetricsLog

stats = pytest.importorskip("scipy.stats")
generator = np.random.default_rng(0)
WORST = -math.inf


def found_row(a, f, gradients):
    """An object of `diagnostics.jsonl` for predicted and measured derivatives and per-sample gradients (B, n)."""
    c, s = a @ f / (np.linalg.norm(a) * np.linalg.norm(f)), a @ f / (a @ a)
    row = {"truth/hard_loss": 2.0, "truth/descent/0.1": -0.5, "truth/descent/0.01": 0.25}
    for kind in ("coordinate/30_flips", "random/300_flips"):
        row |= {f"truth/{kind}/directions": float(len(a)), f"truth/{kind}/cosine": c, f"truth/{kind}/scale": s}
    for name, own in gradients.items():
        variance = own.var(0, ddof=1).sum()
        row[f"truth/sample_variance/{name}"] = variance
        row[f"truth/snr/{name}"] = np.linalg.norm(own.mean(0)) / math.sqrt(variance / len(own))
    return row


@pytest.mark.parametrize("seed", range(5))
def test_bias_and_noise_follow_from_the_recorded_numbers(seed):
    draw = np.random.default_rng(seed)
    a, f = draw.normal(size=(2, 8))
    gradients = {"w": draw.normal(1, 2, (16, 5)), "b": draw.normal(0, 0.1, (16, 3))}
    row = found_row(a, f, gradients)
    found = measure(row)
    assert -found["bias"] == pytest.approx(np.linalg.norm(a - f) / np.linalg.norm(f))
    whole = np.concatenate(list(gradients.values()), axis=1)
    noise = math.sqrt(whole.var(0, ddof=1).sum() / 16)
    assert found["signal-to-noise"] == pytest.approx(np.linalg.norm(whole.mean(0)) / noise)
    assert (found["descent"], found["loss so far"]) == (0.5, -2.0)
    assert set(found) == set(MEASURES)
    s = a @ f / (a @ a)
    assert found["scale"] == (WORST if s < 0 else pytest.approx(-abs(math.log(s))))


def test_a_gradient_of_zero_has_the_bias_1_and_one_that_was_not_measured_has_none():
    row = {"truth/hard_loss": 2.0, "truth/coordinate/30_flips/directions": 60.0}
    found = measure({**row, "truth/random/300_flips/directions": 2.0})
    assert (found["cosine, coordinates"], found["bias"], found["scale"]) == (0.0, -1.0, WORST)
    assert math.isnan(found["cosine, random"])
    assert (found["descent"], found["signal-to-noise"]) == (0.0, 0.0)


def test_a_loss_that_is_not_finite_is_read_as_a_number(tmp_path):
    """The log of diagnostics has such numbers as text."""
    directions = {f"truth/{kind}/directions": 60.0 for kind in ("coordinate/30_flips", "random/300_flips")}
    log = MetricsLog(tmp_path / "diagnostics.jsonl")
    log.write(1, {"truth/hard_loss": math.inf, **directions})
    log.close()
    run = SimpleNamespace(
        path=tmp_path, failed=False, outcome="done", seed=0, options={"component": "floor", "optimizer": "sgd"},
        last={"loss/train_end": 0.5}, best={},
    )  # fmt: skip
    found = read_measured(SimpleNamespace(run=run, pair=SimpleNamespace(name="a")))
    assert found.measures[1]["loss so far"] == WORST
    assert found.outcomes == {"training loss": -0.5, "test accuracy": WORST}
    assert found.zero_gradient


def test_the_correlation_is_the_mean_of_scipys_over_the_groups():
    groups = [tuple(generator.normal(size=(2, n)).round(1)) for n in (5, 9, 14)]
    interval = mean_rank_correlation(groups)
    assert interval.mean == pytest.approx(np.mean([stats.spearmanr(a, b).statistic for a, b in groups]))
    assert interval.low < interval.mean < interval.high
    assert interval.n == 28


def test_what_has_no_correlation_does_not_count():
    a = np.array([1.0, 2, 3, 4, math.nan])
    interval = mean_rank_correlation([(a, -a), (np.ones(9), np.arange(9.0)), (a[:3], a[:3])])
    assert (interval.mean, interval.n) == (-1.0, 4)
    assert mean_rank_correlation([(np.ones(9), np.arange(9.0))]) is None
    assert mean_rank_correlation([]) is None


def measured(name, seed, quality, **changes):
    values = dict.fromkeys(MEASURES, quality)
    run = dict(component="floor", optimizer="sgd", name=name, seed=seed, outcomes=dict.fromkeys(OUTCOMES, quality))
    return MeasuredRun(**{**run, "measures": {1: values, 300: values}, **changes})


def test_ranks_are_means_over_seeds_within_a_component():
    """A component's own level, and a seed's, do not count; a failed run has the worst outcome."""
    runs = [measured(f"p{i}", seed, i + 100 * seed) for i in range(6) for seed in range(2)]
    runs += [measured(f"q{i}", 0, 1000.0 - i, component="binary") for i in range(6)]
    found = predictions(runs)
    assert {(row.all.mean, row.all.n) for row in found} == {(1.0, 12)}
    assert len(found) == len(OUTCOMES) * len(MEASURES) * 2
    failed = [
        measured(f"p{i}", 0, float(i), outcomes=dict.fromkeys(OUTCOMES, WORST if i == 5 else i)) for i in range(6)
    ]
    assert predictions(failed)[0].all.mean == pytest.approx(stats.spearmanr(range(6), [0, 1, 2, 3, 4, -1]).statistic)


def test_pairs_without_a_gradient_count_in_one_column_only():
    runs = [measured(f"p{i}", 0, float(i)) for i in range(5)]
    runs.append(measured("dead", 0, -5.0, measures={1: {**dict.fromkeys(MEASURES, -5.0), "bias": -1.0}}))
    first = predictions(runs)[0]
    assert (first.all.n, first.nonzero.n) == (6, 5)


@pytest.mark.nightly
@pytest.mark.parametrize("rho", [0.0, 0.4, 0.8])
def test_the_interval_holds_the_expected_correlation_as_often_as_it_says(rho):
    """Five components of nine pairs, normal, correlation rho: at least 0.93 of 500 intervals; the bootstrap is wide."""
    draws = np.random.default_rng(1)
    many = draws.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=(4000, 9))
    expected = np.mean([stats.spearmanr(one).statistic for one in many])
    hits = 0
    for _ in range(500):
        groups = draws.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=(5, 9))
        interval = mean_rank_correlation([(one[:, 0], one[:, 1]) for one in groups])
        hits += interval.low <= expected <= interval.high
    assert 465 <= hits <= 500
