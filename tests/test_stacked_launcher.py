"""`hydra/launcher=stacked`: what trains together, what does not and why, and what each job leaves behind."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from experiments.stacked.trainer import StackedTrainer
from experiments.sweep import arrange as arranging
from experiments.sweep.arrange import arrange
from experiments.sweep.plan import make_job
from experiments.sweep.processes import WorkerDied, work
from experiments.training.interruption import Interrupted, stop_signals
from runs import ROOT, command, compose, read

QUICK = ("hydra/launcher=stacked", "max_steps=6", "eval_every=3", "log_every=2", "model.width=8")
TOGETHER = ("engine=stacked", "workers=1")


def by_name(root):
    """The results below a sweep's root, by the job's folder."""
    return {str(path.parent): read(path) for path in root.rglob("result.json")}


def arranged(*sweep, workers=1):
    """Units of jobs, each given by its own overrides."""
    own = [("model.width=8", "engine=stacked", *overrides) for overrides in sweep]
    jobs = [make_job(number, one, Path(str(number)), compose(*one)) for number, one in enumerate(own)]
    return arrange(jobs, workers, [])


def numbers(unit):
    return tuple(job.number for job in unit.jobs)


def test_a_sweep_of_stacks(tmp_path):
    answer = command("-m", "strategy=ste,smooth", "seed=0,1", "optimizer.lr=0.1,0.05", *QUICK, *TOGETHER, cwd=tmp_path)
    assert answer.code == 0
    assert "8 runs train as 2 stacks of 4 (engine=stacked)" in answer.out
    assert "8 DONE" in answer.out
    results = by_name(tmp_path)
    assert len(results) == 8
    assert {result["engine"] for result in results.values()} == {"stacked"}
    assert len({json.dumps(result["metrics"]) for result in results.values()}) == 8
    again = command("-m", "strategy=ste,smooth", "seed=0,1", "optimizer.lr=0.1,0.05", *QUICK, *TOGETHER, cwd=tmp_path)
    assert again.code == 0
    assert "8 already done" in again.out


def test_the_jobs_return_what_they_would_alone(tmp_path):
    """The objective that a sweeper sees."""
    returned = {}
    from experiments.sweep import launch

    original = launch.launch

    def kept(*arguments):
        returned["jobs"] = original(*arguments)
        return returned["jobs"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "launch", kept)
        command("-m", "seed=0,1", *QUICK, *TOGETHER, cwd=tmp_path)
    for job in returned["jobs"]:
        (best,) = [r["best"] for name, r in by_name(tmp_path).items() if f"seed={job.cfg.seed}," in name]
        assert job.return_value == 1 - best["accuracy/val"]
        assert job.hydra_cfg.hydra.runtime.output_dir.endswith(job.hydra_cfg.hydra.sweep.subdir)


@pytest.mark.slow
def test_what_cannot_be_stacked_runs_alone_with_the_reason(tmp_path):
    answer = command("-m", "seed=0,1", "precision=float32,bfloat16", *QUICK, *TOGETHER, cwd=tmp_path)
    assert answer.code == 0
    assert "2 runs train alone: cannot be stacked: precision=bfloat16" in answer.out
    assert sorted(r["engine"] for r in by_name(tmp_path).values()) == ["single", "single", "stacked", "stacked"]


@pytest.mark.slow
def test_empty_cells_and_failures_are_reported_as_ever(tmp_path):
    own = ("component=binary", "strategy=ste,rewrite", "seed=0,1", "optimizer.lr=0.1,1e30", *QUICK, *TOGETHER)
    answer = command("-m", *own, "model.batch_norm=false", cwd=tmp_path)
    assert "4 NOT_APPLICABLE" in answer.out
    assert answer.code == (1 if "FAILED" in answer.out else 0)


def test_on_error_stop_leaves_later_groups_alone(tmp_path):
    own = ("component=relu,identity", "seed=0,1", "optimizer.lr=1e30", "on_error=stop", *QUICK, *TOGETHER)
    answer = command("-m", *own, cwd=tmp_path)
    assert answer.code == 1
    statuses = [read(path)["status"] for path in tmp_path.rglob("status.json")]
    assert statuses == ["FAILED"] * 2


@pytest.mark.slow
def test_dry_run_names_the_engine(tmp_path):
    answer = command("-m", "seed=0,1", *QUICK, *TOGETHER, "dry_run=true", cwd=tmp_path)
    assert "2 runs train as 1 stack of 2 (engine=stacked)" in answer.out
    assert not list(tmp_path.rglob("status.json"))


@pytest.mark.slow
def test_a_sweeper_of_others_has_its_jobs_in_the_manifest(tmp_path):
    """What trains together and what runs alone, each job once, as our own sweeper puts it down, which goes on there."""
    own = ("-m", "seed=0,1", "precision=float32,bfloat16", *QUICK, *TOGETHER, "hydra.sweep.dir=here")
    assert command(*own, "hydra/sweeper=basic", cwd=tmp_path).code == 0
    written = (tmp_path / "here/manifest.json").read_bytes()
    assert {job["config_hash"] for job in read(tmp_path / "here/manifest.json")["jobs"]} == {
        result["config_hash"] for result in by_name(tmp_path).values()
    }
    assert "0 to run, 4 already done" in command(*own, cwd=tmp_path).out
    assert (tmp_path / "here/manifest.json").read_bytes() == written


def test_stackable_keys_go_together_and_nothing_else():
    units = arranged(
        ("seed=0",),
        ("seed=1", "optimizer.lr=0.05", "optimizer.weight_decay=0.1", "optimizer.momentum=0.5"),
        ("seed=2", "strategy=smooth"),
        ("seed=3", "strategy=smooth", "strategy.temperature=0.5", "strategy.final_temperature=0.2"),
        ("seed=4", "optimizer.clip_norm=1"),
        ("seed=5", "batch_size=32"),
    )
    assert {numbers(unit) for unit in units} == {(0, 1), (2, 3), (4,), (5,)}


def test_units_are_launched_in_the_order_of_their_cost_the_dearest_first():
    """So that no worker is left alone with a long one: by steps, width, and runs of a stack."""
    units = arranged(
        ("max_steps=50", "engine=single"),
        ("max_steps=500", "engine=single", "model.width=64"),
        ("max_steps=500", "engine=single"),
        ("max_steps=60", "seed=0"),
        ("max_steps=60", "seed=1"),
        ("max_steps=500", "model.width=640", "engine=single"),
    )
    assert [numbers(unit) for unit in units] == [(5,), (1,), (2,), (3, 4), (0,)]
    work = [unit.work for unit in units]
    assert work == sorted(set(work), reverse=True)


@pytest.mark.slow
def test_the_engine_follows_from_the_estimate():
    def engine(*overrides, jobs=16):
        units = arranged(*((f"seed={seed}", "engine=auto", *overrides) for seed in range(jobs)))
        return {unit.engine for unit in units}, units[0].reason

    assert engine("max_steps=600") == ({"stacked"}, "engine=auto")
    assert engine("model.batch_norm=true")[0] == {"stacked"}
    heavy = ("model=cnn", "data=mnist1d", "model.width=64")
    alone, reason = engine(*heavy)
    assert alone == {"single"}
    assert "mostly arithmetic" in reason
    assert engine(*heavy, "engine=stacked") == ({"stacked"}, "engine=stacked")
    alone, reason = engine("engine=stacked", jobs=1)
    assert alone == {"single"}
    assert reason == "every other run differs in more than seed, learning rate or temperature"
    assert engine("engine=single") == ({"single"}, "engine=single")


def test_every_worker_gets_a_share_and_no_stack_is_too_large(monkeypatch):
    seeds = [(f"seed={seed}",) for seed in range(9)]
    assert [len(unit.jobs) for unit in arranged(*seeds, workers=2)] == [5, 4]
    assert [len(unit.jobs) for unit in arranged(*seeds, workers=8)] == [5, 4]
    monkeypatch.setattr(arranging, "LARGEST", 4)
    assert [len(unit.jobs) for unit in arranged(*seeds)] == [3, 3, 3]


def test_the_plugin_imports_no_torch():
    code = "import sys, hydra_plugins.stacked_launcher; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_workers_share_the_units():
    def label(unit):
        return unit, os.getpid()

    found = work(label, list(range(5)), 2)
    assert [unit for unit, _ in found] == list(range(5))
    assert os.getpid() not in {pid for _, pid in found}


@pytest.mark.slow
def test_a_worker_that_dies_is_reported_and_the_other_does_the_rest(tmp_path):
    def unit(number):
        if number == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.2)
        (tmp_path / str(number)).touch()

    dead, *others = work(unit, list(range(4)), 2)
    assert isinstance(dead, WorkerDied)
    assert "code -9" in str(dead)
    assert others == [None] * 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3"]


def interrupt_twice(begun):
    while not all(path.exists() for path in begun):
        time.sleep(0.01)
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)


@pytest.mark.slow
def test_a_second_signal_does_not_wait_for_the_step_of_a_worker(tmp_path):
    def unit(number):
        with stop_signals():
            (tmp_path / str(number)).touch()
            time.sleep(60)

    began = time.monotonic()
    hand = threading.Thread(target=interrupt_twice, args=([tmp_path / "0", tmp_path / "1"],))
    hand.start()
    with pytest.raises(KeyboardInterrupt):
        work(unit, [0, 1], 2)
    hand.join()
    assert time.monotonic() - began < 30
    assert multiprocessing.active_children() == []


def test_a_signal_while_workers_start_leaves_none_behind(monkeypatch):
    process = multiprocessing.get_context("fork").Process
    start = process.start

    def start_and_stop(self):
        start(self)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(process, "start", start_and_stop)
    began = time.monotonic()
    with pytest.raises(Interrupted):
        work(lambda _: time.sleep(60), [0, 1], 2)
    assert time.monotonic() - began < 30
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_the_jobs_of_a_worker_that_dies_are_reported_and_the_same_command_ends_them(tmp_path, monkeypatch):
    own = ("-m", "strategy=ste,smooth", "seed=0,1", *QUICK, "engine=stacked", "workers=2")
    advance = StackedTrainer.advance

    def dies(self):
        if self.step == 3 and _is_smooth(self):
            os.kill(os.getpid(), signal.SIGKILL)
        return advance(self)

    with monkeypatch.context() as patch:
        patch.setattr(StackedTrainer, "advance", dies)
        answer = command(*own, cwd=tmp_path)
    assert answer.code == 1
    assert "2 DONE" in answer.out
    assert "2 INTERRUPTED" in answer.out
    assert command(*own, cwd=tmp_path).code == 0
    assert len(by_name(tmp_path)) == 4


def _is_smooth(trainer):
    return any(layer.temperature is not None for layer in trainer.probe.layers.values())


@pytest.mark.slow
def test_a_stopped_sweep_goes_on(tmp_path, monkeypatch):
    own = ("-m", "seed=0,1,2", *QUICK, *TOGETHER)
    advance = StackedTrainer.advance

    def stopped(self):
        if self.step == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return advance(self)

    with monkeypatch.context() as patch:
        patch.setattr(StackedTrainer, "advance", stopped)
        assert command(*own, cwd=tmp_path).code == 130
    assert {read(path)["status"] for path in tmp_path.rglob("status.json")} == {"INTERRUPTED"}
    answer = command(*own, cwd=tmp_path)
    assert answer.code == 0
    assert "3 of them resumed" in answer.out
