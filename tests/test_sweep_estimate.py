"""How long a sweep will take, from runs of its kind that are done."""

from types import SimpleNamespace

import yaml

from experiments.sweep.estimate import seconds_each
from run_folders import config, write_run

KIND = {"batch_size": 64, "precision": "float32"}


def job(strategy="ste", **more):
    plain = config("floor", strategy, 0, **{**KIND, **more})
    return SimpleNamespace(plain=yaml.safe_load(yaml.safe_dump(plain)))  # keys in the order of the runs' files


def test_the_time_of_a_step_is_the_median_of_finished_runs_of_the_kind(tmp_path):
    """One run that was held up for long does not count more than another; 20 steps each."""
    for seed, seconds in enumerate((1.0, 2.0, 600.0)):
        write_run(tmp_path / f"{seed}", seed=seed, seconds=seconds, **KIND)
    write_run(tmp_path / "failed", seed=3, seconds=9.0, status="FAILED", **KIND)
    write_run(tmp_path / "other", "smooth", seconds=7.0, **KIND)
    jobs = [job(), job(max_steps=40), job("smooth"), job("rewrite"), job(batch_size=32)]
    assert seconds_each(jobs, tmp_path) == [2.0, 4.0, 7.0, None, None]
    assert seconds_each(jobs[:1], tmp_path / "gone") == [None]
