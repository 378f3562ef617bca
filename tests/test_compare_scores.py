"""What a run scores, what is chosen and what is reported: metric, seeds, trials, budgets, bands and the baseline."""

import math

import numpy as np
import pytest

pytest.importorskip("scipy")

from experiments.compare.reading.learning_curves import RunCurves
from experiments.compare.statistics.bands import GAP, band, bands
from experiments.compare.statistics.blocks import RunBlock, Trial, Variant
from experiments.compare.statistics.budgets import Budgets, budget_scores, budgets
from experiments.compare.statistics.comparison import baseline_of, compare
from experiments.compare.statistics.estimates import difference_estimate, mean_interval
from experiments.compare.statistics.family import Family
from experiments.compare.statistics.metric import FailedShare, Metric, WrongMetric, failed_share, outcomes
from experiments.compare.statistics.permutation import compare_ranks
from experiments.compare.statistics.results import Question
from experiments.compare.statistics.tuning import Seeds, choose, expected_best, split_seeds
from run_folders import record


def test_a_metric_reads_the_best_or_the_last_checkpoint():
    run = record(best={"accuracy/test": 0.7}, last={"accuracy/test": 0.6, "loss/val": 1.5})
    assert Metric().of(run) == 0.7
    assert Metric(at="last").of(run) == 0.6
    assert Metric("loss/val", "last").of(run) == 1.5
    assert Metric("loss/val").of(run) is None
    assert (Metric().sign, Metric("loss/val").sign) == (1, -1)


def test_a_metric_that_is_no_score_is_refused_with_those_that_are():
    with pytest.raises(WrongMetric, match=r"^grad_norm/total is no score; .* accuracy/.* loss/"):
        Metric("grad_norm/total")


@pytest.mark.parametrize("outcome", ["diverged", "crashed"])
def test_a_failed_run_is_worse_than_any_score_and_an_unfinished_one_has_none(outcome):
    failed = record(outcome=outcome)
    assert Metric().of(failed) == -math.inf
    assert Metric("loss/val").of(failed) == math.inf
    assert Metric().of(record(accuracy=math.nan)) == -math.inf
    assert Metric().of(record(outcome="unfinished")) is None
    assert Metric().of(record(outcome="n/a")) is None


def test_the_share_of_failed_runs_has_the_interval_of_clopper_and_pearson():
    """The interval of 0 of 8 ends at 1 - 0.025^(1/8); that of 8 of 8 mirrors it."""
    done, failed = [record()] * 8, [record(outcome="diverged")] * 8
    end = 1 - 0.025 ** (1 / 8)
    assert failed_share(done) == FailedShare(0, 8, 0.0, pytest.approx(end))
    assert failed_share(failed) == FailedShare(8, 8, pytest.approx(1 - end), 1.0)
    two = failed_share([*done[:6], failed[0], record(outcome="crashed"), record(outcome="unfinished")])
    assert (two.failed, two.ended) == (2, 8)
    assert (two.low, two.high) == (pytest.approx(0.0319, abs=1e-4), pytest.approx(0.6509, abs=1e-4))
    assert failed_share([record(outcome="unfinished")]) is None


def test_points_are_converted_to_shares_and_nats_are_not():
    assert Metric().in_own_unit(1.5) == 0.015
    assert Metric("loss/val").in_own_unit(1.5) == 1.5
    assert Metric().in_own_unit(None) is None


def test_outcomes_other_than_done_are_counted_by_name():
    runs = [record(outcome=name) for name in ("done", "unfinished", "crashed", "crashed")]
    assert outcomes(runs) == "2 crashed, 1 unfinished"
    assert outcomes(runs[:1]) == ""


