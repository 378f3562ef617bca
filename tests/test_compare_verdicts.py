"""The answer of a block: which verdict the numbers give, and each sentence whole."""

import math

import numpy as np
import pytest

pytest.importorskip("scipy")

from experiments.compare.forms.verdicts import remarks, sentence
from experiments.compare.statistics.blocks import RunBlock, Trial, Variant
from experiments.compare.statistics.comparison import compare
from experiments.compare.statistics.metric import Metric
from experiments.compare.statistics.results import Question
from run_folders import record

NOISE = np.random.default_rng(0).normal(size=(3, 8))
NOISE += np.array([[0.5], [0.0], [-0.5]]) - NOISE.mean(1, keepdims=True)  # a quarter of a point apart
LOSSES = Question(Metric("loss/val"))


def runs(strategy, mean, row, n=8, failed=0, **more):
    """n runs with a spread of half a point, the last of them failed."""
    values = [mean + 0.005 * noise for noise in NOISE[row, :n]]
    found = {seed: record(strategy, seed, value, **more) for seed, value in enumerate(values)}
    return found | {n - 1 - i: record(strategy, n - 1 - i, outcome="diverged") for i in range(failed)}


def result(question, **variants):
    given = [Variant(name, name, [Trial({}, own)]) for name, own in variants.items()]
    (found,) = compare([RunBlock(("floor",), given, {}, {})], question)
    return found


def answer(question=None, **variants):
    question = question or Question()
    return sentence(result(question, **variants), question)


def test_a_clear_winner_is_named_with_the_closest_other():
    three = {"ste": runs("ste", 0.5, 0), "smooth": runs("smooth", 0.6, 1), "rewrite": runs("rewrite", 0.55, 2)}
    found = result(Question(), **three)
    assert (found.verdict.kind, found.verdict.top) == ("winner", ("smooth",))
    assert (found.verdict.against.name, found.verdict.against.baseline) == ("smooth", "rewrite")
    said = answer(**three)
    assert said == "smooth is best: 5.2 points above rewrite (95 % interval +4.9 to +5.6, 8 pairs of seeds)."
    more = answer(Question(margin=0.01), **three)
    assert more.endswith("8 pairs of seeds), more than the 1.0 points that matter.")
    less = answer(Question(margin=0.08), **three)
    assert less.startswith("smooth is 5.2 points above rewrite (")
    assert less.endswith("), less than the 8.0 points that matter.")
    assert answer(Question(margin=0.052), **three) == said


def test_the_smaller_loss_wins():
    losses = {
        name: {seed: record(name, seed, best={"loss/val": mean + 0.01 * NOISE[row, seed]}) for seed in range(8)}
        for row, (name, mean) in enumerate({"ste": 1.0, "smooth": 0.5}.items())
    }
    said = "smooth is best: 0.505 nats below ste (95 % interval -0.511 to -0.499, 8 pairs of seeds)."
    assert answer(LOSSES, **losses) == said


def test_two_that_are_not_separated_are_not_called_equal():
    two = {"ste": runs("ste", 0.6, 0), "smooth": runs("smooth", 0.6, 1)}
    ends = "+0.3 points (95 % interval -0.1 to +0.6, 8 pairs of seeds)"
    found = result(Question(), **two)
    assert (found.verdict.kind, found.verdict.top) == ("unclear", ("ste", "smooth"))
    said = f"No difference shown between ste and smooth: {ends}."
    assert answer(**two) == f"{said} This does not show that they are equal."
    wanted = Question(margin=0.0025, half_width=0.002)
    seeds = result(wanted, **two).differences[0].seeds_needed
    assert seeds > 8
    said = f"Not settled: ste compared with smooth, {ends}."
    assert answer(wanted, **two) == f"{said} About {seeds} seeds would narrow it to ± 0.2 points."
    never = Question(margin=0.0025, half_width=1e-6)
    assert answer(never, **two) == f"{said} More seeds cannot narrow the interval to ± 0.0 points."


def test_equivalence_is_within_the_stated_margin():
    two = {"ste": runs("ste", 0.6, 0), "smooth": runs("smooth", 0.6, 1)}
    assert answer(Question(margin=0.02), **two) == (
        "ste and smooth are equivalent within ± 2.0 points, which was stated beforehand: "
        "+0.3 points (90 % interval 0.0 to +0.5, 8 pairs of seeds)."
    )


def test_several_at_the_top_and_the_closest_below():
    three = {"ste": runs("ste", 0.6, 0), "smooth": runs("smooth", 0.6, 1), "rewrite": runs("rewrite", 0.5, 2)}
    found = result(Question(), **three)
    assert (found.verdict.kind, found.verdict.top) == ("several", ("ste", "smooth"))
    said = answer(**three)
    assert said.startswith("ste and smooth are not separated; ste is 10.5 points above rewrite (95 % interval ")
    three["rewrite"] = runs("rewrite", 0.6, 2)
    said = answer(**three)
    assert said.endswith(" are not separated. This does not show that they are equal.")
    assert said.startswith("ste, smooth and rewrite")


