"""Checkpoints: whole or refused by name, the one before kept, plain data only."""

import collections
import hashlib
import io
import pathlib
import pickle
import random
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from experiments.tracking.checkpoint import (
    CheckpointError,
    ForeignCheckpoint,
    go_back,
    load,
    load_own,
    load_whole,
    save,
)

ROOT = Path(__file__).parents[1]


def state(step, size=100):
    model = torch.nn.Linear(size, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, size)).sum().backward()
    optimizer.step()
    return {
        "step": step,
        "trainer": {},
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "torch_rng": torch.get_rng_state(),
        "python_rng": random.getstate(),
        "best": {"accuracy/val": float("-inf"), "step": None},
        "config": OmegaConf.to_container(OmegaConf.create({"optimizer": {"lr": 0.1}, "seeds": [0, 1]})),
        "dtype": torch.float32,
    }


def assert_equal(left, right):
    assert type(left) is type(right)
    if isinstance(left, torch.Tensor):
        assert torch.equal(left, right)
    elif isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            assert_equal(left[key], right[key])
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for pair in zip(left, right, strict=True):
            assert_equal(*pair)
    else:
        assert left == right


def test_a_state_comes_back_the_same(tmp_path):
    path = tmp_path / "check points μ" / "best.pt"
    saved = state(7)
    save(path, saved)
    assert_equal(load(path), saved)
    assert [file.name for file in path.parent.iterdir()] == ["best.pt"]