def block(**trials):
    """A block; each variant has one trial for each learning rate, given with its accuracy by seed."""
    variants = []
    for strategy, rates in trials.items():
        listed = []
        for rate, accuracies in rates.items():
            runs = {
                seed: value if not isinstance(value, float) else record(strategy, seed, value)
                for seed, value in accuracies.items()
            }
            listed.append(Trial({"optimizer.lr": rate}, runs))
        variants.append(Variant(strategy, strategy, listed))
    return RunBlock(("floor",), variants, {}, {})


def same(value, *seeds):
    return dict.fromkeys(seeds, value)


def test_without_tuning_every_seed_is_reported():
    assert split_seeds(block(ste={1: same(0.5, 3, 1)}, smooth={1: same(0.5, 2)}), None) == Seeds((), (1, 2, 3))


def test_given_seeds_choose_and_the_others_are_reported():
    found = split_seeds(block(ste={1: same(0.5, 0, 1, 2)}), (1, 7))
    assert found == Seeds((1, 7), (0, 2), "chosen on the given seeds")
    assert split_seeds(block(ste={1: same(0.5, 0, 1)}), ()) == Seeds((), (0, 1), "chosen on the given seeds")


def test_seeds_that_all_trials_have_choose_where_others_have_one_trial_each():
    grid = {1: same(0.5, 5, 6), 2: same(0.5, 6, 5, 0, 1)}
    every = "chosen on the seeds that every trial has"
    assert split_seeds(block(ste=grid), None) == Seeds((5, 6), (0, 1), every)
    assert split_seeds(block(ste=grid, smooth={1: same(0.5, 0, 1)}), None) == Seeds((5, 6), (0, 1), every)


@pytest.mark.parametrize(("count", "choosing"), [(2, (1,)), (3, (2,)), (5, (4,)), (6, (4, 5)), (7, (5, 6))])
def test_on_a_full_grid_the_last_third_of_the_seeds_choose_at_least_one(count, choosing):
    grid = {rate: same(0.5, *range(count)) for rate in (1, 2)}
    reported = tuple(range(count - len(choosing)))
    assert split_seeds(block(ste=grid), None) == Seeds(choosing, reported, "chosen on the last third of the seeds")


def test_a_single_seed_chooses_and_is_reported():
    why = "chosen and reported on the same seed, which overstates every score"
    assert split_seeds(block(ste={1: same(0.5, 4), 2: same(0.5, 4)}), None) == Seeds((4,), (4,), why)


def chosen(trials, seeds=None):
    (found,) = choose(block(ste=trials), seeds or Seeds((0, 1), (2, 3)))
    return found


def test_the_best_mean_on_the_choosing_seeds_is_chosen_and_reported_on_the_others():
    found = chosen({1: {0: 0.9, 1: 0.1, 2: 0.2}, 2: {0: 0.6, 1: 0.6, 2: 0.3, 3: 0.4}, 3: {2: 0.99, 3: 0.99}})
    assert found.trial.values == {"optimizer.lr": 2}
    assert [run.seed for run in found.runs] == [2, 3]
    assert found.edges == []
    assert [values["optimizer.lr"] for values, _ in found.curve] == [1, 2]
    assert [interval.mean for _, interval in found.curve] == [0.5, 0.6]
    assert (found.trials, found.equal_trials) == (3, 3)
    assert found.expected is None  # of three trials two have a score


def test_a_tie_goes_to_the_trial_with_more_runs_to_report():
    assert chosen({1: same(0.5, 0, 2), 2: same(0.5, 0, 2, 3)}).trial.values == {"optimizer.lr": 2}
    assert chosen({1: same(0.5, 0, 2, 3), 2: same(0.5, 0, 2)}).trial.values == {"optimizer.lr": 1}


def test_where_no_trial_can_be_chosen_by_score_the_one_with_more_runs_is_reported():
    found = chosen({1: same(0.5, 2), 2: same(0.5, 2, 3)})
    assert (found.trial.values, found.curve, found.expected) == ({"optimizer.lr": 2}, [], None)