@pytest.mark.parametrize(("n", "pairs"), [(1, "1 pair"), (2, "2 pairs")])
def test_too_few_pairs_settle_nothing(n, pairs):
    two = {"ste": runs("ste", 0.6, 0, n), "smooth": runs("smooth", 0.5, 1, n)}
    assert result(Question(), **two).verdict.kind == "too few"
    assert answer(**two) == f"{pairs}: no interval; 3 are needed. ste is ahead of smooth, which settles nothing."


def test_pairs_that_agree_settle_nothing():
    means = {"ste": 0.6, "smooth": 0.5}
    two = {name: {seed: record(name, seed, mean) for seed in range(5)} for name, mean in means.items()}
    said = "All 5 pairs agree, which shows nothing about the spread: no interval"
    assert answer(**two) == f"{said}. ste is ahead of smooth, which settles nothing."


def test_failed_runs_are_named_and_the_ranks_decide():
    two = {"ste": runs("ste", 0.6, 0), "smooth": runs("smooth", 0.5, 1, failed=2)}
    assert answer(**two) == (
        "ste is best: ahead of smooth, by rank in 100 % of all comparisons of two runs (p 0.0078). "
        "2 of 8 runs of smooth failed; they rank lowest."
    )
    two["ste"] = runs("ste", 0.6, 0, failed=3)
    said = answer(**two)
    assert said.startswith("No difference shown between ste and smooth: by rank in ")
    assert said.endswith("3 of 8 runs of ste and 2 of 8 runs of smooth failed; they rank lowest.")
    few = {"ste": runs("ste", 0.6, 0, 4), "smooth": runs("smooth", 0.5, 1, 4, failed=1)}
    assert answer(**few).startswith("Runs failed, and the ranks of so few runs show nothing. ste is ahead of smooth")


def test_one_variant_is_compared_with_none():
    assert answer(ste=runs("ste", 0.6, 0)).startswith("Only ste has runs, with 60.2 %, so nothing is compared.")
    nothing = {seed: record(outcome="diverged") for seed in range(3)}
    assert answer(ste=nothing).startswith("No finished run has a score, so nothing is compared.")
    assert answer(ste={0: record(outcome="unfinished")}) == "No finished run has a score, so nothing is compared."


def test_seeds_that_are_not_pairs_are_not_called_so():
    two = {"ste": runs("ste", 0.6, 0), "smooth": runs("smooth", 0.5, 1, 7)}
    assert ", 7 seeds each)." in answer(**two)


def test_the_control_by_equal_functions_is_set_beside_0():
    two = {"subgradient": runs("subgradient", 0.6, 0, exact=True), "rewrite": runs("rewrite", 0.6, 1, exact=True)}
    said = (
        "A/A control: rewrite and subgradient are the same function, up to the choice at kinks and ties, so their true "
        "difference is 0. Measured: -0.3 points (95 % interval -0.6 to +0.1, 8 pairs of seeds), which holds 0."
    )
    assert remarks(result(Question(), **two), Question())[0] == said
    two["rewrite"] = runs("rewrite", 0.5, 1, exact=True)
    assert remarks(result(Question(), **two), Question())[0].endswith(
        ", which excludes 0: a false claim, or ties decide."
    )
    two["rewrite"] = runs("rewrite", 0.6, 0, exact=True)
    said = "Measured: 0.0 points (all 8 pairs agree, which shows nothing about the spread: no interval)."
    assert remarks(result(Question(), **two), Question())[0].endswith(said)


def test_every_verdict_has_a_sentence_in_plain_words():
    """No sentence claims more than the numbers: words that a reader takes for proof are not in it."""
    generator = np.random.default_rng(1)
    kinds, words = set(), ("significant", "proves", "no effect", "trend", "nan", "None")
    for _ in range(60):
        variants = {}
        for index, name in enumerate(("ste", "smooth", "rewrite")[: generator.integers(1, 4)]):
            n, failed = generator.integers(1, 9), int(generator.integers(0, 2) * generator.integers(0, 3))
            variants[name] = runs(name, generator.choice([0.6, 0.605, 0.5]), index, n, min(failed, n))
        question = Question(margin=generator.choice([None, 0.002, 0.03]))
        found = result(question, **variants)
        said = sentence(found, question)
        kinds.add(found.verdict.kind)
        assert not any(word in said for word in words), said
        assert said.endswith(".")
        assert math.isclose(found.family.pairs, math.comb(len(variants), 2))
    assert kinds >= {"winner", "several", "unclear", "too few", "alone"}
