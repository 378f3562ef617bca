"""Processes that run a sweep's jobs: without the command, killed alone, they save, stop and leave nothing behind."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from sweep_kills import Sweep
from test_launchers import installed

from experiments.sweep import command_folder
from experiments.sweep.ending import NotStarted
from experiments.sweep.stopping import save_before_stopping
from experiments.sweep.worker import CODE, follow, hold_process
from experiments.training.interruption import Interrupted, Stop, stop_signals
from runs import in_a_process


def worker(folder):
    """The command dies while a job runs; the job ends when it is asked to."""
    with hold_process(), stop_signals() as stop:
        follow(lambda: False)
        while stop.signum is None:
            time.sleep(0.01)
        (folder / "saved").touch()
    time.sleep(60)


def told_worker(folder):
    """A living command asks for a stop: the process stays, and starts no further job."""
    follow(lambda: True, (folder / "told").exists)
    (folder / "told").touch()
    while Stop.everywhere is None:
        time.sleep(0.01)
    try:
        with hold_process():
            os._exit(1)
    except NotStarted:
        os._exit(7)


@pytest.mark.slow
def test_a_process_whose_command_died_ends_once_its_job_is_saved(tmp_path):
    assert in_a_process(worker, tmp_path) == CODE == 143
    assert (tmp_path / "saved").exists()


@pytest.mark.slow
def test_a_process_that_is_told_to_stop_starts_no_further_job(tmp_path):
    assert in_a_process(told_worker, tmp_path) == 7


def stopped_by(numbers, root):
    """Sends signals to this process while it launches; the one that stopped it."""
    try:
        with save_before_stopping(root, "c"):
            for wait, number in enumerate(numbers, 1):
                threading.Timer(0.2 * wait, os.kill, (os.getpid(), number)).start()
            time.sleep(10)
    except Interrupted as stopped:
        return stopped.signum


def work_until(saved, root):
    with command_folder.worker_of(root, "c"):
        saved.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_the_jobs_to_save_and_waits_for_them(tmp_path, number):
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    with command_folder.at_work(tmp_path, "c"):
        saved = threading.Event()
        worker = threading.Thread(target=work_until, args=(saved, tmp_path))
        worker.start()
        threading.Timer(0.2, saved.set).start()
        assert stopped_by([number], tmp_path) == number
        assert not command_folder.has_workers(tmp_path, "c")
        worker.join()
        with pytest.raises(NotStarted), command_folder.worker_of(tmp_path, "c"):
            pass
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_second_signal_does_not_wait(tmp_path):
    with command_folder.at_work(tmp_path, "c"), command_folder.worker_of(tmp_path, "c"):
        assert stopped_by([signal.SIGINT, signal.SIGTERM], tmp_path) == signal.SIGINT


def test_processes_that_a_launcher_starts_do_not_see_ctrl_c(tmp_path):
    """A terminal sends SIGINT to every process of the group."""
    with command_folder.at_work(tmp_path, "c"), save_before_stopping(tmp_path, "c"):
        child = subprocess.Popen([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGINT)"])
    assert child.wait() == 0


def sweep(launcher):
    """Jobs for two processes, and one pending; stacks are of four."""
    jobs, more = (8, ["engine=stacked"]) if launcher == "stacked" else (3, [])
    own = (f"seed=range({jobs})", "component=relu", "max_steps=2000", "eval_every=100", "model.width=8", "workers=2")
    return (*own, f"hydra/launcher={launcher}", *more)


LAUNCHERS = ("joblib", "stacked", "submitit_local", "ray")


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_workers_of_a_killed_command_stop_by_themselves(tmp_path, launcher):
    """SIGKILL of the command alone: the runs are saved, and the same command, given at once, resumes them."""
    if launcher != "stacked":
        installed(launcher)
    whole, killed = Sweep(tmp_path / "whole", *sweep(launcher)), Sweep(tmp_path / "killed", *sweep(launcher))
    done = whole.end()
    running = killed.start()
    killed.wait_for(5, running)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert killed.end() == done
    killed.assert_gone()
    killed.assert_same_runs(whole)
    resumed = [content for content in killed.files("train.log").values() if b"resuming" in content]
    assert resumed or launcher == "ray"  # whose processes end at once


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(("number", "stop"), [(signal.SIGTERM, os.kill), (signal.SIGINT, os.killpg)])
def test_a_stopped_command_has_its_workers_save_first(tmp_path, launcher, number, stop):
    """SIGTERM to the command alone, and Ctrl-C: runs are INTERRUPTED or DONE; those that logged have a checkpoint."""
    if launcher != "stacked":
        installed(launcher)
    stopped = Sweep(tmp_path / "stopped", *sweep(launcher))
    running = stopped.start()
    stopped.wait_for(5, running)
    stop(running.pid, number)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 128 + number
    assert "stopped; run the same command to resume" in err.splitlines()
    assert "Traceback" not in err
    assert "*** " not in err  # a native trace
    assert set(stopped.statuses()) <= {"INTERRUPTED", "DONE"}
    logged = [path.parent for path in stopped.folder.rglob("metrics.jsonl") if path.stat().st_size]
    assert logged
    assert all((folder / "checkpoints/last.pt").exists() for folder in logged)
    stopped.assert_gone()
    assert set(stopped.end().split()[1:]) == {"DONE"}