def test_a_failed_run_counts_0_where_a_trial_is_chosen():
    diverged = {0: record(seed=0, outcome="diverged"), 1: record(seed=1, accuracy=0.9)}
    found = chosen({1: diverged, 2: same(0.46, 0, 1)})
    assert (found.trial.values, found.validation) == ({"optimizer.lr": 2}, 0.46)
    (_, interval), _ = found.curve
    assert (interval.mean, interval.n, interval.missing) == (0.45, 2, True)
    assert chosen({1: diverged, 2: same(0.44, 0, 1)}).validation == 0.45


def test_equal_trials_are_the_fewest_that_any_variant_had():
    grid = {rate: same(rate / 10, 0, 1, 2, 3) for rate in (1, 2, 4)}
    found = choose(block(ste=grid, smooth={rate: grid[rate] for rate in (1, 2)}), Seeds((0, 1), (2, 3)))
    assert [(one.equal_trials, one.trials) for one in found] == [(2, 3), (2, 2)]
    assert [one.expected for one in found] == pytest.approx([(0.2 + 0.4 + 0.4) / 3, 0.2])
    found = choose(block(ste=grid, smooth={1: grid[1]}), Seeds((0, 1), (2, 3)))
    assert [one.expected for one in found] == pytest.approx([(0.1 + 0.2 + 0.4) / 3, 0.1])


def test_the_smallest_and_the_largest_value_tried_are_edges():
    two = {1: same(0.9, 0, 2), 2: same(0.5, 0, 2)}
    assert chosen(two).edges == ["optimizer.lr"]
    assert chosen({**two, 3: same(0.95, 0, 2)}).edges == ["optimizer.lr"]
    assert chosen({**two, 0: same(0.5, 0, 2)}).edges == []


def test_a_better_score_counts_more_than_more_runs_to_report():
    assert chosen({1: {0: 0.9, 2: 0.2}, 2: same(0.5, 0, 2, 3)}).trial.values == {"optimizer.lr": 1}


def test_only_numbers_have_an_edge():
    found = chosen({"auto": same(0.9, 0, 2), 1: same(0.5, 0, 2), 2: same(0.4, 0, 2)})
    assert (found.trial.values, found.edges) == ({"optimizer.lr": "auto"}, [])
    assert chosen({1: same(0.9, 0, 2), "auto": same(0.5, 0, 2)}).edges == []


def test_the_best_of_all_trials_is_the_best_one_and_of_one_the_mean():
    assert expected_best([0.1, 0.4, 0.3], 3) == 0.4
    assert expected_best([0.1, 0.4, 0.4], 1) == pytest.approx(0.3)


def curve(**tags):
    """Curves of tags with steps and values; a double underscore is a slash."""
    return RunCurves(
        {tag.replace("__", "/"): (np.array(steps), np.array(values, float)) for tag, (steps, values) in tags.items()}
    )


CURVE = curve(accuracy__val=([10, 20, 30], [0.2, 0.6, 0.5]))


def test_a_score_within_a_budget_is_the_best_one_by_then():
    run = record(config={"max_steps": 30}, seconds=3.0)

    def scored(steps=None, seconds=None, runs=(run,), curves=(CURVE,)):
        found = budget_scores(runs, curves, Budgets(steps, seconds))
        return tuple(None if one is None else one.mean for one in (found.at_steps, found.at_seconds))

    assert [scored(steps)[0] for steps in (9, 10, 19, 20, 30)] == [None, 0.2, 0.2, 0.6, 0.6]
    assert [scored(seconds=s)[1] for s in (0.9, 1.0, 1.9, 2.0, 9.0)] == [None, 0.2, 0.2, 0.6, 0.6]
    assert scored() == (None, None)
    assert scored(10, 1.0, [record(outcome="diverged", config={"max_steps": 30})], [CURVE]) == (None, None)
    assert scored(10, 1.0, [record(outcome="unfinished", config={"max_steps": 30})], [CURVE]) == (None, None)
    assert scored(20, 1.0, [record(seconds=None)], [CURVE]) == (0.6, None)
    assert scored(20, 1.0, [record(config={"max_steps": "x"})], [CURVE]) == (0.6, None)
    at_once = curve(accuracy__val=([0, 1], [0.1, 0.3]))
    assert scored(0, 1.0, [record(seconds=0.0)], [at_once]) == (None, 0.1)  # no time, no step
    stacked = record(config={"max_steps": 30}, conditions={"engine": "stacked"})
    assert scored(20, 1.0, [run, stacked], [CURVE, CURVE]) == (0.6, None)


