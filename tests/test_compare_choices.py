"""What is compared with what: blocks and variants, pairs, choosing seeds, failed runs, notes."""

import itertools
import math

import numpy as np
import pytest

pytest.importorskip("scipy")

from experiments.compare.forms import tables
from experiments.compare.report import make
from experiments.compare.statistics.metric import Metric, WrongMetric
from experiments.compare.statistics.results import Question
from experiments.compare.statistics.tuning import expected_best
from experiments.tracking.test_outcomes import read_test_outcomes
from run_folders import ENVIRONMENT, write_outcomes, write_run


def sweep(root, accuracies, **more):
    """One run a strategy and seed."""
    for strategy, values in accuracies.items():
        for seed, value in enumerate(values):
            write_run(root / strategy / f"seed={seed}", strategy, seed, value, **more)
    return root


def only(root, **question):
    (section,) = make([root], Question(**question)).sections
    return section.result


def notes(result):
    return "\n".join(result.notes)


def test_the_difference_is_paired_over_seeds(tmp_path):
    result = only(sweep(tmp_path, {"ste": [0.6, 0.7, 0.8], "subgradient": [0.5, 0.6, 0.75]}))
    (found,) = result.differences
    assert (found.name, found.baseline, found.unpaired_because) == ("ste", "subgradient", "")
    assert found.interval.mean == pytest.approx(0.25 / 3)
    assert (found.interval.n, found.p_ranks, found.smallest_p_ranks) == (3, 0.25, 0.25)
    assert found.better == pytest.approx(6.5 / 9)
    assert "ranks" not in notes(result)


def test_a_missing_seed_is_said_and_the_pairs_given_up(tmp_path):
    sweep(tmp_path, {"ste": [0.6, 0.7, 0.8], "subgradient": [0.5, 0.6]})
    result = only(tmp_path)
    assert result.differences[0].unpaired_because == "only one of the two has seed 2"
    assert "UNPAIRED: only one of the two has seed 2" in notes(result)
    assert [score.interval.n for score in result.scores] == [2, 3]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"environment": {"data_hashes": {**ENVIRONMENT["data_hashes"], "test": "other"}}}, "data_hashes.test differs"),
        ({"environment": {"device": "cuda"}}, "device differs"),
        ({"environment": {"versions": {**ENVIRONMENT["versions"], "torch": "2.13.0"}}}, "versions.torch differs"),
        ({"environment": {"threads": 2}}, "threads differs"),
        ({"engine": "stacked"}, "engine differs (stacked and single for seed 1)"),
    ],
    ids=["data", "device", "version", "threads", "engine"],
)
def test_a_condition_that_differs_is_said_and_the_pairs_given_up(tmp_path, change, word):
    sweep(tmp_path, {"subgradient": [0.5, 0.6]})
    write_run(tmp_path / "a", "ste", 0, 0.7)
    write_run(tmp_path / "b", "ste", 1, 0.8, **change)
    assert word in only(tmp_path).differences[0].unpaired_because


def test_other_circumstances_are_said_and_the_pairs_kept(tmp_path):
    """Code, Python, numpy and machine; said once for all strategies that they concern."""
    sweep(tmp_path, {"subgradient": [0.5, 0.6]})
    elsewhere = {
        "versions": {**ENVIRONMENT["versions"], "python": "3.13.1"},
        "git": {"commit": "1" * 40, "dirty": False},
        "cpu": {"model": "another"},
    }
    for strategy in ("ste", "smooth"):
        sweep(tmp_path, {strategy: [0.7, 0.8]}, environment=elsewhere)
    result = only(tmp_path)
    assert [d.unpaired_because for d in result.differences] == ["", ""]
    said = [note for note in result.notes if "the runs stay pairs" in note]
    assert [note.partition(" ")[0] for note in said] == [
        "git.commit",
        "versions.python",
    ]  # one side has no CPU to differ
    assert said[1] == (
        "versions.python differs (3.13.1 and 3.11.7 for seed 0); the runs stay pairs: ste, smooth with subgradient"
    )


def test_a_baseline_that_is_not_there_is_said(tmp_path):
    sweep(tmp_path, {"ste": [0.6, 0.7], "rewrite": [0.5, 0.6]})
    assert "no run of this block has the strategy subgradient" in notes(only(tmp_path))
    assert "there is no" not in notes(only(tmp_path, baseline="ste"))


