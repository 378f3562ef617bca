"""What a reader must know about a block before believing its numbers: each sentence whole, and only where it holds."""

import pytest

pytest.importorskip("scipy")

from experiments.compare.statistics.blocks import RunBlock, Trial, Variant
from experiments.compare.statistics.intervals import ConfidenceInterval
from experiments.compare.statistics.notes import notes
from experiments.compare.statistics.results import Difference
from experiments.compare.statistics.tuning import Seeds, TrialChoice
from run_folders import record

SAME_RATE = "every strategy used the same learning rate; sweep optimizer.lr to tune each separately"


def choice(name="ste", trials=2, runs=None, edges=(), expected=None, rate=0.1):
    strategy = name.partition(" ")[0]
    variant = Variant(strategy, name, [Trial({})] * trials)
    reported = [record(strategy)] if runs is None else runs
    return TrialChoice(variant, Trial({"optimizer.lr": rate}), list(edges), [], 2, expected, reported)


def difference(name, smallest_p=0.01, unpaired="", circumstances=(), baseline="subgradient", n=3):
    interval = ConfidenceInterval(0.0, 0.0, 0.0, n)
    return Difference(name, baseline, interval, unpaired, list(circumstances), 0.5, smallest_p, 0.5, 0.5, None)


def said(*choices, seeds=None, differences=(), baseline=None, differing=None):
    block = RunBlock(("floor",), [one.variant for one in choices], {}, differing or {})
    return notes(block, seeds or Seeds((), (0, 1)), choices, differences, baseline)


def test_there_may_be_nothing_to_say():
    assert said(choice(), baseline="subgradient") == []
    assert said(choice(trials=1)) == []
    assert said(choice(), choice("smooth"), differences=[difference("ste")], baseline="subgradient") == []


def test_unequal_trials_are_named_with_the_best_of_an_equal_number():
    four, two = choice(trials=4, expected=0.5), choice("smooth", expected=0.25)
    counts = "UNEQUAL number of trials: ste 4, smooth 2"
    equal = "; average validation accuracy of the best of 2 trials: ste 50.0 %"
    assert said(four, two) == [f"{counts}{equal}, smooth 25.0 %"]
    assert said(four, choice("smooth")) == [counts + equal]
    assert said(choice(trials=4), choice("smooth")) == [counts]


def test_how_settings_were_tuned_is_said_with_those_at_an_edge():
    found = said(choice(edges=["optimizer.lr"], rate=0.3), seeds=Seeds((2, 3), (0, 1), "chosen on the given seeds"))
    edge = "ste: best optimizer.lr = 0.3 lies at the EDGE of the values tried"
    assert found == ["tuned values were chosen on the given seeds", edge]


def test_runs_that_do_not_count_are_said():
    unknown = record(outcome="diverged", classes=None)
    assert said(choice(runs=[])) == ["ste: the chosen trial has no run on the reported seeds"]
    out = "ste: a FAILED run is left out, because its number of classes is unknown"
    assert said(choice(runs=[record(), unknown])) == [out]
    assert said(choice(runs=[record(outcome="diverged"), record(classes=None)])) == []


def test_strategies_without_a_time_of_their_own_are_named_once():
    stacked = record(conditions={"engine": "stacked"})
    found = said(choice(runs=[record(), stacked]), choice("smooth"), choice("rewrite", runs=[stacked, stacked]))
    assert found == ["no wall-clock time for ste, rewrite: a stack's time cannot be attributed to a single run"]


def test_learning_rates_that_were_not_tuned_are_said():
    one, other = choice(trials=1), choice("smooth", trials=1)
    assert said(one, other) == [SAME_RATE]
    other.trial.values["optimizer.lr"] = 0.3
    assert said(one, other) == ["learning rates differ and were not chosen here: ste 0.1, smooth 0.3"]
    assert not any("learning rate" in note for note in said(one, choice("smooth", rate=0.3)))


def test_settings_that_differ_are_said():
    differing = {"batch_size": {"ste": "32", "smooth": "64"}, "threads": {"ste": "1", "smooth": "1, 2"}}
    assert said(choice(), differing=differing) == [
        "batch_size differs between strategies: ste 32; smooth 64",
        "threads differs between strategies: ste 1; smooth 1, 2",
    ]


def test_another_baseline_than_the_one_asked_for_is_said():
    found = said(choice(), differences=[difference("smooth", baseline="ste")], baseline="subgradient")
    assert found == ["no run of this block has the strategy subgradient; the baseline is ste"]
    variant = [difference("smooth", baseline="ste (carrier=identity)")]
    assert said(choice(), differences=variant, baseline="ste") == []
    assert said(choice(), differences=variant, baseline="ste (carrier=identity)") == []
    assert said(choice(), differences=variant) == []
    two = [difference("smooth", baseline="ste (carrier=identity, gain=2)")]
    assert said(choice(), differences=two, baseline="ste") == []


def test_differences_without_pairs_and_beside_pairs_are_said():
    found = said(
        choice(),
        differences=[
            difference("ste", unpaired="only one of the two has seed 2", circumstances=["git.commit differs"]),
            difference("smooth", circumstances=["git.commit differs", "platform differs"]),
        ],
    )
    assert found == [
        "ste compared with subgradient is UNPAIRED: only one of the two has seed 2",
        "git.commit differs; the runs stay pairs: ste, smooth with subgradient",
        "platform differs; the runs stay pairs: smooth with subgradient",
    ]
    alone = [difference("ste", circumstances=["platform differs"])]
    assert said(choice(), differences=alone) == ["platform differs; the runs stay pairs: ste with subgradient"]


def test_a_p_that_cannot_be_reached_is_said_with_the_seeds_that_can():
    test = "cannot reach p = 0.05: the smallest p of a permutation test is"
    assert said(choice(), differences=[difference("ste", 0.0625, n=5)]) == [
        f"5 seeds {test} 0.0625; 6 pairs of seeds can"
    ]
    assert said(choice(), differences=[difference("ste", 1.0, n=1)]) == [f"1 seed {test} 1; 6 pairs of seeds can"]
    assert said(choice(), differences=[difference("ste", 0.5, n=2)]) == [f"2 seeds {test} 0.5; 6 pairs of seeds can"]
    assert said(choice(), differences=[difference("ste", 0.05)]) == []
    three = [difference("ste", 0.01), difference("smooth", 0.03125, n=6), difference("rewrite", 0.0625, n=5)]
    times = "5 seeds cannot reach p = 0.05: the smallest p of a permutation test is 0.0625 times 3 comparisons"
    assert said(choice(), differences=three) == [f"{times}; 7 pairs of seeds can"]
    assert said(choice(), differences=[difference("ste", 0.025), difference("smooth", 0.025)]) == []
    two = [difference("ste", 0.03125, n=6)] * 2
    assert said(choice(), differences=two) == [f"6 seeds {test} 0.0312 times 2 comparisons; 7 pairs of seeds can"]
