"""Runs of several commands in one report: which came from which, and the choice of some."""

import csv
import json

import pytest

pytest.importorskip("scipy")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from experiments.compare.command import main
from experiments.compare.forms import plain_text
from experiments.compare.reading.collection import collect
from experiments.compare.reading.sweeps import NoSweep, Sweep
from experiments.compare.report import make
from run_folders import write_run

STE, SMOOTH = ("-m", "strategy=ste", "seed=range(3)"), ("-m", "strategy=smooth", "seed=range(2)", "workers=2")


@pytest.fixture
def root(tmp_path):
    """Three runs of a sweep, of which one was resumed, two of a later one, and one of neither."""
    for seed in (3, 4):
        write_run(tmp_path / "a" / f"{seed}", "smooth", seed, 0.6, argv=("train.py", *SMOOTH))
    for seed in (0, 1, 2):
        more = ("retry=failed",) if seed == 2 else ()
        write_run(tmp_path / "b" / f"{seed}", "ste", seed, 0.5, argv=("/home/me/train.py", *STE, *more))
    write_run(tmp_path / "c", "ste", 5, 0.5, argv=("train.py", "strategy=ste", "seed=5"))
    return tmp_path


def test_sweeps_are_numbered_by_the_start_of_their_first_run(root):
    """Keys that do not affect results, such as workers and retry, make no other command."""
    assert collect([root]).sweeps == [
        Sweep(1, "train.py -m strategy=ste 'seed=range(3)'", 3),
        Sweep(2, "train.py -m strategy=smooth 'seed=range(2)'", 2),
    ]


@pytest.mark.slow
def test_the_report_says_which_runs_came_from_which_command(root, tmp_path):
    said = plain_text.render(make([root])).splitlines()
    assert said[said.index("6 runs: 6 done") :][:5] == [
        "6 runs: 6 done",
        "the runs come from several commands; --sweep N compares those of one:",
        "- sweep 1, 3 runs: train.py -m strategy=ste 'seed=range(3)'",
        "- sweep 2, 2 runs: train.py -m strategy=smooth 'seed=range(2)'",
        "- 1 run that no sweep made, or whose command is not recorded",
    ]
    assert main([str(root), "--out", str(tmp_path / "report")]) == 0
    for form in ("report.md", "report.html"):
        assert "sweep 2, 2 runs: train.py -m strategy=smooth" in (tmp_path / "report" / form).read_text()
    found = json.loads((tmp_path / "report" / "report.json").read_text())
    assert [sweep["runs"] for sweep in found["sweeps"]] == [3, 2]
    with open(tmp_path / "report" / "runs.csv", newline="") as file:
        assert [row["sweep"] for row in csv.DictReader(file)] == ["2", "2", "1", "1", "1", ""]


def test_of_one_command_there_is_nothing_to_say(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / f"{seed}", seed=seed, argv=("train.py", *STE))
    write_run(tmp_path / "missing", "rewrite", status="NOT_APPLICABLE", error="no rewrite")  # which records no command
    assert "--sweep" not in plain_text.render(make([tmp_path]))


def test_the_chosen_sweeps_are_compared_alone(root, capsys):
    assert [run.seed for run in make([root], sweeps=[2]).runs] == [3, 4]
    assert [run.seed for run in make([root], sweeps=[1, 2]).runs] == [3, 4, 0, 1, 2]
    assert main([str(root), "--sweep", "1"]) == 0
    said = capsys.readouterr().out
    assert "\n3 runs: 3 done\n" in said
    assert "--sweep leaves out 3 runs" in said


def test_a_repeated_run_counts_where_it_is_chosen(tmp_path):
    """Of two runs of one configuration the newer one is kept, but not for a report on the other one's sweep."""
    for name, strategy in (("a", STE), ("b", SMOOTH)):
        for seed in (0, 1):
            write_run(tmp_path / name / f"{seed}", "ste", seed, argv=("train.py", *strategy))
    assert [run.path.parent.name for run in make([tmp_path], sweeps=[1]).runs] == ["a", "a"]
    assert [run.path.parent.name for run in make([tmp_path], sweeps=[2]).runs] == ["b", "b"]


def test_a_sweep_that_is_not_there_is_refused_with_those_that_are(root, capsys):
    with pytest.raises(NoSweep, match="there is no sweep 3; the sweeps are:\n  sweep 1, 3 runs"):
        collect([root], sweeps=[1, 3])
    assert main([str(root), "--sweep", "3"]) == 2
    assert capsys.readouterr().err.startswith("error: there is no sweep 3; the sweeps are:\n  sweep 1, 3 runs: train")


@pytest.mark.parametrize("argv", [None, "train.py", [], 3, {"a": 1}])
def test_a_run_without_a_recorded_command_is_of_no_sweep(tmp_path, argv):
    for seed in (0, 1):
        write_run(tmp_path / f"{seed}", seed=seed, environment={"argv": argv})
    assert collect([tmp_path]).sweeps == []
    assert "argv" not in make([tmp_path]).runs[0].environment
