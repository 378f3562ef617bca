"""A long run keeps its memory and its file handles, and can be looked at while it is written."""

import re
import subprocess
import time

import pytest

pytest.importorskip("scipy")

from test_cli import ENVIRONMENT, TRAIN
from test_tensorboard import Board

from experiments.compare.reading.collection import collect
from experiments.compare.reading.learning_curves import read_curves
from runs import CONF, lines

MEASURED = f"""
import os
from pathlib import Path
from experiments.command.cli import main
from experiments.training.trainer import Trainer
advance = Trainer.advance
def measured(self):
    values = advance(self)
    if self.step in (2000, 20000):
        memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        print("used", self.step, memory, len(os.listdir("/proc/self/fd")), flush=True)
    return values
Trainer.advance = measured
main(Path({str(CONF)!r}))
"""


@pytest.mark.nightly
def test_twenty_thousand_steps_on_flat_memory(tmp_path, record_property):
    own = ["max_steps=20000", "model.width=16", "strategy=smooth", "hydra.run.dir=run"]
    line = [TRAIN[0], "-c", MEASURED, *own]
    done = subprocess.run(line, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    used = {int(a): (int(b), int(c)) for a, b, c in re.findall(r"^used (\d+) (\d+) (\d+)$", done.stdout, re.M)}
    for step, (memory, files) in used.items():
        record_property(f"after {step} steps", f"{memory / 1e6:.0f} MB resident, {files} open files")
    assert used[20000][0] - used[2000][0] < 16e6
    assert used[20000][1] == used[2000][1]
    assert lines(tmp_path / "run")[-1]["step"] == 20000


@pytest.mark.nightly
def test_readers_work_on_a_run_that_is_being_written(tmp_path):
    own = ["max_steps=3000", "log_every=1", "eval_every=100", "model.width=8", "hydra.run.dir=runs/a"]
    running = subprocess.Popen([*TRAIN, *own], cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    looked = 0
    while running.poll() is None:
        if (tmp_path / "runs/a/metrics.jsonl").exists() and (tmp_path / "runs/a/config.yaml").exists():
            (run,) = collect([tmp_path / "runs"]).runs
            steps = read_curves(run).steps("loss/train").tolist()
            assert steps == list(range(1, len(steps) + 1))
            if len(steps) > 1000:  # curves are written some steps later than metrics.jsonl
                points = [step for _, step, _ in Board(tmp_path / "runs").points("a", "loss/train")]
                assert points == sorted(set(points))
            looked += 1
        time.sleep(0.2)
    assert running.returncode == 0
    assert looked >= 3
    assert [line["step"] for line in lines(tmp_path / "runs/a")] == list(range(1, 3001))