def test_a_stack_s_time_belongs_to_no_single_run(tmp_path):
    """Of two stacked strategies there is no wall-clock; of one beside them that was not there is."""
    sweep(tmp_path, {"ste": [0.8, 0.8]}, seconds=1.0, engine="stacked")
    sweep(tmp_path, {"smooth": [0.9, 0.9]}, seconds=1.0, engine="compiled")
    (section,) = make([tmp_path]).sections
    assert section.budgets.seconds is None
    assert tables.budgets(section).header == ["strategy", "at 20 steps %"]
    assert "no wall-clock time for ste, smooth: a stack's time" in notes(section.result)
    sweep(tmp_path, {"rewrite": [0.9, 0.9]}, seconds=2.0)
    (section,) = make([tmp_path]).sections
    assert [row[2:] for row in tables.budgets(section).rows][:2] == [["-", "-"], ["-", "-"]]
    assert section.evidence["rewrite"].budgeted.at_seconds.mean == 0.9
    assert section.evidence["ste"].budgeted.at_steps.mean == 0.8


def test_failed_runs_are_counted_and_have_no_score(tmp_path):
    """Of five: one diverged, one crashed; the mean is that of the three others."""
    sweep(tmp_path, {"subgradient": [0.5, 0.51, 0.52, 0.53, 0.54]})
    for seed in (0, 3, 4):
        write_run(tmp_path / f"{seed}", "ste", seed, 0.9 + seed / 100)
    write_run(tmp_path / "b", "ste", 1, status="FAILED", error="training diverged by step 5; lower optimizer.lr")
    write_run(tmp_path / "c", "ste", 2, status="FAILED", error="Traceback\n  ...\nRuntimeError: no memory\n")
    result = only(tmp_path)
    score = next(score for score in result.scores if score.name == "ste")
    assert (score.interval.n, score.failures) == (3, "1 crashed, 1 diverged")
    assert (score.failed.failed, score.failed.ended) == (2, 5)
    assert score.interval.mean == pytest.approx((0.9 + 0.93 + 0.94) / 3)
    (difference,) = result.differences
    assert (difference.unpaired_because, difference.interval.n, difference.verdict) == ("", 3, "none")
    said = "ste compared with subgradient: 2 runs failed, so the ranks decide; these seeds cannot reach p = 0.05"
    assert f"{said}, at least 6 pairs can" in notes(result)
    losses = only(tmp_path, metric=Metric("loss/val"))
    score = next(score for score in losses.scores if score.name == "ste")
    assert (score.interval.mean, score.interval.n) == (1.0, 3)


def test_a_run_that_ends_in_nan_is_not_averaged_away(tmp_path):
    """H04, the part of the comparison table: DONE with a loss that is not finite is a diverged run."""
    sweep(tmp_path, {"subgradient": [0.5, 0.5]})
    rows = [{"step": 1, "loss/train": 1.0}, {"step": 20, "loss/train": "NaN", "accuracy/val": 0.9}]
    for seed in (0, 1):
        write_run(tmp_path / f"ste{seed}", "ste", seed, 0.9, rows=rows if seed else None, on_nonfinite="continue")
    result = only(tmp_path)
    score = next(score for score in result.scores if score.name == "ste")
    assert (score.interval.n, score.failures, score.interval.mean) == (1, "1 diverged", 0.9)


def test_unfinished_runs_are_shown_and_have_no_score(tmp_path):
    sweep(tmp_path, {"ste": [0.6, 0.7]})
    write_run(tmp_path / "cut", "ste", 2, status="RUNNING")
    write_run(tmp_path / "stopped", "ste", 3, status="INTERRUPTED", error="stopped by SIGTERM")
    report = make([tmp_path])
    assert [(run.outcome, run.reason) for run in report.failed] == [
        ("unfinished", "interrupted"),
        ("unfinished", "stopped by SIGTERM"),
    ]
    (score,) = report.sections[0].result.scores
    assert (score.interval.n, score.failures) == (2, "2 unfinished")


def test_intervals_cover_the_choice_of_the_test_samples_if_it_is_known(tmp_path):
    """Outcomes that are not those of the score, and runs on another test part, are left out and named."""
    generator = np.random.default_rng(0)
    hard = {"subgradient": generator.random(400), "ste": generator.random(400)}
    for strategy, seed in itertools.product(hard, range(4)):
        right = hard[strategy] + 0.2 * generator.random(400) < 0.6
        write_run(tmp_path / f"{strategy}{seed}", strategy, seed, float(right.mean()))
        write_outcomes(tmp_path / f"{strategy}{seed}", right)
    result = only(tmp_path)
    (known,) = result.differences
    assert known.samples == 400
    assert "intervals cover training variation and the choice of the 400 test samples" in result.notes
    changed = ~read_test_outcomes(tmp_path / "ste0", "best")
    write_outcomes(tmp_path / "ste0", changed)
    result = only(tmp_path)
    (without,) = result.differences
    assert without.samples is None
    assert without.interval.half_width < known.interval.half_width
    assert f"the outcomes of {tmp_path / 'ste0'} do not have its score as their mean; they are left out" in result.notes
    assert "the intervals cover training variation only, not the choice of the test samples" in result.notes
    assert only(tmp_path, metric=Metric("accuracy/val")).differences[0].samples is None
    (tmp_path / "ste0" / "test_outcomes.json").write_text("{")
    assert any("test_outcomes.json" in note and "left out of the intervals" in note for note in only(tmp_path).notes)


