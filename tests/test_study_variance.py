"""Whether the analysis of variance of a study's trials is that of the textbooks, and of the runs it names."""

import csv
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from experiments.study.stage import TrialRun
from experiments.study.study_file import Pair
from experiments.study.variance.anova import analyse, ranges
from experiments.study.variance.balance import balance
from experiments.study.variance.design import arrange
from experiments.study.variance.report import write_variance
from run_folders import record

stats = pytest.importorskip("scipy.stats")
FACTORS = ["strategy.kernel", "strategy.temperature"]

# Montgomery, Design and Analysis of Experiments: targets on a radar screen. Clutter x filter x operator, the block.
RADAR = np.array(
    [
        [[90, 96, 100, 92], [86, 84, 92, 81]],
        [[102, 106, 105, 96], [87, 90, 97, 80]],
        [[114, 112, 108, 98], [93, 91, 95, 83]],
    ],
    dtype=float,
)


def test_a_textbook_example():
    found = {term.name: term for term in analyse(RADAR, ["clutter", "filter"])}
    assert {name: term.df for name, term in found.items()} == {
        "clutter": 2, "filter": 1, "clutter x filter": 2, "seed": 3, "residual": 15,
    }  # fmt: skip
    squares = [335.5833, 1066.6667, 77.0833, 402.1667, 166.3333]
    assert [term.squares for term in found.values()] == pytest.approx(squares, abs=5e-5)
    assert [term.share for term in found.values()] == pytest.approx(np.array(squares) / 2047.8333, abs=5e-5)
    assert [found[name].f for name in list(found)[:3]] == pytest.approx([15.1315, 96.1924, 3.4757], abs=5e-5)
    for name in (
        "clutter",
        "clutter x filter",
    ):  # with 2 and n degrees of freedom Fisher's tail is (1 + 2 F / n)^(-n / 2)
        assert found[name].p == pytest.approx((1 + 2 * found[name].f / 15) ** -7.5)


@pytest.mark.parametrize("shape", [(2, 3, 2), (6, 6, 2), (3, 2, 4, 3)])
def test_the_terms_divide_the_variance_and_an_effect_is_found_where_it_is(shape):
    draw = np.random.default_rng(0)
    names = ["a", "b", "c"][: len(shape) - 1]
    scores = draw.normal(size=shape)
    terms = analyse(scores, names)
    assert sum(term.share for term in terms) == pytest.approx(1)
    assert sum(term.df for term in terms) == scores.size - 1
    added = draw.normal(size=(shape[0], *[1] * (len(shape) - 1)))
    changed = analyse(scores + added, names)
    for before, after in zip(terms, changed, strict=True):
        assert (before.squares == pytest.approx(after.squares)) == (before.name != "a")


def rejections(scores):
    """How often each term of many designs of two factors has p < .05."""
    return sum(np.array([term.p < 0.05 for term in analyse(one, ["a", "b"])[:3]]) for one in scores)


def best_of(scores):
    """The best of the first dim, by the mean over the last."""
    best = scores.mean(-1, keepdims=True).argmax(0, keepdims=True)
    return np.take_along_axis(scores, best, 0)[0]


def test_without_an_effect_one_in_twenty_is_below_05():
    """400 designs of 4 x 5 combinations and 3 seeds, each seed with a level of its own."""
    draw = np.random.default_rng(1)
    scores = draw.normal(size=(400, 4, 5, 3)) + 3 * draw.normal(size=(400, 1, 1, 3))
    low, high = stats.binom(400, 0.05).interval(0.999)
    assert all(low <= count <= high for count in rejections(scores))


def test_what_the_choice_of_a_value_on_the_same_seeds_does():
    """As the page on studies says: three equally good values everywhere, or at half of the levels of a only."""
    draw = np.random.default_rng(2)
    scores = draw.normal(size=(3, 300, 6, 6, 2))
    assert all(rejections(best_of(scores)) <= 6)
    scores[1:, :, :3] = -math.inf
    at_a, at_b, at_both = rejections(best_of(scores)) / 300
    assert 0.2 < at_a < 0.4
    assert max(at_b, at_both) < 0.06


