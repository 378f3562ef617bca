"""Loggers get the values of the run's own record, cannot change or end a run, and find it again after a stop."""

import json
import os
import signal
from importlib import import_module
from types import SimpleNamespace

import pytest
import torch

import hardgrad as hg
from experiments.config import logger_names
from experiments.config.settings import Settings
from experiments.tracking.metrics import read_metrics
from experiments.tracking.run_errors import FolderError

SHORT = {"max_steps": 3, "log_every": 1, "eval_every": 2, "model": {"width": 8}, "quiet": True}


class Kept:
    """Keeps what it is told, by run folder."""

    runs: dict[str, list[object]] = {}  # noqa: RUF012 (read by the tests)
    broken = ""

    def __init__(self, run):
        self.fail("open")
        self.id = run.id or f"id of {run.folder.name}"
        self.told = self.runs.setdefault(run.folder.name, [])
        self.told.append(run)

    def scalars(self, step, values):
        self.fail(f"step {step}")
        self.told.append((step, dict(values)))

    def close(self, success):
        self.fail("close")
        self.told.append(success)

    def fail(self, place):
        if place == Kept.broken:
            raise ConnectionRefusedError("no answer\nfrom there")


KEPT = f"{Kept.__module__}.Kept"


@pytest.fixture
def kept(monkeypatch):
    monkeypatch.setattr(Kept, "runs", {})
    monkeypatch.setattr(Kept, "broken", "")
    return Kept.runs


def rows(told):
    """The values that a logger got, without the speed, which no other file has."""
    return [{"step": step, **{t: v for t, v in values.items() if t != "steps_per_second"}} for step, values in told]


def train(engine, folder, *loggers):
    if engine == "single":
        return [hg.train(*loggers, folder=folder / "run", **SHORT)]
    return hg.sweep(*loggers, seed=[0, 1], engine=engine, workers=1, folder=folder, **SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["single", "stacked"])
def test_a_logger_gets_the_record_and_changes_nothing(tmp_path, kept, engine):
    plain = train(engine, tmp_path / "plain")
    told = train(engine, tmp_path / "told", f"loggers=[tensorboard,{KEPT}]")
    assert len(kept) == len(told) == (1 if engine == "single" else 2)
    for one, other in zip(plain, told, strict=True):
        metrics = (one.folder / "metrics.jsonl").read_text()
        assert metrics == (other.folder / "metrics.jsonl").read_text()
        assert one.result["config_hash"] == other.result["config_hash"]
        first, *logged, success = kept[other.folder.name]
        assert rows(logged) == read_metrics(other.folder / "metrics.jsonl")
        assert success is True
        assert (first.folder, first.first_step, first.id) == (other.folder, None, None)
        assert first.config["strategy"] == "ste"
        assert first.config["optimizer.lr"] == 0.1
        assert "loggers" not in first.config
        assert list(other.folder.glob("events.out.tfevents.*"))


@pytest.mark.slow
@pytest.mark.parametrize("place", ["step 2", "close"])
def test_a_logger_that_fails_ends_no_run_and_is_named(tmp_path, kept, place):
    Kept.broken = place
    run = hg.train(folder=tmp_path / "run", loggers=[KEPT], **SHORT)
    assert [row["step"] for row in read_metrics(run.folder / "metrics.jsonl")] == [1, 2, 3]
    said = f"note: the logger {KEPT} failed at {'step 2' if place == 'step 2' else 'the end'}"
    fault = f"{said} (ConnectionRefusedError: no answer) and gets no more values; metrics.jsonl has all of them"
    assert fault in (run.folder / "train.log").read_text()
    assert not list(run.folder.glob("events.out.tfevents.*"))


@pytest.mark.slow
def test_a_logger_that_cannot_be_opened_stops_the_run_before_its_first_step(tmp_path, kept):
    Kept.broken = "open"
    with pytest.raises(
        FolderError, match=r"cannot be opened \(ConnectionRefusedError: no answer\), so training did not"
    ):
        hg.train(folder=tmp_path / "run", loggers=[KEPT], **SHORT)
    assert json.loads((tmp_path / "run" / "status.json").read_text())["status"] == "INTERRUPTED"
    Kept.broken = ""
    ids = tmp_path / "run" / "loggers.json"
    ids.write_text("[]")
    with pytest.raises(FolderError, match=r"loggers\.json does not hold the ids of loggers; nothing was changed"):
        hg.train(folder=tmp_path / "run", loggers=[KEPT], **SHORT)
    assert ids.read_text() == "[]"
    ids.unlink()
    assert hg.train(folder=tmp_path / "run", loggers=[KEPT], **SHORT).status == "DONE"


@pytest.mark.slow
def test_a_resumed_run_gives_the_logger_its_id(tmp_path, kept, monkeypatch):
    def stop(place):
        if place == "step 2":
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Kept, "fail", staticmethod(stop))
    with pytest.raises(KeyboardInterrupt):
        hg.train(folder=tmp_path / "run", loggers=[KEPT], **SHORT)
    monkeypatch.setattr(Kept, "fail", staticmethod(lambda place: None))
    run = hg.train(folder=tmp_path / "run", loggers=[KEPT], **SHORT)
    first, *before, interrupted, second, last, success = kept["run"]
    assert (interrupted, success) == (None, True)
    assert (first.id, second.id, second.first_step) == (None, "id of run", 3)
    assert rows([*before, last]) == read_metrics(run.folder / "metrics.jsonl")
    assert json.loads((run.folder / "loggers.json").read_text()) == {KEPT: "id of run"}


WRONG = {
    "loggers.txt": r"^loggers=loggers\.txt is no class that can be imported \(No module named 'loggers'\)$",
    "test_loggers.Gone": r"^loggers=test_loggers\.Gone is no class that can be imported \(module 'test_loggers' has no",
    "tensorbord": r"^loggers must be among tensorboard, mlflow, wandb and MODULE\.CLASS, got 'tensorbord'$",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_name_is_refused(name):
    with pytest.raises(ValueError, match=WRONG[name]):
        Settings(loggers=name)


@pytest.mark.parametrize("found", [None, SimpleNamespace(origin=None)], ids=["nothing", "a folder of that name"])
def test_a_missing_package_is_named_before_anything_runs(monkeypatch, found):
    monkeypatch.setattr(logger_names, "find_spec", lambda name: found)
    with pytest.raises(ValueError, match=r"^loggers=wandb needs the package wandb; pip install 'hardgrad\[wandb\]'"):
        Settings(loggers=["tensorboard", "wandb"])


@pytest.mark.slow
def test_a_run_loads_without_the_packages_of_its_loggers(tmp_path, kept, monkeypatch):
    run = hg.train(folder=tmp_path / "run", loggers=[KEPT], **SHORT)
    assert KEPT in (run.folder / "config.yaml").read_text()
    monkeypatch.setattr(logger_names, "logger_class", lambda name: import_module("no_such_package"))
    with pytest.raises(ValueError, match="No module named 'no_such_package'"):
        Settings(loggers=KEPT)
    assert hg.load(run.folder)(torch.zeros(1, 1, 8, 8)).shape == (1, 10)
