"""Faults outside the files: a clock set back, a folder renamed, nobody to read the output, no home, few letters."""

import io
import math
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from test_resume import KINDS, LONG, assert_as_whole, stopping

from experiments.terminal.output import Lasting, lasting_output
from experiments.tracking.event_file import EventFile
from experiments.training import session
from experiments.training.trainer import Trainer
from run_contents import assert_same_run
from runs import ROOT, SHORT, command, read, train, tree

OWN = (*KINDS["noise"], *LONG)


@pytest.fixture(autouse=True)
def _a_checkpoint_an_evaluation(monkeypatch):
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(session, "SHARE", math.inf)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(tmp_path_factory.mktemp("whole") / "run", *OWN).folder


@pytest.mark.slow
def test_a_clock_that_is_set_back_between_two_sessions(tmp_path, monkeypatch, whole):
    """TensorBoard reads event files by the second in their name; a step would show twice, or not at all."""
    folder = tmp_path / "a" / "run"
    now = time.time
    for hours, step in ((0, 9), (-2, 14), (-1, 18)):
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda hours=hours: now() + 3600 * hours)
            stopping(patch, step, signal.SIGTERM)
            with pytest.raises(KeyboardInterrupt):
                train(folder, *OWN)
    assert train(folder, *OWN).status == "DONE"
    assert_as_whole(folder, whole)


def test_event_files_are_named_in_the_order_of_their_making(tmp_path):
    (tmp_path / "events.out.tfevents.somebody.else").touch()
    names = []
    for _ in range(4):
        before = set(tmp_path.iterdir())
        EventFile(tmp_path).close()
        (new,) = set(tmp_path.iterdir()) - before
        names.append(new.name)
    assert names == sorted(names)
    assert len({name.split(".")[3] for name in names}) == 4


@pytest.mark.slow
def test_a_folder_renamed_in_mid_run_goes_on_under_its_new_name(tmp_path, monkeypatch, whole):
    (tmp_path / "a").mkdir()
    advance = Trainer.advance

    def renaming(self):
        values = advance(self)
        if self.step == 14:
            (tmp_path / "a/run").rename(tmp_path / "a/other")
        return values

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", renaming)
        answer = command(*OWN, "hydra.run.dir=a/run", cwd=tmp_path)
    assert answer.code == 1
    assert "No such file or directory" in " ".join(answer.err.split())
    assert not (tmp_path / "a/run").exists()
    assert command(*OWN, "hydra.run.dir=a/other", cwd=tmp_path).code == 0
    assert_as_whole(tmp_path / "a/other", whole)


def test_a_folder_that_takes_the_name_of_a_renamed_run_is_not_written_to(tmp_path, monkeypatch, whole):
    """Neither its status nor its log nor its checkpoints."""
    (tmp_path / "a").mkdir()
    advance = Trainer.advance

    def swapping(self):
        values = advance(self)
        if self.step == 14:
            (tmp_path / "a/run").rename(tmp_path / "a/other")
            shutil.copytree(whole, tmp_path / "a/run")
        return values

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", swapping)
        answer = command(*OWN, "hydra.run.dir=a/run", cwd=tmp_path)
    assert answer.code == 1
    assert "another folder has taken its name" in " ".join(answer.err.split())
    assert tree(tmp_path / "a/run") == tree(whole)
    assert command(*OWN, "hydra.run.dir=a/other", cwd=tmp_path).code == 0
    assert_same_run(tmp_path / "a/other", whole)


PROGRAM = (sys.executable, str(ROOT / "train.py"), *SHORT, "hydra.run.dir=run")


def started(cwd, environment=None, **streams):
    environment = {**(os.environ if environment is None else environment), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(PROGRAM, cwd=cwd, env=environment, stderr=subprocess.PIPE, check=False, **streams)
    return done.returncode, done.stderr.decode()


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("reader", ["gone", "full"])
def test_output_that_nobody_takes_stops_no_run(tmp_path, reader):
    """A pipe whose reader has left (`| head`), a file on a full disk; `train.log` has it all."""
    if reader == "gone":
        ours, theirs = os.pipe()
        os.close(ours)
    else:
        theirs = os.open("/dev/full", os.O_WRONLY)
    try:
        assert started(tmp_path, stdout=theirs) == (0, "")
    finally:
        os.close(theirs)
    assert read(tmp_path / "run/status.json")["status"] == "DONE"
    assert "step 3/3" in (tmp_path / "run/train.log").read_text()


@pytest.mark.slow
def test_no_home_no_folder_for_temporary_files_and_no_language(tmp_path):
    bare = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path / "none"), "LANG": "C"}
    assert started(tmp_path, bare, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) == (0, "")
    assert read(tmp_path / "run/status.json")["status"] == "DONE"
    assert sorted(tree(tmp_path)) == [f"run/{name}" for name in sorted(tree(tmp_path / "run"))]


def test_letters_that_the_output_does_not_know_are_spelt(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    with lasting_output():
        print("run ä")
        print("step 3")
    assert raw.getvalue() == b"run \\xe4\nstep 3\n"
    assert not isinstance(sys.stdout, Lasting)


def test_a_stream_that_breaks_is_written_to_no_more(monkeypatch, tmp_path):
    """Nothing is raised then, nor when Python flushes it at the end."""
    ours, theirs = os.pipe()
    os.close(ours)
    with open(theirs, "w") as broken:
        monkeypatch.setattr(sys, "stdout", broken)
        with lasting_output():
            print("one", flush=True)
            print("two")
            assert isinstance(sys.stdout, Lasting)
        assert sys.stdout is broken
        broken.flush()


def test_there_may_be_no_output_at_all(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with lasting_output():
        print("heard by nobody")
        assert sys.stdout is None
    assert sys.stdout is None