@pytest.mark.nightly
@pytest.mark.parametrize("shape", [(3, 4, 2), (2, 3, 2, 3)])
def test_the_terms_are_those_of_statsmodels(shape):
    pandas = pytest.importorskip("pandas")
    ols = pytest.importorskip("statsmodels.formula.api").ols
    from statsmodels.stats.anova import anova_lm

    names = ["a", "b", "c"][: len(shape) - 1]
    scores = np.random.default_rng(3).normal(size=shape)
    places = zip([*names, "seed"], np.indices(shape).reshape(len(shape), -1), strict=True)
    frame = pandas.DataFrame({**dict(places), "y": scores.ravel()})
    model = ols(f"y ~ {'*'.join(f'C({name})' for name in names)} + C(seed)", frame).fit()
    expected = anova_lm(model)
    for term in analyse(scores, names):
        row = expected.loc[
            "Residual" if term.name == "residual" else ":".join(f"C({one})" for one in term.name.split(" x "))
        ]
        numbers = [term.df, term.squares, term.f, term.p]
        assert numbers == pytest.approx(row[["df", "sum_sq", "F", "PR(>F)"]].tolist(), nan_ok=True)


def test_ranges_are_of_means_and_of_best_cells():
    cells = np.array([[0.1, 0.5, 0.3], [0.2, 0.2, 0.5]])
    scores = np.stack([cells - 0.01, cells + 0.01], axis=-1)
    assert ranges(scores, 0) == pytest.approx((0.0, 0.0))
    assert ranges(scores, 1) == pytest.approx((0.25, 0.3))


@pytest.mark.parametrize("seed", range(20))
def test_all_combinations_of_the_levels_kept_are_cells(seed):
    draw = np.random.default_rng(seed)
    cells = [cell for cell in product("xyz", (1, 2, 8), (True, False)) if draw.random() < 0.8]
    kept = balance(cells, 3)
    assert set(product(*kept)) <= set(cells)
    assert balance(list(product(*kept)), 3) == kept


def test_the_level_that_most_combinations_lack_is_left_out():
    cells = [*product("xyz", (8.0, 1.0)), ("x", 0.5)]
    assert balance(cells, 2) == [["x", "y", "z"], [1.0, 8.0]]
    assert balance([], 2) == [[], []]


def trials(accuracy, components=("binary", "spike"), temperatures=(0.5, 1.0), rates=(0.1, 0.3)):
    """Two kernels at all temperatures and rates with seeds 5 and 4; None for a diverged run."""
    runs = []
    for component, kernel in product(components, ("normal", "cauchy")):
        pair = Pair(f"{component} {kernel}", (f"component={component}", f"strategy.kernel={kernel}", "strategy=ste"))
        for temperature, rate, seed in product(temperatures, rates, (5, 4)):
            score = accuracy(component, kernel, temperature, rate, seed)
            config = {"strategy.kernel": kernel, "strategy.temperature": temperature, "optimizer.lr": rate}
            outcome = "diverged" if score is None else "done"
            run = record(seed=seed, accuracy=score, outcome=outcome, config=config, options={"component": component})
            runs.append(TrialRun(pair, {"strategy.temperature": temperature, "optimizer.lr": rate}, run))
    return runs


def scored(component, kernel, temperature, rate, seed):
    """0.1 is the best rate of binary, 0.3 that of spike; the kernel counts at temperature 1 only."""
    good = (rate == 0.1) == (component == "binary")
    noise = {4: 0.01, 5: -0.01}[seed] * (1 if kernel == "normal" else 2)
    return (
        0.2
        + 0.3 * good
        + 0.1 * (temperature if isinstance(temperature, float) else 0.5)
        + 0.2 * (kernel == "cauchy") * (temperature == 1.0)
        + noise
    )


