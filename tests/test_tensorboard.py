"""The event files, as TensorBoard itself reads them: asked through its own HTTP interface, without a network."""

import json
import math
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import torch
from tensorboard import default, program
from tensorboard.backend import application
from werkzeug.test import Client

from experiments.tracking.about import text_summary
from experiments.tracking.event_file import EventFile
from experiments.tracking.hparams import columns_summary, row_summary
from experiments.tracking.metrics import MetricsLog, read_metrics
from experiments.tracking.tags import tag
from experiments.tracking.tensorboard import CurveWriter

ROOT = Path(__file__).parents[1]
STATUSES = ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]


class Board:
    """TensorBoard over a log folder, read once, or with its own fast loader, which keeps on reading."""

    def __init__(self, folder, fast=False):
        board = program.TensorBoard(plugins=default.get_plugins())
        loader = (
            ["--load_fast=true"] if fast else ["--load_fast=false", "--reload_interval=0", "--reload_task=blocking"]
        )
        board.configure(argv=["tensorboard", f"--logdir={folder}", *loader, "--samples_per_plugin=scalars=100000"])
        provider, multiplexer = board._make_data_provider()
        flags, plugins, assets = board.flags, board.plugin_loaders, board.assets_zip_provider
        self.client = Client(application.TensorBoardWSGIApp(flags, plugins, provider, assets, multiplexer))

    def get(self, route, **query):
        answer = self.client.get(f"/data/{route}", query_string=query)
        assert answer.status_code == 200, answer.get_data(as_text=True)
        return json.loads(answer.get_data(as_text=True), parse_constant=pytest.fail)

    def curve(self, run, name):
        return {step: value for _, step, value in self.points(run, name)}

    def points(self, run, name):
        return self.get("plugin/scalars/scalars", run=run, tag=name)

    def rows(self):
        question = {"allowedStatuses": STATUSES, "startIndex": 0, "sliceSize": 1000, "colParams": []}
        answer = self.client.post("/data/plugin/hparams/session_groups", json=question)
        return json.loads(answer.get_data(as_text=True), parse_constant=pytest.fail)["sessionGroups"]

    def infos(self):
        question = {"experimentName": "", "hparamsLimit": 1000}
        return self.client.post("/data/plugin/hparams/experiment", json=question).json["hparamInfos"]

    def columns(self):
        return [info.get("displayName") or info["name"] for info in self.infos()]


