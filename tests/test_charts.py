"""Charts of the page and figures: which panels there are, and that a value is where it belongs."""

import re

import numpy as np
import pytest

pytest.importorskip("scipy")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from matplotlib.figure import Figure

from experiments.compare.forms import charts, page
from experiments.compare.forms.axes import draw_forest, draw_panel
from experiments.compare.forms.drawings import draw
from experiments.compare.forms.forests import difference_forest, score_forest
from experiments.compare.forms.panels import MOST_POINTS, NORM, Curve, Panel, panels
from experiments.compare.forms.scales import axis
from experiments.compare.report import make
from experiments.compare.statistics.metric import Metric
from experiments.compare.statistics.results import Question
from experiments.plotting import PALETTE
from run_folders import write_run


def logged(steps=20, **tags):
    """Logged steps in which each tag has the value of its function of the step."""
    return [{"step": step, **{tag: value(step) for tag, value in tags.items()}} for step in range(1, steps + 1)]


def section(root, steps=20, **strategies):
    """A block with two seeds of each strategy, whose tags are functions of the step."""
    for strategy, tags in strategies.items():
        for seed in (0, 1):
            write_run(
                root / f"{strategy}-{seed}", strategy, seed, rows=logged(steps, **tags), max_steps=steps, log_every=1
            )
    (made,) = make([root]).sections
    return made


def titles(made):
    return [panel.title for panel in panels(made)]


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [
        (lambda s: 1.0, lambda s: 1.0, False),
        (lambda s: 1.0, lambda s: 0.5, False),
        (lambda s: 1.0, lambda s: 1 / s, True),
    ],
    ids=["one value", "two values", "a schedule"],
)
def test_the_temperature_is_shown_only_where_it_varies_in_training(tmp_path, first, second, shown):
    made = section(tmp_path, ste={"temperature": first}, smooth={"temperature": second})
    assert ("temperature" in titles(made)) == shown


@pytest.mark.parametrize(("other", "shown"), [(2.0, False), (3.0, True)])
def test_a_panel_in_which_all_is_one_number_is_left_out(tmp_path, other, shown):
    made = section(tmp_path, ste={"loss/train": lambda s: 2.0}, smooth={"loss/train": lambda s: other})
    assert titles(made) == ["training loss"] * shown


def test_a_thinned_curve_keeps_both_ends(tmp_path):
    made = section(tmp_path, steps=1000, ste={"loss/train": lambda s: 1 / s})
    ((curve,),) = (panel.curves for panel in panels(made))
    assert len(curve.x) == MOST_POINTS
    assert (curve.x[0], curve.x[-1]) == (1, 1000)
    assert (curve.middle[0], curve.middle[-1]) == (1.0, 0.001)


def drawn(values, quantity="loss, nats", zero=None, **more):
    x = np.arange(len(values))
    middle = np.array(values, dtype=float)
    whole = np.ones(len(values), dtype=bool)
    curve = Curve("ste", x, middle, middle, middle, whole, **more)
    (chart,) = charts.charts([Panel("curves", "title", "step", quantity, [curve], zero=zero)])
    return chart


def read(chart, path):
    """The values of a path, as the page's script reads them."""
    places = [float(y) for _, y in re.findall(r"([-\d.]+) ([-\d.]+)", path)]
    change, back = (np.log10, lambda v: 10**v) if chart.y.log else (np.asarray, np.asarray)
    low, high = change(chart.y.low), change(chart.y.high)
    return [float(back(low + (p - chart.y.start) / (chart.y.end - chart.y.start) * (high - low))) for p in places]