def result(**trials):
    return answer(block(**trials))


def answer(given, question=None):
    (found,) = compare([given], question or Question())
    return found


def test_the_budget_is_the_least_that_any_variant_had():
    def run(strategy, seed, steps, seconds, outcome="done"):
        return record(strategy, seed, config={"max_steps": steps}, seconds=seconds, outcome=outcome)

    found = budgets(
        result(
            ste={1: {0: run("ste", 0, 40, 2.0), 1: run("ste", 1, 30, 4.0)}},
            smooth={1: {0: run("smooth", 0, 50, 9.0), 1: run("smooth", 1, 10, 0.1, "crashed")}},
        )
    )
    assert found == Budgets(30, 3.0)
    assert budgets(result(ste={1: {0: record(seconds=None, config={"max_steps": None})}})) == Budgets(None, None)


def test_the_band_of_the_gap_is_that_of_soft_less_hard_where_both_are_logged():
    first = curve(accuracy__val=([1, 2, 3], [0.1, 0.2, 0.3]), accuracy__val_soft=([2, 3], [0.5, 0.7]))
    second = curve(accuracy__val=([2], [0.25]), accuracy__val_soft=([2], [0.5]), loss__val=([1], [3.0]))
    found = bands([first, second])
    assert set(found) == {"accuracy/val", "accuracy/val_soft", "loss/val", GAP}
    assert found[GAP].steps.tolist() == [2, 3]
    assert found[GAP].mean.tolist() == pytest.approx([0.275, 0.4])
    assert (found[GAP].n.tolist(), found[GAP].of) == ([2, 1], 2)
    assert (found["loss/val"].n.tolist(), found["loss/val"].of) == ([1], 2)
    assert GAP not in bands([curve(accuracy__val=([1], [0.1]))])
    assert GAP in bands([curve(accuracy__val=([1], [0.1])), second])


def test_a_band_is_the_t_interval_of_the_finite_values_of_each_step():
    """Whatever numpy is told to do about divisions by 0 and overflows, of which there are some here."""
    nan, inf, large = math.nan, math.inf, 1e200
    rows = [[0.1, 0.5, nan, nan, large], [0.4, nan, 0.2, inf, -large], [0.3, 0.75, -inf, nan, large]]
    with np.errstate(all="raise"):
        found = band([(np.arange(5), np.array(row)) for row in rows], 5)
    assert found.n.tolist() == [3, 2, 1, 0, 3]
    expected = mean_interval([0.1, 0.4, 0.3])
    assert (found.mean[0], found.low[0], found.high[0]) == pytest.approx((expected.mean, expected.low, expected.high))
    half = 12.7062 * 0.125  # t of one degree of freedom, and the standard error
    assert (found.mean[1], found.low[1], found.high[1]) == pytest.approx((0.625, 0.625 - half, 0.625 + half))
    assert found.mean[2] == 0.2
    assert np.isnan([found.low[2], found.high[2], found.mean[3], found.low[3], found.high[3]]).all()