def test_torch_load_with_its_defaults_reads_every_kind_of_file(tmp_path):
    """I05, the part of what is written: last, previous and best."""
    for step in (1, 2):
        save(tmp_path / "last.pt", state(step))
    save(tmp_path / "best.pt", state(1))
    steps = {file.stem: torch.load(file)["step"] for file in tmp_path.iterdir()}
    assert steps == {"last": 2, "previous": 1, "best": 1}
    assert zipfile.ZipFile(tmp_path / "last.pt").testzip() is None


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (OmegaConf.create({"a": 1}), "omegaconf.dictconfig.DictConfig"),
        (np.float64(1.0), "numpy.float64"),
        (np.random.get_state(), "numpy.ndarray"),
        (np.zeros(3), "numpy.ndarray"),
        (pathlib.Path("x"), "pathlib.PosixPath"),
        (collections.deque([1]), "collections.deque"),
        (collections.defaultdict(int), "collections.defaultdict"),
        (torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear"),
        ({np.int64(3): 1}, "a key of type numpy.int64"),
        ({1, frozenset()}, "builtins.frozenset"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_torch_would_refuse_to_load_is_not_saved(tmp_path, value, named):
    """I05, the part of the schema: the key is named, nothing is written."""
    with pytest.raises(TypeError) as refusal:
        save(tmp_path / "last.pt", {"step": 1, "best": [{"metric": value}]})
    assert str(refusal.value).startswith("state['best'][0]['metric']")
    assert named in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def damaged(content):
    """Names of faults with a file that has each."""
    yield "is empty", b""
    for share in (0.01, 0.5, 0.9):
        yield "is incomplete", content[: int(len(content) * share)]
    yield "is incomplete", content[:-1]
    for place in [*range(0, len(content), 997), len(content) - 20]:
        yield "", content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :]
    yield "damaged", content[:4000] + bytes(512) + content[4512:]
    yield "hardgrad did not write it", b"\x80\x04K\x01."
    yield "format 2", content.replace(b"format=1 ", b"format=2 ")


def test_a_file_that_is_not_whole_is_refused_by_name(tmp_path):
    """I04, the part of loading: cut short, flipped bits, empty, foreign, newer, missing."""
    path = tmp_path / "best.pt"
    save(path, state(1))
    faults = list(damaged(path.read_bytes()))
    assert len(faults) > 10
    for fault, content in faults:
        path.write_bytes(content)
        with pytest.raises(CheckpointError) as refusal:
            load(path)
        assert str(refusal.value).startswith(f"{path} ")
        assert fault in str(refusal.value)
    with pytest.raises(CheckpointError, match=r"none\.pt cannot be read: No such file"):
        load(tmp_path / "none.pt")
    torch.save({"step": 1}, path)
    with pytest.raises(CheckpointError, match="hardgrad did not write it"):
        load(path)


def test_the_one_before_is_used_and_the_bad_file_named(tmp_path, caplog):
    """I04, the part of falling back."""
    assert load_whole(tmp_path, "h") == []
    save(tmp_path / "last.pt", state(1))
    save(tmp_path / "last.pt", state(2))
    assert load_whole(tmp_path, "h")[0]["step"] == 2
    assert not caplog.records
    (tmp_path / "last.pt").write_bytes((tmp_path / "last.pt").read_bytes()[:1000])
    assert load_whole(tmp_path, "h")[0]["step"] == 1
    assert f"{tmp_path / 'last.pt'} is incomplete" in caplog.text
    save(tmp_path / "last.pt", state(3))  # does not let the damaged file push out the good one
    assert load(tmp_path / "previous.pt")["step"] == 1
    assert load_whole(tmp_path, "h")[0]["step"] == 3
    (tmp_path / "last.pt").unlink()
    assert load_whole(tmp_path, "h")[0]["step"] == 1
    for name in ("last.pt", "previous.pt"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"last\.pt is empty; .*previous\.pt is empty"):
        load_whole(tmp_path, "h")


def own(step, digest="h"):
    """The least that a run's checkpoint holds."""
    return {"config_hash": digest, "step": step, "trainer": {}}


def test_each_fault_has_its_own_sentence(tmp_path):
    path = tmp_path / "best.pt"
    save(path, {"step": 1})
    whole = path.read_bytes()
    body, line = whole[:-102], whole[-102:]
    assert re.fullmatch(rb"\nhardgrad checkpoint format=1 sha256=[0-9a-f]{64}\n", line)
    faults = {
        b"": "is empty",
        b"x": "is incomplete, or hardgrad did not write it: its last line is missing",
        whole[:-1]: "is incomplete, or hardgrad did not write it: its last line is missing",
        whole + b"\n": "is incomplete, or hardgrad did not write it: its last line is missing",
        body + line.replace(b"format=1", b"format=2"): "has format 2, this hardgrad reads up to 1; install a newer one",
        b"x" + whole: "is damaged: its content does not match its checksum",
    }
    for content, said in faults.items():
        path.write_bytes(content)
        with pytest.raises(CheckpointError) as refusal:
            load(path)
        assert str(refusal.value) == f"{path} {said}"
    path.write_bytes(body + line.replace(b"format=1", b"format=0"))  # an earlier format, say
    assert load(path) == {"step": 1}
    save(path, [1])
    with pytest.raises(CheckpointError, match=r"best\.pt holds a list; a run saves a dict"):
        load(path)


def test_a_small_file_with_nothing_but_its_last_line_is_no_checkpoint(tmp_path):
    path = tmp_path / "last.pt"
    path.write_bytes(f"\nhardgrad checkpoint format=1 sha256={hashlib.sha256(b'').hexdigest()}\n".encode())
    with pytest.raises(CheckpointError, match=r"last\.pt is not loaded, because it holds more than plain data: "):
        load(path)


class MakesAFile:
    """Unpickled as code would be, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def whole_file(state):
    """What `save` would write, were every state allowed."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getvalue()
    return content + f"\nhardgrad checkpoint format=1 sha256={hashlib.sha256(content).hexdigest()}\n".encode()


def test_a_whole_file_that_would_run_code_is_refused_with_the_first_line_of_torch_and_runs_none(tmp_path):
    path, made = tmp_path / "last.pt", tmp_path / "made"
    path.write_bytes(whole_file({"step": MakesAFile(made)}))
    with pytest.raises(CheckpointError) as refusal:
        load(path)
    assert not made.exists()
    with pytest.raises(pickle.UnpicklingError) as of_torch:
        torch.load(path, weights_only=True)
    first = str(of_torch.value).splitlines()[0]
    assert str(refusal.value) == f"{path} is not loaded, because it holds more than plain data: {first}"


def test_an_error_without_a_text_is_named_by_its_type(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RecursionError

    save(tmp_path / "last.pt", own(1))
    monkeypatch.setattr(torch, "load", fail)
    with pytest.raises(CheckpointError, match=r"is not loaded, because it holds more than plain data: RecursionError$"):
        load(tmp_path / "last.pt")


def test_a_checkpoint_of_another_run_or_kind_is_refused_by_its_name(tmp_path):
    last, best = tmp_path / "last.pt", tmp_path / "best.pt"
    save(last, own(1, "mine"))
    assert load_own(last, "mine")["step"] == 1
    with pytest.raises(ForeignCheckpoint) as refusal:
        load_own(last, "yours")
    assert str(refusal.value) == f"{last} belongs to another run: its hash is mine, this run's is yours"
    for path, state, part in ((last, {"model": {}}, "trainer"), (best, own(1), "model"), (best, {"model": 3}, "model")):
        save(path, {"config_hash": "h", **state})
        with pytest.raises(ForeignCheckpoint) as refusal:
            load_own(path, "h")
        assert str(refusal.value) == f"{path} lacks the part '{part}', so it is not the {path.name} of a run"
    save(best, {"model": {}})
    assert load_own(best, "any") == {"model": {}}


def test_the_states_of_a_run_come_the_newest_first(tmp_path, caplog):
    last, previous = tmp_path / "last.pt", tmp_path / "previous.pt"
    for step in (1, 2):
        save(last, own(step))
    assert [state["step"] for state in load_whole(tmp_path, "h")] == [2, 1]
    whole = previous.read_bytes()
    previous.write_bytes(b"")
    assert [state["step"] for state in load_whole(tmp_path, "h")] == [2]
    assert caplog.messages == []  # the last one is all that is needed
    previous.write_bytes(whole)
    last.write_bytes(b"")
    assert [state["step"] for state in load_whole(tmp_path, "h")] == [1]
    assert caplog.messages == [f"{last} is empty; the run resumes from {previous}"]
    previous.write_bytes(b"")
    with pytest.raises(CheckpointError) as refusal:
        load_whole(tmp_path, "h")
    assert str(refusal.value) == f"{last} is empty; {previous} is empty"
    previous.unlink()
    save(previous, own(1, "other"))
    with pytest.raises(ForeignCheckpoint, match=r"previous\.pt belongs to another run"):
        load_whole(tmp_path, "h")


def test_a_run_goes_back_by_one_checkpoint_or_to_its_start(tmp_path):
    for step in (1, 2):
        save(tmp_path / "last.pt", own(step))
    go_back(tmp_path, to_start=False)
    assert [(file.name, load(file)["step"]) for file in tmp_path.iterdir()] == [("last.pt", 1)]
    save(tmp_path / "best.pt", {"model": {}})
    for _ in range(2):
        go_back(tmp_path, to_start=True)
        assert [file.name for file in tmp_path.iterdir()] == ["best.pt"]


def test_tensors_are_loaded_onto_the_device_asked_for(tmp_path):
    save(tmp_path / "best.pt", {"model": {"weight": torch.ones(2)}, "config_hash": "h"})
    assert load(tmp_path / "best.pt")["model"]["weight"].device.type == "cpu"
    assert load_own(tmp_path / "best.pt", "h")["model"]["weight"].device.type == "cpu"
    assert load_own(tmp_path / "best.pt", "h", "meta")["model"]["weight"].device.type == "meta"
    save(tmp_path / "last.pt", {**own(1), "weight": torch.ones(2)})
    assert load_whole(tmp_path, "h")[0]["weight"].device.type == "cpu"
    assert load_whole(tmp_path, "h", "meta")[0]["weight"].device.type == "meta"


def test_a_checkpoint_does_not_bring_back_a_removed_run_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        save(tmp_path / "run" / "checkpoints" / "last.pt", own(1))
    assert list(tmp_path.iterdir()) == []


def test_a_save_that_fails_leaves_the_files_as_they_were(tmp_path, monkeypatch):
    """I04, the part of a full disk."""
    save(tmp_path / "last.pt", state(1))
    save(tmp_path / "last.pt", state(2))
    monkeypatch.setattr("os.fsync", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save(tmp_path / "last.pt", state(3))
    assert {file.stem: load(file)["step"] for file in tmp_path.iterdir()} == {"last": 2, "previous": 1}


@pytest.mark.slow
def test_killed_while_saving(tmp_path):
    """I04, the part of SIGKILL: at whatever moment, a checkpoint no older than the last announced one can be loaded."""
    code = """
import sys, torch
from pathlib import Path
from experiments.tracking.checkpoint import save
for step in range(10_000):
    save(Path(sys.argv[1]) / "last.pt", {"step": step, "trainer": {}, "ballast": torch.full((2_000_000,), float(step))})
    print(step, flush=True)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    for trial in range(2):
        shutil.rmtree(tmp_path)
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        time.sleep(0.05 + 0.037 * trial)
        process.kill()
        announced = [0, *map(int, process.communicate()[0].split())][-1]
        loaded = load_whole(tmp_path, "h")[0]
        assert loaded["step"] in (announced, announced + 1)
        assert (loaded["ballast"] == loaded["step"]).all()
