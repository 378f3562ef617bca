"""Run folders: one process at a time, nothing overwritten by accident, cut-off runs found and resumed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.tracking import strict_json
from experiments.tracking.flat_config import differences
from experiments.tracking.run_errors import ConfigDiffers, RunCutOff, RunOver
from experiments.tracking.run_folder import FolderError, FolderInUse, RunFolder, find_cut_off, write_json
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import is_alive, is_cut_off, read_status

ROOT = Path(__file__).parents[1]
CLAIM = """
import sys
from experiments.tracking.run_folder import FolderInUse, RunFolder
try:
    folder = RunFolder.claim(sys.argv[1], "h", True, False)
    print("claimed", folder.resumed, flush=True)
except FolderInUse:
    print("in use", flush=True)
sys.stdin.read()
"""


def claim_elsewhere(path):
    command = [sys.executable, "-c", CLAIM, str(path)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(path, config_hash="h", status="DONE", **more):
    with RunFolder.claim(path, config_hash, False, False) as folder:
        folder.write_status(status, **more)
    return folder


def snapshot(path):
    return {file: file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_of_runs_started_at_once_one_gets_the_folder(tmp_path):
    """G02, the part of the folder: four processes ask for one path; choosing four paths is the front door's."""
    others = [claim_elsewhere(tmp_path / "run") for _ in range(4)]
    answers = sorted(other.stdout.readline().strip() for other in others)
    for other in others:
        other.communicate("")
    assert answers == ["claimed False", "in use", "in use", "in use"]


@pytest.mark.parametrize("status", ["DONE", "FAILED", "NOT_APPLICABLE"])
def test_a_run_that_is_over_is_refused_untouched(tmp_path, status):
    """G03. The same folder twice: refused unless overwrite."""
    finish(tmp_path, status=status, error="Traceback:\n  ValueError: no\n" if status == "FAILED" else None)
    before = snapshot(tmp_path)
    for resume in (False, True):
        with pytest.raises(RunOver, match="overwrite=true") as refusal:
            RunFolder.claim(tmp_path, "h", resume, False)
        assert refusal.value.status == status
        reason = "FAILED: ValueError: no" if status == "FAILED" else status
        assert f"is over ({reason}); " in str(refusal.value)
    assert snapshot(tmp_path) == before
    assert not is_alive(tmp_path)


def test_overwrite_removes_the_runs_files_and_no_others(tmp_path):
    """G03. The same folder twice: with overwrite the old run goes, foreign files stay."""
    folder = finish(tmp_path)
    ours = [folder.config, folder.env, folder.metrics, folder.result, folder.last_checkpoint, folder.best_checkpoint]
    ours += [folder.hydra / "overrides.yaml", tmp_path / "events.out.tfevents.1.host.2.0", tmp_path / ".env.json.tmp"]
    foreign = [tmp_path / "notes.txt", tmp_path / "checkpoints" / "keep.pt", tmp_path / "plots" / "metrics.jsonl"]
    for file in ours + foreign:
        file.parent.mkdir(exist_ok=True)
        file.write_text("old")
    with RunFolder.claim(tmp_path, "other", False, True) as again:
        assert not again.resumed
        assert [file for file in ours if file.exists()] == []
        assert all(file.read_text() == "old" for file in foreign)
        assert read_status(tmp_path)["config_hash"] == "other"
    assert not folder.hydra.exists()


def test_overwriting_that_stops_halfway_leaves_a_cut_off_run(tmp_path, monkeypatch):
    finish(tmp_path)

    def stop(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunPaths, "written", stop)
        with pytest.raises(KeyboardInterrupt):
            RunFolder.claim(tmp_path, "other", False, True)
    assert is_cut_off(tmp_path)
    assert read_status(tmp_path)["config_hash"] == "h"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_link_where_a_run_writes_is_refused_and_its_target_untouched(tmp_path, overwrite):
    """Also at temporary names, at the lock, and at the folders inside."""
    target, places = tmp_path / "target", RunPaths(tmp_path / "run")
    target.write_text("precious")
    (tmp_path / "elsewhere").mkdir()
    linked = [places.lock, places.status, places.status.with_name(".status.json.tmp"), *places.places()]
    assert len(linked) == 31
    for path in (*linked, places.checkpoints, places.hydra):
        finish(tmp_path / "run", status="INTERRUPTED")
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target if path in linked else tmp_path / "elsewhere")
        before = snapshot(tmp_path / "run")
        with pytest.raises(FolderError, match=r"a link") as refusal:
            RunFolder.claim(tmp_path / "run", "h", True, overwrite)
        assert str(path) in str(refusal.value)
        assert target.read_text() == "precious"
        assert snapshot(tmp_path / "run") == before
        assert list((tmp_path / "elsewhere").iterdir()) == []
        shutil.rmtree(tmp_path / "run")


def test_a_live_run_cannot_be_overwritten(tmp_path):
    with RunFolder.claim(tmp_path, "h", False, False), pytest.raises(FolderInUse, match=r"hydra\.run\.dir"):
        RunFolder.claim(tmp_path, "h", True, True)


def test_a_killed_run_is_cut_off_and_resumed(tmp_path):
    other = claim_elsewhere(tmp_path / "run")
    assert other.stdout.readline().strip() == "claimed False"
    assert is_alive(tmp_path / "run")
    assert find_cut_off(tmp_path, "h") is None
    started = read_status(tmp_path / "run")["started"]
    other.send_signal(signal.SIGKILL)
    other.communicate()
    assert is_cut_off(tmp_path / "run")
    assert find_cut_off(tmp_path, "h") == tmp_path / "run"
    with pytest.raises(RunCutOff, match="resume=auto"):
        RunFolder.claim(tmp_path / "run", "h", False, False)
    with RunFolder.claim(tmp_path / "run", "h", True, False) as folder:
        assert folder.resumed
    assert read_status(tmp_path / "run")["started"] == started