def tuned(root, grid, reported=(), chosen=None, best=0.3):
    """A learning-rate grid; the best is `best`, on test and on validation data."""
    for strategy in ("ste", "subgradient"):
        for lr, seed in itertools.product(grid, range(6)):
            accuracy = 0.8 - abs(math.log10(lr / best)) / 10 + seed / 1000
            write_run(root / strategy / f"{lr}" / f"{seed}", strategy, seed, accuracy, lr=lr)
        for seed in reported:
            write_run(root / strategy / "report" / f"{seed}", strategy, seed, 0.75, lr=chosen)


def test_a_full_grid_is_split_into_choosing_and_reported_seeds(tmp_path):
    tuned(tmp_path, (0.1, 0.3, 1.0))
    result = only(tmp_path)
    assert (result.seeds.choosing, result.seeds.reported) == ((4, 5), (0, 1, 2, 3))
    for choice, score in zip(result.choices, result.scores, strict=True):
        assert (choice.trial.values, choice.edges, choice.trials) == ({"optimizer.lr": 0.3}, [], 3)
        assert [run.seed for run in choice.runs] == [0, 1, 2, 3]
        assert score.interval.mean == pytest.approx(0.8015)
        assert [values["optimizer.lr"] for values, _ in choice.curve] == [0.1, 0.3, 1.0]
    assert "the last third of the seeds" in notes(result)
    assert "EDGE" not in notes(result)


def test_a_sweep_in_two_steps_reports_the_seeds_that_only_the_chosen_setting_has(tmp_path):
    tuned(tmp_path, (0.1, 0.3), reported=(10, 11, 12), chosen=0.3)
    result = only(tmp_path)
    assert (result.seeds.choosing, result.seeds.reported) == ((0, 1, 2, 3, 4, 5), (10, 11, 12))
    assert [score.interval.mean for score in result.scores] == [0.75, 0.75]
    assert "ste: best optimizer.lr = 0.3 lies at the EDGE" in notes(result)


@pytest.mark.parametrize(
    ("grid", "best", "edges"),
    [
        ((0.1, 0.3, 1.0), 0.1, ["optimizer.lr"]),
        ((0.1, 0.3, 1.0), 0.3, []),
        ((0.1, 0.3, 1.0), 1.0, ["optimizer.lr"]),
        ((1e-05, 0.1, 0.3), 0.1, []),
    ],
    ids=["lower", "middle", "upper", "as numbers"],
)
def test_a_best_value_at_either_end_of_the_grid_is_flagged_and_no_other(tmp_path, grid, best, edges):
    """By size: as texts, 1e-05 would be the largest of its grid, and 0.1 the smallest."""
    tuned(tmp_path, grid, best=best)
    for choice in only(tmp_path).choices:
        assert (choice.trial.values, choice.edges) == ({"optimizer.lr": best}, edges)


def test_the_choosing_seeds_can_be_given(tmp_path):
    tuned(tmp_path, (0.1, 0.3))
    result = only(tmp_path, choosing_seeds=(0,))
    assert result.seeds.reported == (1, 2, 3, 4, 5)


def test_the_choice_is_made_on_validation_data(tmp_path):
    """Test data would choose the other one."""
    for lr, validation, test in ((0.1, 0.9, 0.5), (0.2, 0.8, 0.99)):
        for seed in range(3):
            write_run(tmp_path / f"{lr}-{seed}", "ste", seed, test, validation=validation, lr=lr)
    result = only(tmp_path)
    assert result.choices[0].trial.values == {"optimizer.lr": 0.1}
    assert result.scores[0].interval.mean == 0.5


def test_one_seed_cannot_be_split_and_that_is_said(tmp_path):
    for lr in (0.1, 0.2):
        write_run(tmp_path / f"{lr}", "ste", 0, lr, lr=lr)
    assert "same seed, which overstates" in notes(only(tmp_path))


def test_unequal_trials_are_said_and_an_equal_number_scored(tmp_path):
    for lr, seed in itertools.product((0.1, 0.2, 0.4), range(3)):
        write_run(tmp_path / f"ste-{lr}-{seed}", "ste", seed, lr, lr=lr)
        if lr < 0.3:
            write_run(tmp_path / f"sub-{lr}-{seed}", "subgradient", seed, lr, lr=lr)
    result = only(tmp_path)
    assert (
        "UNEQUAL number of trials: subgradient 2, ste 3; average validation accuracy of the best of 2 trials: "
        "subgradient 20.0 %, ste 33.3 %" in notes(result)
    )
    ste = next(choice for choice in result.choices if choice.variant.name == "ste")
    assert ste.expected == pytest.approx((0.2 + 0.4 + 0.4) / 3)