def test_the_baseline_is_the_one_asked_for_or_was_best_where_trials_were_chosen():
    """The reported runs never choose it, although `smooth` has the best of them here."""
    both = choose(block(ste={1: {0: 0.9, 2: 0.1}}, smooth={1: {0: 0.5, 2: 0.9}}), Seeds((0,), (2,)))

    def asked(baseline, choices=both):
        return baseline_of(choices, Question(baseline=baseline))

    assert [asked(name) for name in ("ste", "smooth", "best", "subgradient")] == ["ste", "smooth", "ste", "ste"]
    both[1].variant.name = "smooth (a=1)"
    assert asked("smooth") == asked("smooth (a=1)") == "smooth (a=1)"
    untuned = choose(block(ste={1: {0: 0.1}}, smooth={1: {0: 0.9}}), Seeds((), (0,)))
    assert asked("best", untuned) == "ste"
    assert asked("best", []) == ""


def test_a_comparison_is_the_variant_less_the_baseline():
    found = result(
        subgradient={1: {0: 0.1, 1: 0.2, 2: 0.4}},
        ste={1: {0: 0.3, 1: 0.5, 2: 0.6}},
        smooth={1: {0: record("smooth", 0, outcome="unfinished")}},
    )
    assert [(score.name, score.failures) for score in found.scores] == [
        ("subgradient", ""),
        ("ste", ""),
        ("smooth", "1 unfinished"),
    ]
    assert found.scores[2].interval is None
    (difference,) = found.differences
    assert (difference.name, difference.baseline) == ("ste", "subgradient")
    assert difference.interval.mean == pytest.approx(0.7 / 3)
    assert difference.better == 8 / 9
    assert (difference.p_ranks, difference.smallest_p_ranks) == (0.25, 0.25)
    assert found.family == Family(1, "report")
    assert result(ste={1: {0: 0.5}}).differences == []


def test_of_losses_the_smaller_one_is_better():
    losses = {seed: record("ste", seed, best={"loss/val": 0.5 + seed / 1000}) for seed in range(5)}
    others = {seed: record("subgradient", seed, best={"loss/val": 0.7}) for seed in range(5)}
    question = Question(Metric("loss/val"))
    (difference,) = answer(block(subgradient={1: others}, ste={1: losses}), question).differences
    assert difference.interval.mean == pytest.approx(-0.198)
    assert (difference.better, difference.verdict) == (1.0, "better")
    others[0] = record("subgradient", 0, best={"loss/val": 0.4})  # of the 25 pairs of runs 20 have a smaller loss
    (difference,) = answer(block(subgradient={1: others}, ste={1: losses}), question).differences
    assert difference.better == 0.8
    others[0] = record("subgradient", 0, outcome="diverged")
    (difference,) = answer(block(subgradient={1: others}, ste={1: losses}), question).differences
    assert (difference.better, difference.interval.n) == (1.0, 4)


def test_the_time_of_a_variant_is_the_mean_of_its_finished_runs_that_had_one_of_their_own():
    runs = {
        0: record(seed=0, seconds=2.0),
        1: record(seed=1, seconds=4.0),
        2: record(seed=2, seconds=100.0, outcome="diverged"),
        3: record(seed=3, seconds=100.0, conditions={"engine": "compiled"}),
        4: record(seed=4, seconds=None),
    }
    assert result(ste={1: runs}).scores[0].seconds == 3.0


STE = {0: 0.3, 1: 0.5, 2: 0.6, 3: 0.9}
SUBGRADIENT = {0: 0.1, 1: 0.2, 2: 0.4, 3: 0.45}


