"""What a reader must know about a block before believing its numbers: each sentence whole, and only where it holds."""

from math import nan

import pytest

pytest.importorskip("scipy")

from experiments.compare.statistics.blocks import RunBlock, Trial, Variant
from experiments.compare.statistics.family import Family
from experiments.compare.statistics.intervals import ConfidenceInterval
from experiments.compare.statistics.notes import notes
from experiments.compare.statistics.results import Difference, VariantScore
from experiments.compare.statistics.tuning import Seeds, TrialChoice
from run_folders import record

SAME_RATE = "every strategy used the same learning rate; sweep optimizer.lr to tune each separately"


def choice(name="ste", trials=2, runs=None, edges=(), expected=None, rate=0.1, validation=None):
    strategy = name.partition(" ")[0]
    variant = Variant(strategy, name, [Trial({})] * trials)
    reported = [record(strategy)] if runs is None else runs
    return TrialChoice(variant, Trial({"optimizer.lr": rate}), list(edges), [], 2, expected, validation, reported)


INTERVAL = ConfidenceInterval(0.0, -0.1, 0.1, 3)


def difference(name, baseline="subgradient", **changes):
    known = {"interval": INTERVAL, "unpaired_because": "", "circumstances": [], "p": 0.5, "better": 0.5}
    known |= {"p_ranks": 0.5, "smallest_p_ranks": 0.01, "equivalence": INTERVAL, "p_equivalent": None}
    known |= {"seeds_needed": None, "failed": 0, "samples": 100, "verdict": "unclear"}
    return Difference(name, baseline, **{**known, **changes})


def said(*choices, seeds=None, scores=(), differences=(), baseline="subgradient", differing=None):
    block = RunBlock(("floor",), [one.variant for one in choices], {}, differing or {})
    family = Family(3, "report")
    found = notes(block, seeds or Seeds((), (0, 1)), choices, scores, differences, family, baseline)
    return [note for note in found if note != COVERED]


COVERED = "intervals cover training variation and the choice of the 100 test samples"


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


def test_a_chosen_trial_without_reported_runs_is_said():
    assert said(choice(runs=[])) == ["ste: the chosen trial has no run on the reported seeds"]


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
    two = [difference("smooth", baseline="ste (carrier=identity, gain=2)")]
    assert said(choice(), differences=two, baseline="ste") == []


def test_differences_without_pairs_and_beside_pairs_are_said():
    found = said(
        choice(),
        differences=[
            difference("ste", unpaired_because="only one of the two has seed 2", circumstances=["git.commit differs"]),
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


def test_the_best_baseline_is_named_with_where_it_was_the_best():
    best = "the baseline ste is the best by validation accuracy on the choosing seeds"
    found = [difference("smooth", baseline="ste")]
    assert said(choice(validation=0.5), differences=found, baseline="best") == [best]
    unknown = "no seed chose, so none is known to be best beforehand; the baseline is ste"
    assert said(choice(), differences=found, baseline="best") == [unknown]
    assert said(choice(), baseline="best") == []


def test_missing_intervals_are_said_with_the_reason():
    none, tied = ConfidenceInterval(0.5, nan, nan, 2), ConfidenceInterval(0.5, nan, nan, 8)
    scores = [
        VariantScore(name, name, interval, None, None, "", None) for name, interval in (("ste", none), ("a", tied))
    ]
    assert said(choice(), scores=scores, differences=[difference("smooth", interval=none)]) == [
        "ste: 2 runs: no interval",
        "a: all 8 runs agree, which shows nothing about the spread: no interval",
        "smooth - subgradient: 2 pairs: no interval",
    ]


def test_what_the_intervals_cover_is_said():
    two = [difference("ste", samples=100), difference("smooth", samples=None)]
    block = RunBlock(("floor",), [], {}, {})
    assert notes(block, Seeds((), (0,)), [], [], two, Family(3, "report"), "subgradient") == [
        COVERED,
        "the intervals of smooth cover training variation only, not the choice of the test samples",
    ]
    only = "the intervals cover training variation only, not the choice of the test samples"
    assert said(choice(), differences=two[1:]) == [only]


def test_where_runs_failed_the_ranks_decide_and_whether_they_can_is_said():
    ranks = "ste compared with subgradient: 2 runs failed, so the ranks decide"
    assert said(choice(), differences=[difference("ste", failed=2, smallest_p_ranks=0.05)]) == [ranks]
    assert said(choice(), differences=[difference("ste", failed=2, smallest_p_ranks=0.06)]) == [
        f"{ranks}; these seeds cannot reach p = 0.05, at least 7 pairs can"
    ]
    assert said(choice(), differences=[difference("ste", smallest_p_ranks=1.0)]) == []