def write_run(folder, config, steps=range(3), success=True, purge_step=None, offset=0.0):
    writer = CurveWriter(folder, config, purge_step)
    for step in steps:
        loss = step + offset
        writer.scalars(step, {"loss/train": loss, "loss/val": loss, "loss/val_soft": loss, "accuracy/val": 0.5})
    writer.close(success)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Two strategies, two seeds each, with keys of their own."""
    root = tmp_path_factory.mktemp("runs μ [1]")
    for seed in (0, 1):
        ste = {"strategy": "ste", "optimizer": {"lr": 0.1}, "seed": seed}
        write_run(root / f"ste/seed={seed}", ste, offset=seed)
        smooth = {"strategy": {"temperature": None, "schedule": [1, 0.5]}, "optimizer": {"lr": 0.3}, "seed": seed}
        write_run(root / f"smooth/seed={seed}", smooth, offset=seed)
    return root, Board(root)


def test_a_training_run_is_one_run(sweep):
    """H01. All of it: no run is added by the hyperparameters."""
    root, board = sweep
    runs = ["smooth/seed=0", "smooth/seed=1", "ste/seed=0", "ste/seed=1"]
    assert sorted(board.get("runs")) == runs
    assert sorted(board.get("plugin/scalars/tags")) == runs
    assert board.curve("ste/seed=1", "loss/val") == {0: 1.0, 1: 2.0, 2: 3.0}
    assert all(len(list((root / run).iterdir())) == 1 for run in runs)


def test_each_run_is_one_row_with_its_metrics(sweep):
    _, board = sweep
    rows = {row["name"]: row for row in board.rows()}
    assert sorted(rows) == ["smooth/seed=0", "smooth/seed=1", "ste/seed=0", "ste/seed=1"]
    (session,) = rows["ste/seed=1"]["sessions"]
    assert session["status"] == "STATUS_SUCCESS"
    values = {metric["name"]["tag"]: metric["value"] for metric in session["metricValues"]}
    assert (values["loss/val"], values["accuracy/val"]) == (3.0, 0.5)


def test_the_runs_of_a_group_are_one_row_with_their_mean(tmp_path):
    for seed in (0, 1):
        with EventFile(tmp_path / f"seed={seed}") as file:
            file.add(row_summary({"strategy": "ste"}, "ste"))
            file.scalars(1, {"loss/val": 2.0 + seed})
    (group,) = Board(tmp_path).rows()
    assert (group["name"], [session["name"] for session in group["sessions"]]) == ("ste", ["seed=0", "seed=1"])
    assert [metric["value"] for metric in group["metricValues"]] == [2.5]


def test_any_configuration_gives_a_row(tmp_path):
    """H02. All of it but OmegaConf nodes, which have no business here: None, lists, odd numbers and text."""
    config = {
        "none": None,
        "list": [1, {"a": None}],
        "nan": math.nan,
        "infinite": math.inf,
        "big": 2**60,
        "numpy": np.float64(0.5),
        "path": tmp_path,
        "text": "a,b=μ \ud800",
        "empty": {},
        "deep": {"er": {"flag": False, "lr": 1e-5}},
        "seed": 3,
    }
    write_run(tmp_path / "run", config)
    (group,) = Board(tmp_path).rows()
    assert group["hparams"] == {
        "5 seed": "3",
        "7 list": "[1, {'a': None}]",
        "7 nan": "nan",
        "7 infinite": "inf",
        "7 big": str(2**60),
        "7 numpy": 0.5,
        "7 path": str(tmp_path),
        "7 text": "a,b=μ ?",
        "7 empty": "{}",
        "7 deep.er.flag": False,
        "7 deep.er.lr": 1e-5,
    }


def test_the_columns_are_those_that_one_run_declares_in_their_order(tmp_path):
    """H03. Strategy, component, learning rate, temperature, seed, then the others by name; no other key is shown."""
    keys = ["model.width", "seed", "component.bits", "optimizer.lr", "component", "strategy.temperature", "strategy"]
    for seed in (0, 1):
        write_run(tmp_path / f"seed={seed}", {"seed": seed, "max_steps": 3})
    with EventFile(tmp_path / "about") as file:
        file.add(columns_summary(keys, {"loss/val": "validation loss"}))
    ordered = ["strategy", "component", "optimizer.lr", "strategy.temperature", "seed", "component.bits", "model.width"]
    assert Board(tmp_path).columns() == ordered


def test_without_declared_columns_the_keys_that_differ_come_first(sweep):
    """H03, the part of single runs: no run hides the columns of another."""
    _, board = sweep
    assert board.columns() == ["3 optimizer.lr", "5 seed", "1 strategy", "7 strategy.schedule"]
    differ = [info["name"] for info in board.infos() if info.get("differs")]
    assert differ == ["3 optimizer.lr", "5 seed"]


def test_not_finite_is_kept_and_said(tmp_path):
    """H04, the part of the event file: the values, and one line that names the tag and the step."""
    writer = CurveWriter(tmp_path / "run", {"strategy": "ste"})
    for step, value in enumerate([1.0, math.nan, math.inf, -math.inf]):
        writer.scalars(step, {"loss/val": value})
    writer.close(False)
    board = Board(tmp_path)
    assert board.curve("run", "loss/val") == {0: 1.0, 1: "NaN", 2: "Infinity", 3: "-Infinity"}
    (mark,) = board.get("plugin/text/text", run="run", tag="diverged/text_summary")
    assert mark["step"] == 1
    assert "loss/val is nan at step 1" in mark["text"]
    (session,) = board.rows()[0]["sessions"]
    assert (session["status"], session["metricValues"][0]["value"]) == ("STATUS_FAILURE", "-Infinity")


KILLED = """
import os, signal, sys
from pathlib import Path
from experiments.tracking.metrics import MetricsLog
from experiments.tracking.tensorboard import CurveWriter
folder = Path(sys.argv[1])
writer = CurveWriter(folder, {"strategy": "ste"})
log = MetricsLog(folder / "metrics.jsonl")
for step in range(50):
    values = {"loss/val": step / 8, "accuracy/val": 0.5, "loss/train": step / 8}
    log.write(step, values)
    writer.scalars(step, values)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_killed_run_is_readable_and_its_resumption_one_curve(tmp_path):
    """H05. All of it: after SIGKILL every logged step is there, in order; the resumed run has each step once."""
    folder = tmp_path / "a run μ"
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder)], cwd=ROOT, check=False, stderr=subprocess.PIPE)
    assert done.returncode == -signal.SIGKILL
    with open(next(folder.glob("events*")), "ab") as file:
        file.write(b"\x99\0\0\0\0\0\0\0torn")
    steps = [step for _, step, _ in Board(tmp_path).points("a run μ", "loss/val")]
    assert steps == list(range(50))
    log = MetricsLog(folder / "metrics.jsonl", resume_at=29)
    writer = CurveWriter(folder, {"strategy": "ste"}, purge_step=30)
    for step in range(30, 60):
        values = {"loss/val": step / 8, "accuracy/val": 0.5, "loss/train": step / 8}
        log.write(step, values)
        writer.scalars(step, values)
    writer.close(True)
    log.close()
    board = Board(tmp_path)
    for name in ("loss/val", "loss/train"):
        assert [point[1:] for point in board.points("a run μ", name)] == [[step, step / 8] for step in range(60)]
    assert [record["step"] for record in read_metrics(folder / "metrics.jsonl")] == list(range(60))
    (session,) = board.rows()[0]["sessions"]
    assert session["status"] == "STATUS_SUCCESS"
    assert {metric["name"]["tag"]: metric["value"] for metric in session["metricValues"]}["loss/val"] == 59 / 8


