"""Sweeps that share a root: the manifest lists the runs of each, and a job in use is no failure."""

import json

import pytest
from filelock import FileLock

from experiments.sweep import plan
from experiments.sweep.ending import Elsewhere, JobFailed
from experiments.sweep.manifest import NAME
from experiments.sweep.outcomes import outcomes, print_report
from experiments.tracking.strict_json import write_json
from runs import command, read

SHORT = ("max_steps=2", "eval_every=1", "model.width=8")
ROOT = "hydra.sweep.dir=runs/one"


def sweeps(folder):
    return {tuple(one["overrides"]): one["runs"] for one in read(folder / "runs/one" / NAME)["sweeps"]}


@pytest.mark.slow
def test_the_manifest_lists_the_runs_of_each_command(tmp_path):
    """A run of two commands is listed with both; a repeated command once. Other sweeps' runs are named in a sentence.

    An earlier version's manifest, which has no sweeps, is added to.
    """
    first, second, third = (("seed=0,1", *SHORT), ("seed=1,2", *SHORT), ("seed=0", *SHORT))
    said = [command("-m", *own, ROOT, cwd=tmp_path) for own in (first, second, first, ("workers=1", *second))]
    assert [answer.code for answer in said] == [0] * 4
    assert "also holds" not in said[0].out
    assert "note: runs/one also holds 1 run of other sweeps (sweep-" in said[1].out
    found = sweeps(tmp_path)
    assert {key: len(value) for key, value in found.items()} == {first: 2, second: 2}
    assert set(found[first]) & set(found[second]) == {name for name in found[first] if "seed=1" in name}
    file = tmp_path / "runs/one" / NAME
    manifest = read(file)
    assert {run for runs in found.values() for run in runs} == {job["folder"] for job in manifest["jobs"]}
    file.write_text(json.dumps({key: value for key, value in manifest.items() if key != "sweeps"}))
    assert "also holds 2 runs of other sweeps;" in command("-m", *third, ROOT, cwd=tmp_path).out
    assert sweeps(tmp_path) == {third: [name for name in found[first] if "seed=0" in name]}
    assert len(read(file)["jobs"]) == 3


@pytest.mark.slow
def test_a_job_in_use_by_another_command_is_no_failure(tmp_path, monkeypatch):
    """It is listed as such, exit code 3, and the others are made; the same command makes it once it is free."""
    monkeypatch.setattr(plan, "PATIENCE", 0.0)
    own = ("-m", "seed=0,1", *SHORT, ROOT)
    folder = tmp_path / "runs/one/seed=0,max_steps=2,eval_every=1,model.width=8"
    folder.mkdir(parents=True)
    with FileLock(folder / ".lock"):
        answer = command(*own, cwd=tmp_path)
    assert (answer.code, answer.out.splitlines()[-1]) == (3, "1 RUNNING, 1 DONE")
    assert "another command runs this job" in answer.err
    assert "FAILED" not in answer.err
    assert command(*own, cwd=tmp_path).out.splitlines()[-1] == "2 DONE"


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        ("DONE", Elsewhere("is over"), 0),
        ("DONE", JobFailed("lost"), 1),
        ("FAILED", Elsewhere("is over"), 1),
        ("INTERRUPTED", Elsewhere("in use"), 1),
    ],
)
def test_a_job_that_another_command_has_ended_meanwhile_counts_as_it_ended(tmp_path, status, error, code):
    write_json(tmp_path / "status.json", {"status": status, "config_hash": "c", "error": None})
    job = plan.Job(0, [], tmp_path, {}, config_hash="c")
    (ended,) = outcomes([job], {tmp_path: error})
    assert ended.status == ("FAILED" if isinstance(error, JobFailed) and not isinstance(error, Elsewhere) else status)
    assert print_report([ended], stopped=False) == code
