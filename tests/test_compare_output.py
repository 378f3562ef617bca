"""The report in its forms: 80 columns, one self-contained page, strict JSON, and names that are only text."""

import base64
import csv
import hashlib
import io
import json
import re
import sys
from concurrent.futures.process import BrokenProcessPool
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

pytest.importorskip("scipy")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
from matplotlib.figure import Figure

from experiments import plotting
from experiments.compare import processes
from experiments.compare.command import in_words, main
from experiments.compare.explaining import evidence
from experiments.compare.forms import page, plain_text, readme
from experiments.compare.forms.axes import draw_panel, logarithmic
from experiments.compare.forms.drawings import heat_map
from experiments.compare.forms.machine_files import FORMULA, write_machine_files
from experiments.compare.forms.panels import panels
from experiments.compare.forms.tables import TextTable
from experiments.compare.processes import Workers, progress
from experiments.compare.report import make
from experiments.compare.statistics.metric import Metric
from experiments.compare.statistics.results import Question
from run_folders import write_run

HOSTILE = "<script>alert('$x_1$')</script>|`*\x1b[31m"


class Page(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A report on runs that are called what no run should be called, one of them failed; and what was printed."""
    root = tmp_path_factory.mktemp("runs")
    for seed in (0, 1, 2):
        write_run(root / "a" / f"{seed}", "subgradient", seed, 0.5 + seed / 50)
        write_run(root / "<script>alert(1)<" / f"{seed} #?%", "ste", seed, 0.7, strategy__carrier=HOSTILE)
        write_run(root / "b" / f"{seed}", "ste", seed, 0.6, strategy__carrier="identity")
    error = f"training diverged by step 5 {HOSTILE}"
    write_run(root / "c", "ste", 3, status="FAILED", error=error, strategy__carrier=HOSTILE)
    out = tmp_path_factory.mktemp("report & co")
    assert main([str(root), "--out", str(out), "--readme", str(out / "table.md")]) == 0
    return root, out


def test_the_page_is_one_file_without_network_and_with_its_own_script_only(written):
    _, out = written
    text = (out / "report.html").read_text()
    page = Page(text)
    tags = [tag for tag, _ in page.tags]
    assert set(tags) & {"link", "iframe", "object", "img"} == set()
    assert tags.count("script") == 1
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") or name == "src" for name in attributes), tag
        assert attributes.get("href", "#").startswith("#")
    (policy,) = (attributes["content"] for tag, attributes in page.tags if "http-equiv" in attributes)
    script = text.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    images = [attributes for tag, attributes in page.tags if attributes.get("role") == "img"]
    assert len(images) >= 4
    assert all(image["aria-label"] for image in images)


def test_the_headings_of_the_page_are_in_order(written):
    _, out = written
    levels = [int(tag[1]) for tag, _ in Page((out / "report.html").read_text()).tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip([0, *levels], levels, strict=False))


def test_the_page_says_what_made_it_and_sets_apart_what_differs(tmp_path):
    for strategy, temperature in (("ste", None), ("smooth", 0.5)):
        argv = ("train.py", f"strategy={strategy}")
        write_run(tmp_path / "runs" / strategy, strategy, argv=argv, strategy__temperature=temperature)
    text = Page(page.render(make([tmp_path / "runs"]), tmp_path, "hardgrad compare runs --out report")).text
    assert re.search(r"Written on \d{4}-\d\d-\d\d \d\d:\d\d UTC by hardgrad compare runs --out report\.", text)
    made = text.partition("made by these commands:")[2].replace("\n", "")
    assert made.startswith("train.py strategy=smoothtrain.py strategy=ste")
    differing, _, shared = text.partition("Settings that differ between runs")[2].partition(
        "Settings that all runs share"
    )
    assert "strategy.temperature0.5, not set" in differing.replace("\n", "")
    assert "max_steps20" in shared.replace("\n", "")
    assert "None" not in text


def test_the_page_shows_names_as_text_and_runs_that_exist(written):
    root, out = written
    page = Page((out / "report.html").read_text())
    shown = HOSTILE.replace("\x1b", "?")
    assert f"ste (carrier={shown})" in page.text
    assert f"training diverged by step 5 {shown}" in page.text
    links = [attributes["data-run"] for tag, attributes in page.tags if "data-run" in attributes]
    targets = [(out / unquote(link)).resolve() for link in links]
    assert {root / "c", *(run for kind in ("a", "b") for run in (root / kind).iterdir())} < set(targets)
    assert all(target.is_dir() for target in targets)
    targets = {attributes["href"][1:] for tag, attributes in page.tags if tag == "a"}
    assert targets <= {attributes.get("id") for _, attributes in page.tags}


def test_figures_are_files_whatever_the_names(written):
    _, out = written
    names = {path.name for path in (out / "figures").iterdir()}
    kinds = ("0_curves", "0_scores", "0_differences", "heat_map")
    assert {f"{kind}.{form}" for kind in kinds for form in ("svg", "png")} == names
    drawn = (out / "figures" / "0_curves.svg").read_text()
    assert "<script" not in drawn
    assert "$x_1$" in drawn
    assert (out / "figures" / "0_curves.png").read_bytes().startswith(b"\x89PNG")


def test_markdown_has_no_markup_in_names(written):
    _, out = written
    for name in ("report.md", "table.md"):
        text = (out / name).read_text()
        assert "<script" not in text
        assert "\x1b" not in text
        rows = [line for line in text.splitlines() if line.startswith("| ste (carrier=")]
        assert all(len(re.findall(r"(?<!\\)\|", row)) == len(re.findall(r"(?<!\\)\|", rows[0])) for row in rows[:1])


def test_json_is_strict_and_says_what_the_page_says(written):
    _, out = written
    found = json.loads((out / "report.json").read_text(), parse_constant=pytest.fail)
    (block,) = found["blocks"]
    assert [score["interval"]["n"] for score in block["scores"]] == [3, 3, 3]
    assert [score["failures"] for score in block["scores"]] == ["", "1 diverged", ""]
    assert [score["failed"]["failed"] for score in block["scores"]] == [0, 1, 0]
    assert found["answers"] == {block["name"]: block["answer"]}
    assert "1 of 4 runs of ste (carrier=" in block["answer"]
    assert (block["family"]["pairs"], block["family"]["scope"]) == (3, "report")
    assert {difference["verdict"] for difference in block["differences"]} <= {"better", "unclear", "none"}
    assert "UNPAIRED: only one of the two has seed 3" in "\n".join(block["notes"])
    assert len(found["runs"]) == 10
    assert sum(run["outcome"] == "diverged" for run in found["runs"]) == 1


def test_csv_has_every_run_and_difference(written):
    _, out = written

    def rows(name):
        with open(out / name, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    assert len(rows("runs.csv")) == 10
    assert [row["n"] for row in rows("scores.csv")] == ["3", "3", "3"]
    assert [row["failed_ended"] for row in rows("scores.csv")] == ["3", "4", "3"]
    assert [float(row["training_loss"]) for row in rows("scores.csv")] == pytest.approx([0.1] * 3)
    assert {row["baseline"] for row in rows("differences.csv")} == {"subgradient"}
    last = [row for row in rows("curves.csv") if row["tag"] == "accuracy/val" and row["step"] == "20"]
    assert float(next(row for row in last if row["strategy"] == "subgradient")["mean"]) == pytest.approx(0.52)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_no_cell_of_a_csv_file_is_a_formula(tmp_path, text):
    """Text of a run folder, in a value and in the name of a key; numbers stay numbers."""
    for seed, value in enumerate((text, "plain")):
        write_run(tmp_path / "runs" / f"{seed}", seed=seed, accuracy=-0.5, **{f"strategy__{text}": value, text: value})
    write_machine_files(make([tmp_path / "runs"]), tmp_path)
    for name in ("runs", "scores", "differences", "curves"):
        with open(tmp_path / f"{name}.csv", newline="", encoding="utf-8") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        odd = {cell for cell in cells if cell.startswith(FORMULA)}
        assert odd <= {"-0.5", "-0.25"}
        assert name != "runs" or cells.count(f"'{text}") == 3


def many(root, count):
    for index in range(count):
        for seed in (0, 1):
            write_run(root / f"{index}-{seed}", f"strategy_{index:02}", seed, 0.5 + index / 100 + seed / 50)
    return root


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 40])
def test_the_terminal_shows_80_columns_for_any_number_of_strategies(tmp_path, count):
    text = plain_text.render(make([many(tmp_path, count)]))
    assert max(map(len, text.splitlines())) <= 80
    assert sum(line.startswith(f"strategy_{count - 1:02}  ") for line in text.splitlines()) >= 2
    assert text.isprintable() or set(text) - set("\n") <= {c for c in text if c.isprintable()}


def test_a_table_gives_way_at_its_widest_columns():
    table = TextTable("t", ["a", "long"], [["x", "word " * 40], ["y", "1"]])
    lines = plain_text.draw(table, 30)
    assert max(map(len, lines)) <= 30
    assert lines[1].split() == ["-", "-" * 27]
    assert lines[-1].split() == ["y", "1"]


def test_words_give_way_before_a_number_is_broken():
    table = TextTable("t", ["points [95 %]", "seeds for a width"], [["-43.0 [-47.1, -38.9]", "27 or so"]])
    assert plain_text.draw(table, 28) == [
        "points [95 %]         seeds",
        "                      for a",
        "                      width",
        "--------------------  ------",
        "-43.0 [-47.1, -38.9]  27 or",
        "                      so",
    ]


def test_forty_strategies_have_forty_looks_and_colours_are_their_own(tmp_path):
    arms = [(f"strategy_{index:02}", f"strategy_{index:02}") for index in range(40)]
    looks = plotting.looks([("ste", "ste"), ("smooth", "smooth"), *arms])
    assert len({(look.colour, str(look.dash)) for look in looks.values()}) == 42
    assert plotting.looks([("ste", "ste")])["ste"] == looks["ste"]
    assert plotting.looks([("ste", "ste (a)"), ("ste", "ste (b)")])["ste (b)"].colour == looks["ste"].colour
    basic = plotting.looks([(name, name) for name in plotting.FIRST])
    assert len({look.colour for look in basic.values()}) == 4


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["gone"], "there is no folder gone"),
        (["."], "no run under"),
        ([".", "--metric", "grad_norm/total"], "choose an accuracy"),
    ],
    ids=["folder", "empty", "metric"],
)
def test_a_wrong_question_is_answered_in_words(tmp_path, monkeypatch, capsys, arguments, word):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert word in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--half-width", "0"], ["--choosing-seeds", "a"], ["--method", "z"], []])
def test_wrong_arguments_exit_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*arguments, *(["runs"] if arguments else [])])
    assert ended.value.code == 2


def test_the_readme_table(tmp_path):
    for strategy, component, seed in [
        (s, c, n) for s in ("ste", "rewrite") for c in ("floor", "sign") for n in range(3)
    ]:
        if (strategy, component) != ("rewrite", "sign"):
            value = 0.5 + (1 + (strategy == "ste")) * seed / 100 + (strategy == "ste") / 4
            facts = {"parameters": 1234} if component == "floor" else {}
            folder = tmp_path / f"{strategy}-{component}-{seed}"
            write_run(folder, strategy, seed, value, component=component, facts=facts)
    write_run(tmp_path / "n", "rewrite", component="sign", status="NOT_APPLICABLE", error="no rewrite")
    lines = readme.render(make([tmp_path], Question(baseline="best"))).splitlines()
    assert lines[0] == "| component (parameters) | ste | rewrite |"
    assert lines[2] == "| `floor` (1,234) | 77.0 [71.7, 81.6] (lr 0.1) | 51.0 [48.5, 53.5] (lr 0.1) |"
    assert lines[3] == "| `sign` | 77.0 [71.7, 81.6] (lr 0.1) | n/a |"
    assert "- `floor`, compared with ste: rewrite -26.0 [-28.5, -23.5]" in lines
    assert "- One pair of strategies is compared, so nothing is adjusted." in lines
    assert "- runs that do not record their number of parameters have none in the table" in lines


def test_the_readme_table_of_what_was_not_tuned_or_not_equally(tmp_path):
    """No learning rate among the tuned keys; one strategy with more trials, said without a column that is not there."""
    for temperature, seed in [(t, n) for t in (0.3, 1.0) for n in (0, 1, 2)]:
        settings = {"accuracy": temperature / 2, "strategy__temperature": temperature}
        write_run(tmp_path / f"{temperature}-{seed}", "smooth", seed, **settings)
    for seed in (0, 1, 2):
        write_run(tmp_path / f"ste-{seed}", "ste", seed, 0.4)
    text = readme.render(make([tmp_path], tuned=("strategy.temperature",)))
    assert "| `floor` | 40.0 [no interval] | 50.0 [no interval] (temperature 1) |" in text.splitlines()
    assert "UNEQUAL number of trials: ste 1, smooth 2" in text
    assert "column" not in text
    write_run(tmp_path / "failed", "ste", 3, status="FAILED", error="training diverged by step 5")
    assert "(1 diverged)" in readme.render(make([tmp_path], tuned=()))


@pytest.mark.slow
def test_many_strategies_are_rows_of_the_heat_map(tmp_path):
    figure = heat_map(make([many(tmp_path, 40)]))
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"strategy_{index:02}" for index in range(40)]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["floor, mlp, digits"]
    assert figure.get_figheight() * 72 / 40 > 9  # points a row: more than a letter of 8 points


@pytest.mark.parametrize(("tag", "brightest"), [("accuracy/test", "40.0"), ("loss/val", "1")])
def test_the_better_is_the_brighter_and_its_number_dark(tmp_path, tag, brightest):
    for strategy, accuracy, seed in (("ste", 0.4, 0), ("ste", 0.4, 1), ("smooth", 0.2, 0), ("smooth", 0.2, 1)):
        run = write_run(tmp_path / f"{strategy}{seed}", strategy, seed, accuracy)
        result = json.loads((run / "result.json").read_text())
        result["best"]["loss/val"] = 1.0 if strategy == "ste" else 2.0
        (run / "result.json").write_text(json.dumps(result))
    (axes,) = heat_map(make([tmp_path], Question(metric=Metric(tag)))).axes
    (image,) = axes.images
    colours = image.cmap(image.norm(image.get_array()))[0].sum(-1)
    texts = {text.get_text(): text for text in axes.texts}
    assert texts[brightest].get_position()[0] == colours.argmax()
    assert [texts[brightest].get_color(), *(t.get_color() for n, t in texts.items() if n != brightest)] == [
        "black",
        "white",
    ]


def test_output_of_few_letters_is_no_error(tmp_path, monkeypatch):
    """Nor is one whose reader has left: as of all commands."""
    few = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", few)
    assert main([str(many(tmp_path, 2))]) == 0
    few.seek(0)
    assert "\\xb11.0" in few.read()


def test_progress_is_plain_lines_on_stderr_and_only_of_what_takes_long(monkeypatch, capsys):
    assert list(progress("abc", 3, "reading")) == ["a", "b", "c"]
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(processes, "EVERY", 0.0)
    assert list(progress("ab", 2000, "reading")) == ["a", "b"]
    assert capsys.readouterr() == ("", "reading: 1 of 2,000\nreading: 2 of 2,000\n")


def test_workers_are_the_same_processes_for_all_parts():
    with Workers() as workers:
        assert workers.spread(abs, [-1], "one") == [1]
        assert workers.spread(abs, [-1, -2], "none", worth=False) == [1, 2]
        assert workers._pool is None
        assert workers.spread(abs, range(-9, 0), "many") == list(range(9, 0, -1))
        first = workers._pool
        workers.spread(abs, [-1, -2], "more")
        assert workers._pool is first


def test_the_interface_for_programs_starts_no_process(tmp_path, monkeypatch):
    """A script without a guard around its main part would be run again by each of them."""

    def started(*arguments, **settings):
        pytest.fail("a process was started")

    monkeypatch.setattr(processes, "ProcessPoolExecutor", started)
    monkeypatch.setattr(evidence, "MANY", 1)
    assert len(make([many(tmp_path, 2)]).sections[0].evidence) == 2


def test_what_is_not_installed_or_ended_from_outside_is_said():
    missing = ModuleNotFoundError("No module named 'scipy'", name="scipy")
    brings = "pip install 'hardgrad[compare]' brings it (in a checkout: pip install -e '.[compare]')"
    assert in_words(missing) == f"scipy is not installed; {brings}"
    assert "another program ended a worker process" in in_words(BrokenProcessPool())


@pytest.mark.parametrize(("low", "high", "expected"), [(0.02, 0.6, 5), (1.2, 3.1, 1), (1e-4, 0.1, 4)])
def test_a_log_axis_has_numbers_however_little_it_spans(low, high, expected):
    axes = Figure().subplots()
    axes.plot([1, 2], [low, high])
    logarithmic(axes, "y")
    axes.set_ylim(low, high)
    labels = [label.get_text() for label in (*axes.get_yticklabels(), *axes.get_yticklabels(minor=True))]
    places = [*axes.yaxis.get_majorticklocs(), *axes.yaxis.get_minorticklocs()]
    inside = [label for label, place in zip(labels, places, strict=True) if label and low <= place <= high]
    assert len(inside) == expected


@pytest.mark.parametrize(("count", "filled"), [(8, 8), (9, 0)])
def test_bands_of_many_strategies_are_left_out_and_that_is_said(tmp_path, count, filled):
    report = make([many(tmp_path, count)])
    axes = Figure().subplots()
    draw_panel(axes, panels(report.sections[0])[0], report.looks)
    assert len(axes.collections) == filled
    text = page.render(report, tmp_path)
    assert ("Lines: median of the seeds and range." in text) == bool(filled)
    assert text.count('class="band"') == 2 * filled  # training loss and validation accuracy
