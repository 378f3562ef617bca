"""Stopped from outside at random moments, by three signals in turn, every kind of run ends as the uninterrupted one."""

import itertools
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from sweep_kills import PROGRAM
from test_cli import ENVIRONMENT
from test_tensorboard import Board

from run_contents import assert_same_run
from runs import lines, read

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
STEPS = 700
LONG = (f"max_steps={STEPS}", "log_every=1", "eval_every=25", "hydra.run.dir=run")
KINDS = {
    "noise": ("strategy=rewrite", "optimizer.warmup_steps=100"),
    "annealing": ("strategy=smooth", "optimizer=adam", "optimizer.schedule=cosine"),
    "learned": ("strategy=ste", "component.range=learned_step", "optimizer=adamw"),
    "gumbel": ("strategy=gumbel", "component=hard_gate", "optimizer.lr=0.01"),
    "perturbed": ("strategy=perturbed", "component=k_winners", "optimizer.lr=0.001"),
}
STOPS = 6  # of each kind


def start(folder, kind):
    line = [sys.executable, "-c", PROGRAM, *KINDS[kind], *LONG]
    return subprocess.Popen(line, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def stop_after(step, running, log, number, wait):
    """Waits until the run logs anew and has logged this step, then a random while more, and sends the signal."""
    before, deadline = log.stat().st_mtime_ns if log.exists() else 0, time.monotonic() + 120
    while not log.exists() or log.stat().st_mtime_ns == before or log.read_bytes().count(b"\n") < step:
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.001)
    time.sleep(wait)
    os.kill(running.pid, number)
    return running.wait(timeout=60)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_stopped_at_random_moments_by_any_signal(tmp_path, record_property, kind):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    assert start(whole, kind).wait(timeout=300) == 0
    chance = random.Random(seed := random.randrange(2**32))
    print("seed", seed)
    for stop, number in enumerate(itertools.islice(itertools.cycle(SIGNALS), STOPS)):
        step = int(STEPS * (stop + chance.uniform(0.2, 0.8)) / (STOPS + 1))
        log = stopped / "run/metrics.jsonl"
        code = stop_after(step, start(stopped, kind), log, number, chance.uniform(0, 0.02))
        assert code == (-number if number == signal.SIGKILL else 128 + number)
        if number != signal.SIGKILL:
            assert read(stopped / "run/status.json")["status"] == "INTERRUPTED"
    record_property("stops survived", STOPS)
    assert start(stopped, kind).wait(timeout=300) == 0
    assert_same_run(stopped / "run", whole / "run")
    points = [step for _, step, _ in Board(stopped).points("run", "loss/train")]
    assert points == [line["step"] for line in lines(whole / "run")]
