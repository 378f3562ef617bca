"""What lies under a folder: damaged, foreign, empty, double and unfinished runs are said and skipped."""

import json
import os

import pytest

pytest.importorskip("scipy")

from experiments.compare.reading.collection import NoRuns, collect
from experiments.compare.reading.learning_curves import expected_steps, read_curves
from experiments.compare.reading.run_record import read_run
from experiments.compare.statistics.bands import band
from experiments.training.session import Session  # noqa: F401 (the steps of a run are those of this class)
from run_folders import curves, write, write_run


def test_a_trained_run_is_read_as_it_is(shared):
    """A real one: nothing is missing, nothing is odd."""
    folder = shared("max_steps=3", "model.width=8", "eval_every=3", "log_every=1", "optimizer.lr=1e-5")
    found = collect([folder.parent])
    (run,) = [run for run in found.runs if run.path == folder.resolve()]
    assert (run.outcome, run.seed, run.options["strategy"], run.config["optimizer.lr"]) == ("done", 0, "ste", 1e-5)
    assert run.conditions["engine"] == "single"
    assert read_curves(run).problems == []
    assert read_curves(run).steps("loss/train").tolist() == [1, 2, 3]
    assert run.best["accuracy/test"] == json.loads((folder / "result.json").read_text())["best"]["accuracy/test"]


def broken(folder, name, content):
    write_run(folder, seed=hash(name) % 1000)
    path = folder / name
    path.unlink()
    if content is FOLDER:
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)


FOLDER = object()
BROKEN = {
    "no config": ("config.yaml", None, "no config.yaml"),
    "half a config": ("config.yaml", b"component: {_target_: [", "config.yaml is not YAML"),
    "a list as config": ("config.yaml", b"- 1\n", "config.yaml is not the configuration"),
    "another version's config": ("config.yaml", b"strategy: ste\nseed: 1\n", "config.yaml is not the configuration"),
    "bytes as config": ("config.yaml", b"\xff\xfe\x00", "config.yaml is not YAML: 'utf-8' codec"),
    "no result": ("result.json", None, "status.json says DONE, but result.json is missing"),
    "half a result": ("result.json", b'{"metrics": {"accuracy/te', "result.json is not valid JSON"),
    "a list as result": ("result.json", b"[]", "result.json is not the result of a run"),
    "endless steps": ("result.json", b'{"metrics": {}, "skipped_steps": 1e999}', "result.json is damaged"),
    "half a status": ("status.json", b'{"status": "DO', "status.json is not valid JSON"),
    "another program's status": ("status.json", b'{"status": "ok"}', "status.json is not the status of a run"),
    "a list as status": ("status.json", b"[1]", "status.json is not the status of a run"),
    "a list as environment": ("env.json", b"[1]", "env.json is not the environment of a run"),
    "an empty status": ("status.json", b"", "status.json is not valid JSON"),
    "a folder as config": ("config.yaml", FOLDER, "config.yaml cannot be read (Is a directory)"),
}


@pytest.mark.parametrize("case", BROKEN, ids=str)
def test_a_damaged_run_is_said_and_skipped(tmp_path, case):
    name, content, word = BROKEN[case]
    write_run(tmp_path / "good")
    broken(tmp_path / "bad", name, content)
    found = collect([tmp_path])
    assert [run.path.name for run in found.runs] == ["good"]
    (note,) = found.notes
    folder, _, said = note.partition(": ")
    assert folder.endswith("bad")
    assert said.startswith(word)
    assert "/" not in said  # the folder is named once
    assert "Error" not in said


def test_foreign_folders_are_passed_by(tmp_path):
    write_run(tmp_path / "good")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.json").write_text("{}")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "metrics.jsonl").write_text("{}\n")
    found = collect([tmp_path])
    assert len(found.runs) == 1
    (note,) = found.notes
    assert note.endswith("it has metrics.jsonl, but no status.json")


def test_nothing_to_compare_is_an_error_in_words(tmp_path):
    with pytest.raises(NoRuns, match="there is no folder"):
        collect([tmp_path / "gone"])
    with pytest.raises(NoRuns, match=r"found no run under .*; a run folder has a status\.json"):
        collect([tmp_path])


def test_duplicates_are_said_and_the_finished_one_kept(tmp_path):
    write_run(tmp_path / "b" / "first", status="RUNNING")
    write_run(tmp_path / "a" / "second", accuracy=0.75)
    found = collect([tmp_path, tmp_path / "a", tmp_path])
    assert [run.best["accuracy/test"] for run in found.runs] == [0.75]
    assert [note.partition(": ")[2][:31] for note in found.notes] == ["same configuration and seed as "]


def test_a_link_to_the_same_run_is_the_same_run(tmp_path):
    write_run(tmp_path / "runs" / "a")
    os.symlink(tmp_path / "runs", tmp_path / "link")
    found = collect([tmp_path / "runs", tmp_path / "link"])
    assert (len(found.runs), found.notes) == (1, [])


def test_a_half_written_line_is_said_and_left_out(tmp_path):
    run = read_run(write_run(tmp_path / "run"))
    with open(run.path / "metrics.jsonl", "a") as file:
        file.write('{"step": 25, "loss/tra')
    found = read_curves(run)
    assert found.steps("loss/train").tolist() == [1, 5, 10, 15, 20]
    assert [problem.partition(": ")[2] for problem in found.problems] == [
        "the last line of metrics.jsonl is incomplete and is left out"
    ]


