"""Sweeps as processes that get killed, and what must hold of them in the end."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import uuid
from pathlib import Path

from run_contents import assert_same_run
from runs import CONF, ROOT, read

# The main job, with a checkpoint at every evaluation, so that there is something to go on from.
PROGRAM = f"""
from pathlib import Path
from experiments.training import session
session.CHECKPOINT_SECONDS, session.SHARE = 0.0, 1e9
from experiments.command.cli import main
main(Path({str(CONF)!r}))
"""


class Sweep:
    """A command in a folder; its processes are known by a mark in their environment."""

    def __init__(self, folder: Path, *own: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.own, self.mark = folder, own, f"HARDGRAD_TEST={uuid.uuid4().hex}"

    def start(self) -> subprocess.Popen:
        name, value = self.mark.split("=")
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "80", name: value}
        line = [sys.executable, "-c", PROGRAM, "-m", "hydra.sweep.dir=runs/one", *self.own]
        return subprocess.Popen(
            line, cwd=self.folder, env=environment, stdout=-1, stderr=-1, text=True, start_new_session=True
        )

    def end(self) -> str:
        """Lets it run; the last line that it says."""
        out, err = (running := self.start()).communicate(timeout=500)
        assert running.returncode == 0, err
        return out.splitlines()[-1]

    def files(self, *names: str) -> dict[str, bytes]:
        found = (path for name in names for path in self.folder.rglob(name))
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in found}

    def logged(self) -> int:
        """How many lines all jobs have logged."""
        return sum(content.count(b"\n") for content in self.files("metrics.jsonl").values())

    def wait_for(self, count: int, running: subprocess.Popen) -> None:
        """Until so many lines are logged."""
        until = time.monotonic() + 300
        while self.logged() < count:
            assert running.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)

    def statuses(self) -> list[str]:
        return [read(path)["status"] for path in self.folder.rglob("status.json")]

    def assert_same_runs(self, other: Sweep) -> None:
        """The same jobs, each DONE, of the same configuration and with the same bytes."""
        assert self.files("config.yaml") == other.files("config.yaml")
        jobs = self.files("status.json")
        assert jobs.keys() == other.files("status.json").keys()
        for name in jobs:
            assert_same_run((self.folder / name).parent, (other.folder / name).parent)

    def done(self) -> dict[str, bytes]:
        """The status files of the jobs that are done, which hold the time at which each was."""
        return {name: content for name, content in self.files("status.json").items() if b'"DONE"' in content}

    def left(self) -> list[int]:
        """Processes of the command that are still there."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
            except OSError:  # gone, or somebody else's
                continue
        return found

    def assert_gone(self) -> None:
        """No process outlives its command by more than the time it takes to notice."""
        until = time.monotonic() + 10
        while self.left() and time.monotonic() < until:
            time.sleep(0.05)
        assert self.left() == []


def assert_kills_change_nothing(tmp_path: Path, own: tuple[str, ...], kills: int) -> None:
    """kill -9 at random moments: every job DONE once, byte for byte as uninterrupted, and no finished work redone.

    The first is a moment of the start, the others are spread over what there is to log.
    """
    whole, killed = Sweep(tmp_path / "whole", *own), Sweep(tmp_path / "killed", *own)
    whole.end()
    chance = random.Random(seed := random.randrange(2**32))
    done: dict[str, bytes] = {}
    for kill in range(kills):
        running = killed.start()
        if kill:
            killed.wait_for(int(whole.logged() * (kill + chance.uniform(-0.3, 0.3)) / (kills + 1)), running)
        time.sleep(chance.uniform(0, 0.03 if kill else 3))
        assert running.poll() is None, seed
        running.kill()
        running.communicate()
        killed.assert_gone()
        assert done.items() <= killed.done().items(), seed
        done = killed.done()
    killed.end()
    assert done.items() <= killed.done().items(), seed
    killed.assert_same_runs(whole)
    assert not list((killed.folder / "runs/one").glob(".command-*"))