def test_many_sessions_of_a_run_in_one_second_are_one_curve(tmp_path):
    for session in range(3):
        last = session == 2
        steps = range(5 * session, 10 + 5 * session)
        write_run(tmp_path / "run", {}, steps, True if last else None, purge_step=steps[0] or None)
    board = Board(tmp_path)
    assert [step for _, step, _ in board.points("run", "loss/val")] == list(range(20))
    assert [session["status"] for session in board.rows()[0]["sessions"]] == ["STATUS_SUCCESS"]
    assert len(list((tmp_path / "run").iterdir())) == 3


@pytest.mark.slow  # starts TensorBoard's data server, which answers on the loopback interface
def test_the_fast_loader_shows_the_same(tmp_path):
    write_run(tmp_path / "run", {}, range(10), None)
    write_run(tmp_path / "run", {}, range(5, 20), True, purge_step=5)
    board = Board(tmp_path, fast=True)
    deadline = time.monotonic() + 60
    while not board.get("runs") or len(board.points("run", "loss/val")) < 20:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert [point[1:] for point in board.points("run", "loss/val")] == [[step, step] for step in range(20)]
    assert "float32" in board.get("plugin/scalars/tags")["run"]["loss/val"]["description"]
    (session,) = board.rows()[0]["sessions"]
    assert session["status"] == "STATUS_SUCCESS"
    assert len(board.get("plugin/custom_scalars/layout")["category"]) == 3


@pytest.mark.parametrize("name", ["grad norm (pre-clip)", "a:b", "/lead", "T=0.5", "μ/loss", "50%2F", "\ud800", "a.b"])
def test_free_text_in_a_tag_comes_back(tmp_path, name):
    """H07. All of it: ASCII in the file, the text itself when it is unquoted."""
    made = tag("grad_norm", name)
    assert made.isascii()
    assert made.count("/") == 1
    assert unquote(made.partition("/")[2], errors="surrogatepass") == name
    writer = CurveWriter(tmp_path / "run", {})
    writer.scalars(0, {made: 1.0})
    writer.close(None)
    assert Board(tmp_path).curve("run", made) == {0: 1.0}