def test_each_group_of_pairs_is_a_design_at_the_best_rate():
    binary, spike = arrange(trials(scored), FACTORS)
    assert (binary.group, spike.group) == ("component=binary", "component=spike")
    assert binary.levels == {"strategy.kernel": ["normal", "cauchy"], "strategy.temperature": [0.5, 1.0]}
    expected = [[[0.56, 0.54], [0.61, 0.59]], [[0.57, 0.53], [0.82, 0.78]]]  # seeds 4 and 5
    for design in (binary, spike):
        assert design.scores == pytest.approx(np.array(expected))
        assert (design.obstacle, any(design.left_out.values())) == ("", False)
    whole = arrange(trials(scored), ["component", *FACTORS])
    assert [design.group for design in whole] == ["strategy=ste"]
    assert whole[0].scores.shape == (2, 2, 2, 2)


def test_groups_are_named_where_one_has_only_keys_of_the_other():
    """A level may be a list."""
    runs = trials(scored, ["spike"], temperatures=([0.5, 0.1], [1.0, 0.1]))
    detached = [replace(one, pair=Pair("d", (*one.pair.overrides, "component.detach_reset=true"))) for one in runs]
    first, second = arrange([*runs, *detached], FACTORS)
    assert (first.group, second.group) == ("component=spike, strategy=ste", "component.detach_reset=true")
    assert first.levels["strategy.temperature"] == ["[0.5,0.1]", "[1.0,0.1]"]


def test_a_combination_whose_best_trial_diverged_is_absent():
    def failing(component, kernel, temperature, rate, seed):
        return None if temperature == 8.0 and kernel == "normal" else scored(component, kernel, temperature, rate, seed)

    (found,) = arrange(trials(failing, ["binary"], (8.0, 1.0, 0.5)), FACTORS)
    assert found.left_out == {"strategy.kernel": [], "strategy.temperature": [8.0]}
    assert found.scores.shape == (2, 2, 2)
    (found,) = arrange(trials(lambda *_: None), FACTORS[:1])[:1]
    assert found.obstacle == "fewer than two levels of strategy.kernel occur in all combinations"
    (found,) = arrange(trials(lambda *_: 0.1, ["binary"]), FACTORS)
    assert found.obstacle == "the difference of two seeds is the same in all combinations"


@pytest.mark.slow
def test_the_report_has_a_table_for_each_group(tmp_path):
    def one_fails(component, kernel, temperature, rate, seed):
        return None if temperature == 8.0 else scored(component, kernel, temperature, rate, seed)

    runs = [*trials(one_fails, ["binary"], (0.5, 1.0, 8.0)), *trials(lambda *_: 0.1, ["spike"])]
    text = write_variance(runs, FACTORS, tmp_path)
    for part in (
        "![validation accuracy by factors](variance.svg)",
        "- 40 runs, of which 8 diverged.",
        "\ncomponent=binary: 2 levels of strategy.kernel, 2 levels of strategy.temperature, 2 seeds\n",
        "Left out, because a combination is absent: strategy.temperature 8.0.",
        "| term | df | share % | F | p | range | range at best |",
        "| strategy.temperature | 1 |",
        "No analysis: the difference of two seeds is the same in all combinations.",
    ):
        assert part in text
    with (tmp_path / "variance.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["term"] for row in rows] == [*FACTORS, " x ".join(FACTORS), "seed", "residual"]
    assert sum(float(row["share"]) for row in rows) == pytest.approx(1)
    # kernel: means of 0.575 and 0.675; at the best temperature 0.6 and 0.8
    assert [float(rows[0][name]) for name in ("range", "range_at_best")] == pytest.approx([0.1, 0.2])
    drawn = (tmp_path / "variance.svg").read_bytes()
    write_variance(runs, FACTORS, tmp_path)
    assert (tmp_path / "variance.svg").read_bytes() == drawn
