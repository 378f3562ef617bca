"""Tables of runs made elsewhere: the numbers are those of run folders, and every mistake is named with its place."""

import csv
import json

import pytest

pytest.importorskip("scipy")

import numpy as np

import hardgrad as hg
from experiments.compare.command import main
from experiments.compare.forms import tables
from experiments.compare.forms.machine_files import write_machine_files
from experiments.compare.reading.learning_curves import read_curves
from experiments.compare.reading.table_lines import WrongTable
from experiments.compare.reading.table_runs import read_table
from experiments.compare.report import make
from experiments.compare.statistics.metric import WrongMetric
from run_folders import write_run

HEADER = "strategy,seed,accuracy/test"


def write_table(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def write_folders(root, stream, strategies, rates=(0.1, 0.3), seeds=5):
    for strategy in strategies:
        for rate in rates:
            for seed in range(seeds):
                scores = {"accuracy": round(stream.uniform(0.3, 0.9), 3), "validation": round(stream.uniform(), 3)}
                status = "FAILED" if stream.uniform() < 0.1 else "DONE"
                error = "training diverged at step 3" if status == "FAILED" else None
                folder = root / f"{strategy}-{rate}-{seed}"
                write_run(folder, strategy, seed, **scores, lr=rate, status=status, error=error)
    return root


def text_of(report):
    """The tables of a report that depend neither on curves nor on times."""
    made = [tables.of(section, report.question) for section in report.sections]
    return [[table for table in own if "equal" not in table.title] for own in made]


@pytest.mark.parametrize("seed", range(4))
def test_the_table_that_compare_writes_gives_the_same_answer_as_the_folders(tmp_path, seed):
    folders = write_folders(tmp_path / "runs", np.random.default_rng(seed), ("subgradient", "ste", "smooth"))
    report = make([folders])
    write_machine_files(report, tmp_path)
    assert text_of(make([tmp_path / "runs.csv"])) == text_of(report)


def test_a_strategy_may_come_from_a_table_and_the_others_from_folders(tmp_path):
    """The rows name the component, model, data and rate, so they belong to the block of the folders."""
    both = write_folders(tmp_path / "both", np.random.default_rng(0), ("ste", "smooth"), rates=(0.1,))
    report = make([both])
    moved = [run for run in report.runs if run.options["strategy"] == "smooth"]
    rows = []
    for run in moved:
        known = {**run.options, "seed": run.seed, "optimizer": {"lr": 0.1}, "max_steps": 20}
        known |= {"outcome": run.outcome, **{f"best {tag}": run.best[tag] for tag in run.best if "/" in tag}}
        rows.append(known | {f"last {tag}": run.last[tag] for tag in run.last if "/" in tag})
    table = write_table(tmp_path / "others.jsonl", *map(json.dumps, rows))
    for run in moved:
        (run.path / "status.json").unlink()
        (run.path / "metrics.jsonl").unlink()
    mixed = make([both, table])
    assert text_of(mixed) == text_of(report)
    (section,) = mixed.sections
    assert not section.result.block.differing
    assert (
        "smooth: runs of a table, whose versions, machine, data and outcomes by test sample are unknown; "
        in "".join(section.result.notes)
    )


def test_a_plain_table_is_compared(tmp_path, capsys):
    lines = [f"mine,{seed},{0.8 + seed / 100},bits={seed}" for seed in range(3)]
    lines += [f"ste,{seed},{0.7 + seed / 200},x" for seed in range(3)]
    table = write_table(tmp_path / "foreign.csv", f"{HEADER},reason", *lines)
    assert main([str(table)]) == 0
    out = capsys.readouterr().out
    assert "mine" in out.splitlines()[0]
    assert "the learning rate of" in out
    assert "same learning rate" not in out
    frame = hg.compare(table).to_frame().set_index("strategy")
    assert frame["mean"]["mine"] == pytest.approx(0.81)
    assert frame["block"].tolist() == ["foreign", "foreign"]


@pytest.mark.slow
def test_every_form_of_the_report_takes_a_table(tmp_path):
    table = write_table(tmp_path / "t.csv", HEADER, "a,0,.5", "a,1,.6", "b,0,.7", "b,1,NaN")
    outputs = [
        "--out",
        str(tmp_path / "out"),
        "--tensorboard",
        str(tmp_path / "board"),
        "--readme",
        str(tmp_path / "r.md"),
    ]
    assert main([str(table), *outputs]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "t.csv:5" in page
    assert "data-run=" not in page
    assert "diverged: t.csv:5: accuracy/test is nan" in (tmp_path / "out" / "report.md").read_text()


def test_a_column_step_makes_curves(tmp_path):
    """The best step is that of the largest validation accuracy; a metric that it lacks has its last value."""
    lines = ["a,0,10,0.4,,1.0", "a,0,20,0.9,,0.5", "a,0,30,0.6,0.55,0.4", "a,1,20,0.1,0.2,NaN"]
    table = write_table(tmp_path / "t.csv", "strategy,seed,step,accuracy/val,accuracy/test,loss/train", *lines)
    first, second = read_table(table)
    assert first.best == {"accuracy/val": 0.9, "accuracy/test": 0.55, "loss/train": 0.5, "step": 20}
    assert first.last == {"accuracy/val": 0.6, "accuracy/test": 0.55, "loss/train": 0.4}
    curves = read_curves(first)
    assert curves.steps("loss/train").tolist() == [10, 20, 30]
    assert curves.values("loss/train").tolist() == [1.0, 0.5, 0.4]
    assert curves.problems == []
    assert (second.outcome, second.reason) == ("diverged", "loss/train is nan")


OUTCOMES = {
    "NaN": ("a,0,NaN,,", "diverged", "accuracy/test is nan"),
    "failed": ("a,0,,true,", "failed", "its table gives no reason"),
    "not failed": ("a,0,0.5,no,", "done", ""),
    "crashed": ("a,0,,,crashed", "crashed", "its table gives no reason"),
    "unfinished": ("a,0,0.5,,unfinished", "unfinished", "its table gives no reason"),
}


@pytest.mark.parametrize("case", OUTCOMES)
def test_how_a_run_of_a_table_ended(tmp_path, case):
    line, outcome, reason = OUTCOMES[case]
    (run,) = read_table(write_table(tmp_path / "t.csv", f"{HEADER},failed,outcome", line))
    assert (run.outcome, run.reason) == (outcome, reason)


def test_a_column_without_a_slash_is_a_setting(tmp_path):
    rows = ["a,0,0.5,0.1,2,true,x", "a,1,0.5,1e-3,2,,y"]
    table = write_table(tmp_path / "t.csv", f"{HEADER},optimizer.lr,bits,flag,name", *rows)
    settings = [dict(run.config) for run in read_table(table)]
    assert settings == [
        {"optimizer.lr": 0.1, "bits": 2, "flag": True, "name": "x"},
        {"optimizer.lr": 0.001, "bits": 2, "name": "y"},
    ]


MISTAKES = {
    "no strategy": ("Strategy,seed,accuracy/test\na,0,.5\n", ": there is no column strategy; did you mean 'Strategy'?"),
    "no seed": (
        "strategy,accuracy/test\na,.5\n",
        ": there is no column seed; the columns are: strategy, accuracy/test",
    ),
    "no metric": ("strategy,seed,acc\na,0,.5\n", ": no column is a metric; name one accuracy/test"),
    "empty": ("", ": it has no run"),
    "header only": (f"{HEADER}\n", ": it has no run"),
    "semicolons": ("strategy;seed;accuracy/test\na;0;,5\n", ", line 1: the cells are separated by ';'"),
    "an index": (f",{HEADER}\n0,a,0,.5\n", ", line 1: column 1 has no name; pandas leaves its index out"),
    "a column twice": (f"{HEADER},seed\na,0,.5,0\n", ", line 1: two columns have the name seed"),
    "a cell too many": (f"{HEADER}\na,0,.5\n\na,1,0,5\n", ", line 4: it has 4 cells, the header has 3"),
    "an open quote": (f'{HEADER}\na,0,"5\n', ", line 2: it is not CSV"),
    "a seed in words": (f"{HEADER}\na,zero,.5\n", ", line 2, column seed: 'zero' is not a whole number"),
    "half a seed": (f"{HEADER}\na,0.5,.5\n", ", line 2, column seed: '0.5' is not a whole number"),
    "an empty strategy": (f"{HEADER}\n,0,.5\n", ", line 2, column strategy: the cell is empty"),
    "a score in words": (f"{HEADER}\na,0,high\n", ", line 2, column accuracy/test: 'high' is not a number"),
    "percent": (f"{HEADER}\na,0,93.1\n", ", line 2, column accuracy/test: 93.1 is no share between 0 and 1"),
    "no score": (f"{HEADER}\na,0,.5\na,1,\n", ", line 3: no metric has a value; write NaN if the run diverged"),
    "a seed twice": (
        f"{HEADER}\na,0,.5\nb,0,.5\na,0,.6\n",
        ", line 4: it has the strategy, seed and settings of line 2",
    ),
    "a step twice": (
        f"{HEADER},step\na,0,.5,1\na,0,.6,1\n",
        ", line 3: it has the strategy, seed, settings and step of",
    ),
    "no step": (f"{HEADER},step\na,0,.5,\n", ", line 2, column step: the cell is empty"),
    "an odd flag": (f"{HEADER},failed\na,0,.5,perhaps\n", ", line 2, column failed: 'perhaps' is neither true nor"),
    "an odd outcome": (f"{HEADER},outcome\na,0,.5,finished\n", ", line 2, column outcome: 'finished' must be one of"),
    "names of runs": (
        f"{HEADER},id\na,0,.5,x\na,1,.5,y\nb,0,.5,z\n",
        ", column id: no two runs share a value, so none can be compared; leave it out",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_in_a_table_is_named_with_its_place(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    text, said = MISTAKES[case]
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(WrongTable) as error:
        read_table(tmp_path / "t.csv")
    assert str(error.value).startswith(f"t.csv{said}")


def test_a_mistake_in_jsonl_is_named_with_its_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = write_table(tmp_path / "t.jsonl", '{"strategy": "a", "seed": 0, "loss/test": 1.5}', "", "[1]")
    with pytest.raises(WrongTable, match=r"^t\.jsonl, line 3: it is not a JSON object with a value for each column$"):
        read_table(table)


def test_another_encoding_is_named(tmp_path, monkeypatch):
    """Excel's mark at the start of UTF-8 is no part of the first column's name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(f"{HEADER}\na,0,.5\n", encoding="utf-16")
    with pytest.raises(WrongTable, match=r"^t\.csv: byte 0 is not UTF-8; save the file as UTF-8"):
        read_table(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text(f"{HEADER}\na,0,.5\n", encoding="utf-8-sig")
    assert len(read_table(tmp_path / "t.csv")) == 1


def test_the_command_names_a_mistake_and_no_traceback(tmp_path, capsys):
    table = write_table(tmp_path / "t.csv", HEADER, "a,x,.5")
    assert main([str(table)]) == 2
    assert "line 2, column seed: 'x' is not a whole number" in capsys.readouterr().err
    table = write_table(tmp_path / "t.csv", "strategy,seed,loss/test", "a,0,.5")
    assert main([str(table)]) == 2
    assert "no run has a value of accuracy/test; their scores are: loss/test" in capsys.readouterr().err
    assert main([str(table), "--metric", "loss/test"]) == 0
    with pytest.raises(WrongMetric):
        hg.compare(table)


def test_cells_are_read_as_text_and_written_as_they_were(tmp_path):
    """A strategy may have any name; a spreadsheet's file with quotes and line ends of its own is read."""
    with open(tmp_path / "t.csv", "w", newline="") as file:
        csv.writer(file, dialect="excel").writerows([HEADER.split(","), ["a, b", "0", "0.5"], ["1", "0", "0.5"]])
    assert [run.options["strategy"] for run in read_table(tmp_path / "t.csv")] == ["a, b", "1"]