def test_a_short_or_damaged_log_is_said(tmp_path):
    """H06, the part of the report: the expected steps are known from the configuration, and a short run is named."""
    run = read_run(write_run(tmp_path / "run"))
    path = run.path / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"\0" * 20 + b"\n", *lines[2:4]]))
    found = read_curves(run)
    assert found.steps("loss/train").tolist() == [1, 10, 15]
    assert [problem.partition(": ")[2] for problem in found.problems] == [
        "line 2 of metrics.jsonl is damaged and is left out",
        "SHORT: 2 of 5 steps are missing in the log, the first is step 5",
    ]


@pytest.mark.parametrize(
    "content", [b"", b"\n", b'{"step": 1}\n', b'{"step": "x"}\n', b"[]\n", b'{"step": 1, "a": []}\n']
)
def test_an_empty_or_odd_log_is_no_error(tmp_path, content):
    run = read_run(write_run(tmp_path / "run"))
    (run.path / "metrics.jsonl").write_bytes(content)
    assert read_curves(run).problems
    (run.path / "metrics.jsonl").unlink()
    assert "cannot be read" in read_curves(run).problems[0]


def test_steps_that_repeat_count_once(tmp_path):
    rows = [{"step": 1, "a": 1.0}, {"step": 5, "a": 2.0}, {"step": 5, "a": 3.0}]
    run = read_run(write_run(tmp_path / "run", rows=rows, max_steps=5, eval_every=5))
    found = read_curves(run)
    assert found.values("a").tolist() == [1.0, 3.0]
    assert "repeats step 5, or is out of order" in found.problems[0]


def test_expected_steps_are_those_that_a_run_logs(shared):
    folder = shared("max_steps=7", "model.width=8", "eval_every=3", "log_every=2")
    run = read_run(folder)
    assert expected_steps(run.config) == {1, 2, 3, 4, 6, 7}
    assert read_curves(run).problems == []
    assert expected_steps({}) == expected_steps({"max_steps": 3, "log_every": 0, "eval_every": 1}) == set()


@pytest.mark.parametrize("number", [float("inf"), float("nan"), 1e300, 10**30, "x", None], ids=str)
def test_a_number_of_steps_that_no_run_has_is_damage(tmp_path, number):
    """In the configuration, and in a line of the log, of whatever size."""
    assert expected_steps({"max_steps": number, "log_every": 1, "eval_every": 1}) == set()
    run = write_run(tmp_path / "run", rows=[{"step": 1, "loss/train": 1.0}])
    with open(run / "metrics.jsonl", "a") as file:
        for step in (number, 2**63, -1):
            file.write(json.dumps({"step": step, "loss/train": 0.0}) + "\n")
    (found,) = collect([tmp_path]).runs
    curves = read_curves(found)
    assert curves.steps("loss/train").tolist() == [1]
    assert sum("is damaged and is left out" in problem for problem in curves.problems) == 3


@pytest.mark.slow
def test_the_frame_has_every_digit(tmp_path):
    """H10, the part of the comparison: values come from metrics.jsonl and result.json, not from event files."""
    pytest.importorskip("pandas")
    from experiments import compare

    exact = 0.1 + 2**-50
    rows = [*curves(0.5)[:-1], {**curves(0.5)[-1], "loss/train": exact, "accuracy/val": 1e-50}]
    write_run(tmp_path / "run", rows=rows, accuracy=exact)
    frame = compare.load(tmp_path)
    best = frame[(frame["at"] == "best") & (frame["metric"] == "accuracy/test")]
    assert best["value"].tolist() == [exact]
    steps = compare.curves(tmp_path)
    assert steps[(steps["tag"] == "loss/train") & (steps["step"] == 20)]["value"].tolist() == [exact]


def test_the_frame_has_failed_and_unfinished_runs(tmp_path):
    pytest.importorskip("pandas")
    from experiments import compare

    write_run(tmp_path / "a", accuracy=0.5)
    write_run(tmp_path / "b", seed=1, status="FAILED", error="training diverged by step 5")
    write_run(tmp_path / "c", seed=2, status="INTERRUPTED")
    frame = compare.load(tmp_path)
    assert frame.groupby("seed")["outcome"].first().to_dict() == {0: "done", 1: "diverged", 2: "unfinished"}
    tested = frame[(frame["metric"] == "accuracy/test") & (frame["at"] == "best")]
    assert dict(zip(tested["seed"], tested["value"], strict=True)) == {0: 0.5}


def test_a_band_is_the_t_interval_of_every_step():
    import numpy as np

    first, second = np.array([1, 2, 3]), np.array([2, 3, 4])
    found = band([(first, np.array([1.0, 2.0, np.nan])), (second, np.array([4.0, 5.0, 6.0]))], 5)
    assert found.steps.tolist() == [1, 2, 3, 4]
    assert found.n.tolist() == [1, 2, 1, 1]
    assert found.mean.tolist() == [1.0, 3.0, 5.0, 6.0]
    half = 12.7062  # t of one degree of freedom; the standard error is 1
    assert (found.low[1], found.high[1]) == pytest.approx((3 - half, 3 + half))
    assert np.isnan(found.low[[0, 2, 3]]).all()


def test_an_environment_without_a_file_is_no_error(tmp_path):
    folder = write_run(tmp_path / "run")
    (folder / "env.json").unlink()
    assert read_run(folder).conditions == {"device": "cpu", "engine": "single"}
    write(folder / "env.json", {})
    assert read_run(folder).environment == {}


def test_a_folder_of_links_to_runs_is_read(tmp_path):
    """But no link to anything else is followed: one upwards would never end."""
    for seed in (0, 1):
        write_run(tmp_path / "runs" / f"{seed}", seed=seed)
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    for name, target in {"0": "runs/0", "again": "runs/0", "gone": "gone", "up": "."}.items():
        (chosen / name).symlink_to(tmp_path / target)
    found = collect([chosen])
    assert [run.path for run in found.runs] == [tmp_path / "runs" / "0"]
    assert found.notes == []
