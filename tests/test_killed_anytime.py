"""Stopped from outside at random moments, by three signals in turn, every kind of run ends as the uninterrupted one."""

import itertools
import os
import random
import signal
import subprocess
import time

import pytest
from test_cli import ENVIRONMENT, TRAIN
from test_tensorboard import Board

from runs import lines, read

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
LONG = ("max_steps=2000", "log_every=1", "eval_every=25", "hydra.run.dir=run")
KINDS = {
    "noise": ("strategy=rewrite", "optimizer.warmup_steps=100"),
    "annealing": ("strategy=smooth", "optimizer=adam", "optimizer.schedule=cosine"),
    "learned": ("strategy=ste", "component.range=learned_step", "optimizer=adamw"),
    "gumbel": ("strategy=gumbel", "component=hard_gate", "optimizer.lr=0.01"),
    "perturbed": ("strategy=perturbed", "component=k_winners", "optimizer.lr=0.001"),
}
# How many times each kind is stopped: 2 of one kind always, 25 and more over all at night.
LOOPS = [
    pytest.param("noise", 2, marks=pytest.mark.slow),
    *(pytest.param(kind, 6, marks=pytest.mark.nightly) for kind in KINDS),
]


def start(folder, kind):
    return subprocess.Popen(
        [*TRAIN, *KINDS[kind], *LONG], cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def stop_while_it_trains(running, log, number, wait):
    """Waits until the run logs anew, then a random while more, and sends the signal."""
    before, deadline = log.stat().st_mtime_ns if log.exists() else 0, time.monotonic() + 60
    while running.poll() is None and (not log.exists() or log.stat().st_mtime_ns == before):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    time.sleep(wait)
    if running.poll() is None:
        os.kill(running.pid, number)
    return running.wait(timeout=60)


@pytest.mark.parametrize(("kind", "stops"), LOOPS)
def test_stopped_at_random_moments_by_any_signal(tmp_path, record_property, kind, stops):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    assert start(whole, kind).wait(timeout=300) == 0
    draw, hit = random.Random(kind), 0
    for number in itertools.islice(itertools.cycle(SIGNALS), stops):
        code = stop_while_it_trains(start(stopped, kind), stopped / "run/metrics.jsonl", number, draw.uniform(0, 0.5))
        if code != 0:
            hit += 1
            assert code == (-number if number == signal.SIGKILL else 128 + number)
            if number != signal.SIGKILL:
                assert read(stopped / "run/status.json")["status"] == "INTERRUPTED"
    assert hit >= min(5, stops)  # a fast machine may be through before the sixth
    record_property("stops survived", hit)
    assert start(stopped, kind).wait(timeout=300) == 0
    for name in ("metrics.jsonl", "result.json"):
        assert (stopped / "run" / name).read_bytes() == (whole / "run" / name).read_bytes()
    points = [step for _, step, _ in Board(stopped).points("run", "loss/train")]
    assert points == [line["step"] for line in lines(whole / "run")]