@pytest.mark.parametrize("paired", [True, False])
def test_a_comparison_answers_the_question_that_is_asked(paired):
    """The statistics are those of the two lists of accuracies; a fifth seed on one side only unpairs them."""
    own = STE if paired else {**STE, 4: 0.7}
    question = Question(baseline="subgradient", margin=0.1, half_width=0.1)
    found = answer(block(subgradient={1: SUBGRADIENT}, ste={1: own}), question)
    a, b = list(own.values()), list(SUBGRADIENT.values())
    assert [score.interval for score in found.scores] == [mean_interval(b, "share"), mean_interval(a, "share")]
    (difference,) = found.differences
    estimate, scale = difference_estimate(a, b, paired), "difference of shares"
    assert difference.interval == estimate.interval(scale)
    assert difference.equivalence == estimate.interval(scale, 0.9)
    assert (difference.p, difference.p_equivalent) == (estimate.p(), estimate.p_equivalent(0.1))
    assert difference.seeds_needed == estimate.seeds_needed(0.1)
    ranks = compare_ranks(a, b, paired)
    assert (difference.better, difference.p_ranks) == (ranks.better, ranks.test.p)
    assert (difference.unpaired_because == "") is paired


SMOOTH = {0: 0.1, 1: 0.3, 2: 0.3, 3: 0.5}


def test_intervals_and_p_are_adjusted_for_all_pairs_of_the_report_or_of_a_block():
    given = block(subgradient={1: SUBGRADIENT}, ste={1: STE}, smooth={1: SMOOTH})
    other = block(subgradient={1: SUBGRADIENT}, ste={1: STE})
    alone = difference_estimate(list(STE.values()), list(SUBGRADIENT.values()), True)
    for scope, pairs in (("report", (4, 4)), ("block", (3, 1))):
        for found, count in zip(compare([given, other], Question(family=scope)), pairs, strict=True):
            difference = next(d for d in found.differences if d.name == "ste")
            assert difference.p == pytest.approx(min(1, count * alone.p()))
            assert difference.interval == alone.interval("difference of shares", 1 - 0.05 / count)
            assert difference.smallest_p_ranks == count * 2 / 16


def test_failed_runs_are_in_no_mean_and_count_in_the_share_and_the_ranks():
    ste = {seed: record("ste", seed, 0.6 + seed / 100) for seed in range(8)}
    other = {seed: record("smooth", seed, 0.5 + seed / 90, last={"loss/train": 0.5}) for seed in range(8)}
    other |= {seed: record("smooth", seed, outcome="diverged") for seed in (0, 1)}
    found = result(ste={1: ste}, smooth={1: other})
    score = found.scores[1]
    assert (score.interval.n, score.failed.failed, score.failed.ended) == (6, 2, 8)
    assert score.interval.mean == pytest.approx(np.mean([0.5 + seed / 90 for seed in range(2, 8)]))
    assert (score.training_loss.mean, score.training_loss.n) == (0.5, 6)
    assert found.training_tag == "loss/train"
    (difference,) = found.differences
    assert (difference.name, difference.interval.n, difference.failed) == ("smooth", 6, 2)
    assert difference.interval.mean == pytest.approx(np.mean([-0.1 + s / 90 - s / 100 for s in range(2, 8)]))
    assert (difference.p_ranks, difference.verdict) == (2 / 2**8, "worse")
    assert found.verdict.kind == "winner"


def test_the_training_loss_is_the_hard_one_if_all_runs_have_it():
    losses = {"loss/train": 0.5, "loss/train_end": 0.7}
    own = {seed: record("ste", seed, last=losses) for seed in range(3)}
    found = result(ste={1: own})
    assert (found.training_tag, found.scores[0].training_loss.mean) == ("loss/train_end", pytest.approx(0.7))
    own[1] = record("ste", 1, last={"loss/train": 0.5})
    found = result(ste={1: own})
    assert (found.training_tag, found.scores[0].training_loss.mean) == ("loss/train", 0.5)