def test_seconds_add_up_over_sessions(tmp_path):
    finish(tmp_path, status="INTERRUPTED")
    write_json(tmp_path / "status.json", {**read_status(tmp_path), "seconds": 100.0})
    with RunFolder.claim(tmp_path, "h", True, False) as folder:
        assert folder.resumed
        folder.write_status("FAILED", error="ValueError: no", at_step=3)
    status = read_status(tmp_path)
    assert list(status) == ["status", "config_hash", "started", "ended", "seconds", "error", "at_step", "sha256"]
    assert 100 <= status["seconds"] < 160
    assert status["started"] < status["ended"]
    with pytest.raises(RuntimeError, match="released"):
        folder.write_status("DONE")
    with pytest.raises(ValueError, match="NOT_APPLICABLE"):
        folder.write_status("OVER")


@pytest.mark.parametrize("status", ["DONE", "INTERRUPTED"])
def test_another_configuration_is_refused_by_the_names_of_its_keys(tmp_path, status):
    finish(tmp_path, status=status).config.write_text("optimizer: {lr: 0.1, clip: null}\nseed: 0\nresume: auto\n")
    config = {"optimizer": {"lr": 0.2, "clip": None}, "seed": 0, "note": "μ"}
    with pytest.raises(ConfigDiffers) as refusal:
        RunFolder.claim(tmp_path, "other", True, False, config, not_hashed=["resume"])
    assert "optimizer.lr was 0.1, now 0.2; note was not set, now 'μ');" in str(refusal.value)
    (tmp_path / "config.yaml").write_text("{")
    with pytest.raises(ConfigDiffers, match=r"config\.yaml cannot be read"):
        RunFolder.claim(tmp_path, "other", True, False, config)


def test_differences_tell_true_from_one_and_a_tuple_from_nothing():
    assert differences({"a": 1, "b": (1, 2), "c": float("nan")}, {"a": 1.0, "b": [1, 2], "c": float("nan")}) == []
    assert differences({"a": 1, "b": {}}, {"a": True}) == ["a was 1, now True", "b was {}, now not set"]


def test_a_folder_without_a_run_is_refused_and_left_as_it_was(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(FolderError, match=r"notes\.txt"):
            RunFolder.claim(tmp_path, "h", True, overwrite)
    assert list(snapshot(tmp_path)) == [tmp_path / "notes.txt"]
    (tmp_path / "status.json").write_text('{"status": "green"}')
    with pytest.raises(FolderError, match="not the status of a run"):
        RunFolder.claim(tmp_path, "h", True, True)
    with pytest.raises(FolderError, match="cannot be made"):
        RunFolder.claim(tmp_path / "notes.txt", "h", False, False)


def test_any_name_that_the_system_allows(tmp_path, monkeypatch):
    """G05, the part of the folder: odd names work, a name too long is refused."""
    monkeypatch.chdir(tmp_path)
    name = "a b=μ,[c]*{d}'e'"
    folder = RunFolder.claim(f"sweep/{name}/seed=0", "h", False, False)
    (folder.path / "events.out.tfevents.1").write_text("")
    monkeypatch.chdir("/")
    folder.write_status("INTERRUPTED")
    folder.release()
    assert find_cut_off(tmp_path, "h") == folder.path
    with RunFolder.claim(folder.path, "h", False, True):
        assert list(folder.written()) == []
    with pytest.raises(FolderError, match="too long"):
        RunFolder.claim(tmp_path / ("x" * 260), "h", False, False)


def test_the_newest_cut_off_run_is_found(tmp_path):
    for name, config_hash, status in [
        ("z", "h", "INTERRUPTED"),
        ("a/seed=1", "h", "RUNNING"),
        ("b", "other", "RUNNING"),
        ("c", "h", "DONE"),
    ]:
        finish(tmp_path / name, config_hash, status)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "status.json").write_text("{")
    assert find_cut_off(tmp_path, "h") == tmp_path / "a/seed=1"
    with RunFolder.claim(tmp_path / "a/seed=1", "h", True, False):
        assert find_cut_off(tmp_path, "h") == tmp_path / "z"
    assert find_cut_off(tmp_path / "nowhere", "h") is None


def test_json_is_strict_and_in_order(tmp_path):
    write_json(tmp_path / "x.json", {"b": float("nan"), "a": [float("-inf"), 0.1, True, None], "μ": ()})
    text = (tmp_path / "x.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"b": "NaN", "a": ["-Infinity", 0.1, True, None], "μ": []}
    assert text.isascii()
    assert text.index('"b"') < text.index('"a"')
    with pytest.raises(TypeError, match=r"value\['data'\]\[0\] is a pathlib"):
        write_json(tmp_path / "x.json", {"data": [tmp_path]})
    assert (tmp_path / "x.json").read_text() == text


def test_a_status_that_could_not_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    """I04, the part of status.json and the other small files."""
    write_json(tmp_path / "x.json", 1)
    monkeypatch.setattr(os, "fsync", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_json(tmp_path / "x.json", 2)
    assert strict_json.read_json(tmp_path / "x.json") == 1
    assert os.listdir(tmp_path) == ["x.json"]
