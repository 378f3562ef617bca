"""MLflow and Weights & Biases, read back: what they keep of a run is what metrics.jsonl has. No network."""

import json
import math
import os
import signal
import struct
import sys
from collections import defaultdict

import pytest

import hardgrad as hg
from experiments.tracking.loggers.logger import LoggedRun
from experiments.tracking.loggers.mlflow_run import MlflowRun
from experiments.tracking.loggers.wandb_run import WandbRun
from experiments.tracking.metrics import read_metrics
from experiments.tracking.strict_json import read_json

SHORT = {"max_steps": 6, "log_every": 1, "eval_every": 2, "model": {"width": 8}, "quiet": True}
BLOCK = 2**15  # bytes of a block of a .wandb file, which is a log of LevelDB
FULL, LAST = 1, 4

pytestmark = pytest.mark.nightly


@pytest.fixture
def client(monkeypatch, tmp_path):
    """A client of MLflow with a new database."""
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    return mlflow.MlflowClient()


def run_of(client, folder):
    return client.get_run(read_json(folder / "loggers.json")["mlflow"])


def logged_by_mlflow(client, folder):
    """Values by step and tag, and how often each was logged."""
    run = run_of(client, folder)
    rows, counts = defaultdict(dict), defaultdict(int)
    for tag in run.data.metrics:
        for metric in client.get_metric_history(run.info.run_id, tag):
            rows[metric.step][tag] = metric.value
            counts[metric.step, tag] += 1
    return rows, counts


def logged_by_wandb(folder):
    """Values by step and tag, and the ids and exit codes, over all sessions of a run."""
    pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2 as protocol

    rows, ids, codes = defaultdict(dict), [], []
    for file in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        for data in records(file.read_bytes()):
            record = protocol.Record.FromString(data)
            for item in record.history.item:
                rows[record.history.step.num]["/".join(item.nested_key) or item.key] = json.loads(item.value_json)
            if record.WhichOneof("record_type") == "run":
                ids.append(record.run.run_id)
            if record.WhichOneof("record_type") == "exit":
                codes.append(record.exit.exit_code)
    return rows, ids, codes


def records(raw):
    """The records of a .wandb file: after 7 bytes, chunks of (checksum, size, kind, data) that never cross a block."""
    at, data = 7, b""
    while at + 7 <= len(raw):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        _, size, kind = struct.unpack("<IHB", raw[at : at + 7])
        data += raw[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (FULL, LAST):
            yield data
            data = b""


def expected(folder):
    return {int(row.pop("step")): row for row in read_metrics(folder / "metrics.jsonl")}


def without_speed(rows):
    return {
        step: {tag: value for tag, value in values.items() if tag != "steps_per_second" and not tag.startswith("_")}
        for step, values in rows.items()
    }


@pytest.mark.parametrize("engine", ["single", "stacked"])
def test_mlflow_keeps_configuration_values_and_status(client, tmp_path, engine):
    runs = hg.sweep("loggers=mlflow", seed=[0, 1], folder=tmp_path / "runs", engine=engine, workers=1, **SHORT)
    assert len({read_json(run.folder / "loggers.json")["mlflow"] for run in runs}) == 2
    for run in runs:
        kept = run_of(client, run.folder)
        assert (kept.info.status, kept.info.run_name) == ("FINISHED", run.folder.name)
        assert kept.data.params["optimizer.lr"] == "0.1"
        assert kept.data.params["strategy"] == "ste"
        assert without_speed(logged_by_mlflow(client, run.folder)[0]) == expected(run.folder)


def test_mlflow_knows_a_failed_run(client, tmp_path):
    with pytest.raises(hg.RunFailed):
        hg.train("optimizer.lr=1e30", folder=tmp_path / "run", loggers="mlflow", **SHORT)
    assert run_of(client, tmp_path / "run").info.status == "FAILED"
    assert without_speed(logged_by_mlflow(client, tmp_path / "run")[0]) == expected(tmp_path / "run")


def test_mlflow_takes_values_that_are_not_finite(client, tmp_path):
    """It keeps NaN, and stores infinity as the largest float64."""
    run = MlflowRun(LoggedRun(tmp_path, {"seed": 0}))
    run.scalars(1, {"loss/train": math.nan, "loss/val": math.inf})
    values = client.get_run(run.id).data.metrics
    assert math.isnan(values["loss/train"])
    assert values["loss/val"] == sys.float_info.max


def stop_once(monkeypatch, kind):
    """The first session gets SIGINT at step 3."""
    log = kind.scalars

    def scalars(self, step, values):
        log(self, step, values)
        if step == 3:
            monkeypatch.setattr(kind, "scalars", log)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(kind, "scalars", scalars)


def test_mlflow_resumes_its_run(client, tmp_path, monkeypatch):
    stop_once(monkeypatch, MlflowRun)
    with pytest.raises(KeyboardInterrupt):
        hg.train(folder=tmp_path / "run", loggers="mlflow", **SHORT)
    assert run_of(client, tmp_path / "run").info.status == "KILLED"
    run = hg.train(folder=tmp_path / "run", loggers="mlflow", **SHORT)
    assert run_of(client, run.folder).info.status == "FINISHED"
    assert len(client.search_runs([run_of(client, run.folder).info.experiment_id])) == 1
    rows, counts = logged_by_mlflow(client, run.folder)
    assert without_speed(rows) == expected(run.folder)
    assert set(counts.values()) == {1}


@pytest.mark.parametrize("engine", ["single", "stacked"])
def test_wandb_keeps_values_and_exit_code_without_a_network(tmp_path, monkeypatch, engine):
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    runs = hg.sweep("loggers=wandb", seed=[0, 1], folder=tmp_path / "runs", engine=engine, workers=1, **SHORT)
    for run in runs:
        rows, ids, codes = logged_by_wandb(run.folder)
        assert ids[-1:] == [read_json(run.folder / "loggers.json")["wandb"]]
        assert codes == [0]
        assert without_speed(rows) == expected(run.folder)


def test_wandb_resumes_its_run(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    stop_once(monkeypatch, WandbRun)
    with pytest.raises(KeyboardInterrupt):
        hg.train(folder=tmp_path / "run", loggers="wandb", **SHORT)
    run = hg.train(folder=tmp_path / "run", loggers="wandb", **SHORT)
    rows, ids, codes = logged_by_wandb(run.folder)
    assert len(set(ids)) == 1
    assert codes == [1, 0]
    assert without_speed(rows) == expected(run.folder)