@pytest.mark.parametrize("quantity", ["loss, nats", NORM])
def test_values_can_be_read_off_a_path(quantity):
    values = [0.3, 2.0, 0.7, 1.1]
    chart = drawn(values, quantity)
    assert read(chart, chart.lines[0].middle) == pytest.approx(values, rel=2e-3)
    assert chart.at == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("low", "high", "log"),
    [(0.2, 7.3, False), (0.02, 7.3, True), (0.7, 0.9, True), (0.7, 3.6, True), (1e-6, 3e4, True), (-3, 101, False)],
)
def test_ticks_are_round_numbers_within_the_axis(low, high, log):
    found = axis([low, high], 0.0, 100.0, log)
    assert found.place([found.low, found.high]).tolist() == [0.0, 100.0]
    assert 3 <= len(found.ticks) <= 10
    for place, label in found.ticks:
        assert found.low <= float(label) <= found.high
        assert place == pytest.approx(float(found.place(float(label))), abs=0.051)


def test_a_step_without_a_value_is_a_gap():
    line = drawn([1.0, 2.0, np.nan, 4.0, 5.0]).lines[0]
    assert [part.count(" ") for part in line.middle.split("M")[1:]] == [2, 2]
    assert line.band.count("Z") == 2


def test_the_lower_edge_of_a_log_axis_stands_for_zero():
    assert drawn([0.01, 0.5, 1.0], NORM, zero=0.01).y.low == 0.01
    assert drawn([0.1, 0.5, 1.0], NORM, zero=0.01).y.low < 0.1


@pytest.mark.parametrize(("tag", "order"), [("accuracy/test", ["smooth", "ste"]), ("loss/val", ["ste", "smooth"])])
def test_a_forest_has_the_best_first_and_a_dot_a_seed(tmp_path, tag, order):
    for strategy, level, seed in [(s, v, n) for s, v in (("ste", 0.4), ("smooth", 0.6)) for n in (0, 1, 2)]:
        rows = logged(**{"loss/val": lambda step, level=level: level})
        folder = write_run(tmp_path / f"{strategy}{seed}", strategy, seed, level + seed / 100, rows=rows)
        result = folder / "result.json"
        result.write_text(result.read_text().replace('"loss/val": 1.0', f'"loss/val": {level + seed / 100}'))
    (made,) = make([tmp_path], Question(Metric(tag))).sections
    forest = score_forest(made, Question(Metric(tag)))
    assert [row.name for row in forest.rows] == order
    scale = 100 if tag == "accuracy/test" else 1
    assert forest.rows[order.index("ste")].dots == pytest.approx([scale * v for v in (0.4, 0.41, 0.42)])
    (row,) = difference_forest(made, Question(Metric(tag))).rows
    assert len(row.dots) == 3
    assert np.mean(row.dots) == pytest.approx(row.mean)


def test_a_strategy_has_its_colour_in_charts_forests_and_figures(tmp_path):
    falling = {"loss/train": lambda s: 1 / s}
    made = section(tmp_path / "runs", ste=falling, smooth=falling, zgr={"loss/train": lambda s: 2 / s})
    report = make([tmp_path / "runs"])
    text = page.render(report, tmp_path)
    for name in ("ste", "smooth", "zgr"):
        colour, on_dark, _ = PALETTE[name]
        styles = set(re.findall(rf'data-name="{name}" style="([^"]*)"', text))
        assert styles == {f"--light:{colour};--dark:{on_dark}"}
    axes, forest = Figure().subplots(1, 2)
    draw_panel(axes, panels(made)[0], report.looks)
    draw_forest(forest, score_forest(made, Question()), report.looks)
    expected = {PALETTE[name][0] for name in ("ste", "smooth", "zgr")}
    assert {line.get_color() for line in axes.lines} == {line.get_color() for line in forest.lines} == expected


def test_names_of_any_length_are_drawn(tmp_path):
    falling = {"loss/train": lambda s: 1 / s}
    made = section(tmp_path / "runs", ste=falling, **{"long_name_" * 12: falling})
    draw(made, Question(), make([tmp_path / "runs"]).looks, tmp_path / "0")
    assert (tmp_path / "0_scores.svg").exists()
    assert (tmp_path / "0_differences.svg").exists()