def test_an_empty_or_handmade_tag_is_refused(tmp_path):
    """H07, the part of refusal."""
    for parts in ((), ("",), ("loss", "")):
        with pytest.raises(ValueError, match="loss/train"):
            tag(*parts)
    assert tag("op", "layers.0", "flip_rate") == "op/layers.0/flip_rate"
    writer = CurveWriter(tmp_path, {})
    for name in ("", "/lead", "loss//val", "grad norm"):
        with pytest.raises(ValueError, match="is not a tag"):
            writer.scalars(0, {name: 1.0})
    writer.close(None)


@pytest.mark.slow
def test_two_hundred_runs_are_two_hundred_files(tmp_path):
    """H08. All of it: one event file a run, all closed, no folder but the runs' own."""
    before = len(os.listdir("/proc/self/fd"))
    for run in range(200):
        write_run(tmp_path / f"seed={run}", {"strategy": "ste", "seed": run})
    assert len(os.listdir("/proc/self/fd")) == before
    assert sum(len(files) for _, _, files in os.walk(tmp_path)) == 200
    assert len(Board(tmp_path).rows()) == 200


def test_an_odd_value_is_skipped_and_counted(tmp_path):
    """H09, the part of scalars; histograms are not logged."""
    writer = CurveWriter(tmp_path / "run", {})
    odd = [None, torch.tensor([]), torch.ones(2), "soon", 10**400]
    for step, value in enumerate(odd):
        writer.scalars(step, {"odd": value, "loss/val": torch.tensor(1.5, dtype=torch.bfloat16)})
    writer.close(True)
    assert writer.skipped == {"odd": 5}
    assert Board(tmp_path).curve("run", "loss/val") == dict.fromkeys(range(5), 1.5)


def test_curves_are_float32_and_say_so(tmp_path):
    """H10, the part of TensorBoard: rounded there, labelled, and a fractional step refused."""
    writer = CurveWriter(tmp_path / "run", {})
    for step, value in enumerate([16777217.0, 1e-50, 1e39]):
        writer.scalars(step, {"loss/val": value})
    with pytest.raises(TypeError):
        writer.scalars(1.7, {})
    writer.close(True)
    board = Board(tmp_path)
    assert board.curve("run", "loss/val") == {0: 16777216.0, 1: 0.0, 2: "Infinity"}
    assert "float32" in board.get("plugin/scalars/tags")["run"]["loss/val"]["description"]


def test_the_layout_puts_the_strategies_into_one_chart(sweep):
    _, board = sweep
    categories = {
        category["title"]: category["chart"] for category in board.get("plugin/custom_scalars/layout")["category"]
    }
    assert list(categories) == ["strategies", "hard and soft", "operation"]
    patterns = {chart["title"]: chart["multiline"]["tag"] for chart in categories["strategies"]}
    assert len(patterns) == len(categories["strategies"]) == 6
    for run in board.get("runs"):
        (pattern,) = patterns["validation loss, hard"]
        assert list(board.get("plugin/custom_scalars/scalars", run=run, tag=pattern)["tag_to_events"]) == ["loss/val"]


@pytest.mark.parametrize("length", [0, 1, 255, 256, 5000])
def test_the_checksums_of_a_record_are_tensorboards(length, tmp_path):
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    file = EventFile(tmp_path)
    file.add(text_summary("words", "x" * length))
    file.close()
    (written,) = (path.read_bytes() for path in tmp_path.iterdir())
    records = 0
    while written:
        size, of_size = struct.unpack("<QI", written[:12])
        content, (of_content,) = written[12 : 12 + size], struct.unpack("<I", written[12 + size : 16 + size])
        assert of_size == masked_crc32c(written[:8])
        assert of_content == masked_crc32c(content)
        written, records = written[16 + size :], records + 1
    assert records == 2


def test_closing_twice_is_closing_once(tmp_path):
    writer = CurveWriter(tmp_path / "run", {})
    writer.close(None)
    writer.close(True)
    (session,) = Board(tmp_path).rows()[0]["sessions"]
    assert session["status"] == "STATUS_UNKNOWN"
