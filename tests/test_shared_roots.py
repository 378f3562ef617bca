"""Sweeps that share a root: the manifest lists the runs of each, and a job in use is no failure."""

import json

from experiments.sweep.manifest import NAME
from runs import command, read

SHORT = ("max_steps=2", "eval_every=1", "model.width=8", "hydra.sweep.dir=runs/one")


def sweeps(folder):
    return {tuple(one["overrides"]): one["runs"] for one in read(folder / "runs/one" / NAME)["sweeps"]}


def test_the_manifest_lists_the_runs_of_each_command(tmp_path):
    """A run that two commands ask for is listed with both; a repeated command and a repeated run are listed once."""
    first, second = ("seed=0,1", *SHORT[:3]), ("seed=1,2", *SHORT[:3])
    for own in (first, second, first, ("workers=1", *second)):
        assert command("-m", *own, SHORT[3], cwd=tmp_path).code == 0
    found = sweeps(tmp_path)
    assert {key: len(value) for key, value in found.items()} == {first: 2, second: 2}
    assert set(found[first]) & set(found[second]) == {name for name in found[first] if "seed=1" in name}
    manifest = read(tmp_path / "runs/one" / NAME)
    assert {run for runs in found.values() for run in runs} == {job["folder"] for job in manifest["jobs"]}
    assert len(manifest["jobs"]) == 3


def test_a_manifest_without_sweeps_is_added_to(tmp_path):
    """Earlier versions wrote none."""
    assert command("-m", "seed=0", *SHORT, cwd=tmp_path).code == 0
    file = tmp_path / "runs/one" / NAME
    old = {key: value for key, value in read(file).items() if key != "sweeps"}
    file.write_text(json.dumps(old))
    assert command("-m", "seed=1", *SHORT, cwd=tmp_path).code == 0
    assert [len(runs) for runs in sweeps(tmp_path).values()] == [1]
    assert len(read(file)["jobs"]) == 2
