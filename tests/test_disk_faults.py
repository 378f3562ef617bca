"""A disk that is full, read-only or gone: the run stops in words, what was saved stays, the same command goes on."""

import errno
import math
import os
import shutil
import subprocess
import sys

import pytest
from fault_layer import FaultyDisk

from experiments.tracking.metrics import MetricsLog, read_metrics
from experiments.training import session
from experiments.training.trainer import Trainer
from run_contents import assert_same_run
from runs import ROOT, SHORT, command, only_run, process, read, tree

OWN = ("strategy=rewrite", "max_steps=12", "log_every=2", "eval_every=4", "model.width=8", "hydra.run.dir=run")
FAULTS = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT)


@pytest.fixture(autouse=True)
def _a_checkpoint_an_evaluation(monkeypatch):
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(session, "SHARE", math.inf)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run on a sound disk, and how many operations on its files it took."""
    root = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "CHECKPOINT_SECONDS", 0.0)
        patch.setattr(session, "SHARE", math.inf)
        disk = FaultyDisk(patch, root)
        assert command(*OWN, cwd=root).code == 0
    assert disk.count > 60
    return root / "run", disk.count


def assert_stops_and_goes_on(tmp_path, whole, first, fault=errno.ENOSPC):
    with pytest.MonkeyPatch.context() as patch:
        FaultyDisk(patch, tmp_path, fault, first)
        answer = command(*OWN, cwd=tmp_path)
    assert answer.code in (1, 2)
    assert os.strerror(fault) in " ".join(answer.err.split())
    assert "Traceback" not in answer.err + answer.out
    again = command(*OWN, cwd=tmp_path)
    assert again.code == 0, again.err
    assert_same_run(tmp_path / "run", whole)
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("index", [0, 1, 4, *(pytest.param(index, marks=pytest.mark.slow) for index in (2, 3, 5))])
def test_a_disk_that_fails_stops_the_run_and_the_same_command_goes_on(tmp_path, whole, index):
    folder, operations = whole
    assert_stops_and_goes_on(tmp_path, folder, 1 + index * (operations - 4) // 6, FAULTS[index % len(FAULTS)])


@pytest.mark.nightly
def test_a_disk_may_fail_at_every_single_operation(tmp_path, whole, record_property):
    folder, operations = whole
    for first in range(1, operations - 3):
        (tmp_path / str(first)).mkdir()
        assert_stops_and_goes_on(tmp_path / str(first), folder, first)
    record_property("faults injected and survived", operations - 4)


def test_a_folder_removed_in_mid_run(tmp_path, monkeypatch):
    advance = Trainer.advance

    def removing(self):
        values = advance(self)
        if self.step == 6:
            shutil.rmtree(tmp_path / "run")
        return values

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", removing)
        answer = command(*OWN, cwd=tmp_path)
    assert answer.code == 1
    assert "No such file or directory" in " ".join(answer.err.split())
    assert "Traceback" not in answer.err
    assert command(*OWN, cwd=tmp_path).code == 0


@pytest.mark.slow
def test_a_failing_disk_in_a_sweep_fails_its_jobs_and_leaves_the_finished_ones(tmp_path, whole):
    arguments = ("-m", *OWN[:-1], "seed=0,1")
    with pytest.MonkeyPatch.context() as patch:
        disk = FaultyDisk(patch, tmp_path)
        advance = Trainer.advance

        def failing(self):
            if self.settings.seed == 1 and self.step == 5:
                disk.first = 0
            return advance(self)

        patch.setattr(Trainer, "advance", failing)
        answer = command(*arguments, cwd=tmp_path)
    assert answer.code == 1
    assert "No space left on device" in " ".join((answer.out + answer.err).split())
    done = {path.parent: read(path)["status"] for path in sorted(tmp_path.rglob("status.json"))}
    assert list(done.values()) == ["DONE", "RUNNING"]
    finished = next(iter(done))
    before = tree(finished)
    again = command(*arguments, cwd=tmp_path)
    assert again.code == 0, again.out
    assert tree(finished) == before
    assert_same_run(finished, whole[0])


def test_a_write_that_takes_only_a_part_is_gone_on_with(tmp_path):
    """A disk about to be full reports no error, but fewer bytes."""
    log = MetricsLog(tmp_path / "metrics.jsonl")
    raw = log._file

    class Stingy:
        name = raw.name

        def write(self, content):
            return raw.write(content[: max(1, len(content) // 2)])

    log._file = Stingy()
    for step in range(3):
        log.write(step, {"loss/train": step / 3, "lr": 0.1})
    raw.close()
    assert read_metrics(tmp_path / "metrics.jsonl")[2] == {"step": 2, "loss/train": 2 / 3, "lr": 0.1}


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root may mount a small disk")
@pytest.mark.slow
def test_a_disk_that_is_full_for_real(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", small], check=False).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        own = ("max_steps=200", "log_every=1", "eval_every=50", "model.width=64")
        answer = process(*own, cwd=small)
        assert answer.code == 1
        assert "No space left on device" in " ".join(answer.err.split())
        assert "the same command resumes the run" in " ".join(answer.err.split())
        subprocess.run(["mount", "-o", "remount,size=20m", small], check=True)
        assert process(*own, cwd=small).code == 0
        assert read(only_run(small) / "status.json")["status"] == "DONE"
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.parametrize("name", ["ä ö μ 日本", "a'b\"c", "$(touch x)"])
def test_odd_characters_in_the_path(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    assert command(*SHORT, cwd=folder).code == 0
    assert [path.name for path in folder.iterdir()] == ["runs"]


def test_a_path_that_is_too_long_is_refused(tmp_path):
    answer = command(*SHORT, f"hydra.run.dir={'x' * 300}", cwd=tmp_path)
    assert answer.code == 2
    assert "File name too long" in answer.err
    assert "choose another hydra.run.dir" in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_locale_that_does_not_know_the_letters_of_the_path(tmp_path):
    folder = tmp_path / "ä"
    folder.mkdir()
    legacy = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}
    line = [sys.executable, str(ROOT / "train.py"), *SHORT]
    answer = subprocess.run(line, cwd=folder, env=legacy, capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert "set PYTHONUTF8=1" in answer.stderr
    assert "Traceback" not in answer.stderr