def test_where_runs_failed_the_ranks_decide_and_not_the_mean_of_those_that_finished():
    """The finished half of `smooth` is better than `ste`; the other half failed."""
    ste = {seed: record("ste", seed, 0.6 + seed / 1000) for seed in range(8)}
    half = {seed: record("smooth", seed, 0.7 + seed / 900) for seed in range(4)}
    half |= {seed: record("smooth", seed, outcome="diverged") for seed in range(4, 8)}
    found = result(ste={1: ste}, smooth={1: half})
    (difference,) = found.differences
    assert difference.interval.low > 0
    assert (difference.better, difference.verdict) == (0.5, "unclear")
    nothing = {seed: record("smooth", seed, outcome="diverged") for seed in range(8)}
    found = result(ste={1: ste}, smooth={1: nothing})
    assert math.isnan(found.differences[0].interval.mean)
    assert (found.scores[1].interval, found.verdict.kind, found.verdict.top) == (None, "winner", ("ste",))


@pytest.mark.parametrize("margin", [0.0, -1.0, math.nan])
def test_a_margin_below_every_difference_is_refused(margin):
    with pytest.raises(ValueError, match=r"^the margin must be above 0, got "):
        Question(margin=margin)


def test_equivalence_needs_a_margin_that_was_stated():
    near = {seed: 0.6 + seed / 100 + 0.001 * (seed % 3) for seed in range(8)}
    given = block(ste={1: {seed: 0.6 + seed / 100 for seed in range(8)}}, smooth={1: near})
    kinds = {margin: answer(given, Question(margin=margin)).verdict.kind for margin in (None, 0.0001, 0.01)}
    assert kinds == {None: "winner", 0.0001: "winner", 0.01: "winner"}
    noisy = block(ste={1: dict(enumerate(NOISE))}, smooth={1: dict(enumerate(NOISE[::-1]))})
    kinds = {margin: answer(noisy, Question(margin=margin)).verdict.kind for margin in (None, 0.001, 0.05)}
    assert kinds == {None: "unclear", 0.001: "unclear", 0.05: "equivalent"}


NOISE = [0.6, 0.61, 0.59, 0.6, 0.605, 0.592, 0.602, 0.604]


def test_variants_with_the_ops_own_derivative_are_a_control():
    exact = {seed: record("rewrite", seed, NOISE[seed], exact=True) for seed in range(8)}
    own = {seed: record("subgradient", seed, NOISE[-1 - seed], exact=True) for seed in range(8)}
    found = result(subgradient={1: own}, ste={1: dict(enumerate(NOISE))}, rewrite={1: exact})
    (control,) = found.controls
    assert (control.name, control.baseline) == ("rewrite", "subgradient")
    assert [score.same_as for score in found.scores] == ["", "", "subgradient"]
    exact[0] = record("rewrite", 0, outcome="diverged")
    assert len(result(subgradient={1: own}, rewrite={1: exact}).controls) == 1  # it has no result to say so
    exact[1] = record("rewrite", 1, exact=False)
    assert result(subgradient={1: own}, rewrite={1: exact}).controls == []


def test_a_comparison_keeps_the_seeds_that_chose_and_the_strategy_of_each_variant():
    variant = block(ste={1: {0: 0.3, 1: 0.5}}).variants[0]
    variant.name = "ste (a=1)"
    given = RunBlock(("floor",), [variant], {}, {})
    found = answer(given, Question(choosing_seeds=(1,)))
    assert found.block is given
    assert found.seeds == Seeds((1,), (0,), "chosen on the given seeds")
    assert [(score.name, score.strategy) for score in found.scores] == [("ste (a=1)", "ste")]
    assert found.scores[0].interval.mean == 0.3


def test_a_baseline_that_is_not_there_or_not_known_beforehand_is_said():
    both = block(ste={1: STE}, smooth={1: SUBGRADIENT})

    def said(baseline, choosing=None):
        found = answer(both, Question(baseline=baseline, choosing_seeds=choosing))
        return [note for note in found.notes if "baseline" in note]

    assert said("rewrite") == ["no run of this block has the strategy rewrite; the baseline is ste"]
    assert said("smooth") == []
    assert said("best") == ["no seed chose, so none is known to be best beforehand; the baseline is ste"]
    assert said("best", (3,)) == ["the baseline ste is the best by validation accuracy on the choosing seeds"]