@pytest.mark.parametrize("trials", [1, 2, 3, 4])
def test_expected_best_by_enumeration(trials):
    scores = [0.3, 0.1, 0.7, 0.7]
    subsets = list(itertools.combinations(scores, trials))
    assert expected_best(scores, trials) == pytest.approx(sum(map(max, subsets)) / len(subsets))


def test_temperature_is_tuned_too(tmp_path):
    for temperature, seed in itertools.product((0.3, 1.0), range(3)):
        write_run(
            tmp_path / f"{temperature}-{seed}", "smooth", seed, temperature / 2, strategy__temperature=temperature
        )
    (choice,) = only(tmp_path).choices
    assert choice.trial.values == {"optimizer.lr": 0.1, "strategy.temperature": 1.0}
    assert choice.edges == ["strategy.temperature"]


def test_options_of_a_strategy_make_variants_and_other_keys_make_blocks(tmp_path):
    for carrier, bits, seed in itertools.product(("identity", "clipped"), (2, 4), range(2)):
        settings = {"strategy__carrier": carrier, "component__bits": bits}
        write_run(tmp_path / f"{carrier}-{bits}-{seed}", "ste", seed, 0.5, **settings)
    sections = make([tmp_path]).sections
    assert [section.name for section in sections] == [f"floor, mlp, digits, component.bits={b}" for b in (2, 4)]
    assert [name for _, name in sections[0].variants] == ["ste (carrier=clipped)", "ste (carrier=identity)"]


def test_a_setting_that_goes_with_the_strategy_is_a_difference_and_no_block(tmp_path):
    sweep(tmp_path, {"ste": [0.5, 0.6]}, batch_size=32, lr=0.2)
    sweep(tmp_path, {"subgradient": [0.5, 0.6]}, batch_size=64)
    result = only(tmp_path)
    assert result.block.differing == {"batch_size": {"ste": "32", "subgradient": "64"}}
    assert "batch_size differs between strategies" in notes(result)
    assert "learning rates differ and were not chosen here" in notes(result)


def test_how_a_sweep_was_gone_about_makes_no_block_and_no_difference(tmp_path):
    """Runs of before and after a key of that kind existed, too."""
    sweep(tmp_path, {"ste": [0.5, 0.6]}, on_error="stop", workers=2, dry_run=False)
    sweep(tmp_path, {"subgradient": [0.5, 0.6]})
    assert only(tmp_path).block.differing == {}


def test_the_best_baseline_is_that_of_the_choosing_seeds(tmp_path):
    """On the reported seeds it would be `smooth`."""
    accuracies = {"ste": [0.6, 0.7, 0.8], "subgradient": [0.5, 0.6, 0.7], "smooth": [0.9, 0.9, 0.1]}
    sweep(tmp_path, accuracies)
    assert only(tmp_path, baseline="best", choosing_seeds=(2,)).differences[0].baseline == "ste"
    assert only(tmp_path, baseline="ste").differences[0].baseline == "ste"
    assert "no seed chose" in notes(only(tmp_path, baseline="best"))


def test_equal_steps_and_equal_time(tmp_path):
    """The slow strategy is halfway when the fast one is done; its curve is at half its accuracy there."""
    sweep(tmp_path, {"ste": [0.8, 0.8]}, seconds=1.0)
    sweep(tmp_path, {"smooth": [0.9, 0.9]}, seconds=2.0)
    (section,) = make([tmp_path]).sections
    assert (section.budgets.steps, section.budgets.seconds) == (20, 1.0)
    seen = {name: found.budgeted for name, found in section.evidence.items()}
    assert (seen["ste"].at_steps.mean, seen["ste"].at_seconds.mean) == (0.8, 0.8)
    assert (seen["smooth"].at_steps.mean, seen["smooth"].at_seconds.mean) == (0.9, 0.45)


def test_a_metric_without_a_value_for_a_failed_run_is_refused():
    with pytest.raises(WrongMetric, match="choose an accuracy"):
        Metric("grad_norm/total")


def test_a_cell_that_does_not_exist_is_listed(tmp_path):
    sweep(tmp_path, {"ste": [0.6, 0.7]})
    write_run(tmp_path / "n", "rewrite", status="NOT_APPLICABLE", error="sign has no rewrite")
    assert only(tmp_path).block.absent == {"rewrite": "sign has no rewrite"}
