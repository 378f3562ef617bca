"""A cut-off run whose files are no longer as it left them: refused in words, or gone on with whole."""

import json
import math
import shutil
import signal

import pytest
from test_resume import LONG, stopping
from test_stacked import stop_at

from experiments.stacked.run import run_group
from experiments.tracking import checkpoint
from experiments.training import session
from experiments.training.run import Request
from run_contents import assert_same_run
from runs import CONF, SHORT, command, compose, read, train, tree

OWN = ("strategy=rewrite", *LONG, "hydra.run.dir=run")
STOPPED = 13


@pytest.fixture(autouse=True)
def _a_checkpoint_an_evaluation(monkeypatch):
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(session, "SHARE", math.inf)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(tmp_path_factory.mktemp("whole") / "run", *OWN[:-1]).folder


@pytest.fixture
def cut_off(tmp_path, monkeypatch):
    """The folder of a run that was stopped."""
    with monkeypatch.context() as patch:
        stopping(patch, STOPPED, signal.SIGTERM)
        assert command(*OWN, cwd=tmp_path).code == 143
    return tmp_path / "run"


def assert_goes_on(folder, whole):
    answer = command(*OWN, cwd=folder.parent)
    assert answer.code == 0, answer.err
    assert f"from step {STOPPED}" in answer.out
    assert_same_run(folder, whole)


def flipped(content, place):
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


DAMAGE = {
    "removed": (lambda path, content: path.unlink(), "cannot be read (No such file or directory)"),
    "a folder": (lambda path, content: (path.unlink(), path.mkdir()), "is a folder, not a regular file"),
    "emptied": (lambda path, content: path.write_bytes(b""), "ends before step 13"),
    "cut short": (lambda path, content: path.write_bytes(content[: len(content) // 2]), "ends before step 13"),
    "a line lost": (lambda path, content: path.write_bytes(content.partition(b"\n")[2]), "ends before step 13"),
    "a bit": (lambda path, content: path.write_bytes(flipped(content, 500)), "was changed or damaged since step 13"),
    "a digit": (
        lambda path, content: path.write_bytes(content.replace(b"0.1", b"0.2", 1)),
        "was changed or damaged since step 13",
    ),
}


SLOW = ("a folder", "emptied", "cut short", "a line lost", "a digit")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow) if kind in SLOW else kind for kind in DAMAGE]
)
def test_a_log_that_is_not_the_checkpoints_is_refused_and_goes_on_once_it_is_back(cut_off, whole, kind):
    damage, words = DAMAGE[kind]
    path = cut_off / "metrics.jsonl"
    content = path.read_bytes()
    damage(path, content)
    before = tree(cut_off)
    for _ in range(2):  # looking at it again makes it no worse
        answer = command(*OWN, cwd=cut_off.parent)
        assert answer.code == 2
        said = " ".join(answer.err.split())
        assert said.startswith(f"error: {path} {words}")
        assert "hydra.run.dir" in said
        after = tree(cut_off)
        for name in ("status.json", "train.log"):
            del after[name]
        assert after == {name: before[name] for name in after}
        assert len(after) == len(before) - 2
        assert read(cut_off / "status.json")["status"] == "INTERRUPTED"
    if path.is_dir():
        path.rmdir()
    path.write_bytes(content)
    assert_goes_on(cut_off, whole)


def replaced_by_a_folder(path):
    path.unlink(missing_ok=True)
    path.mkdir()


def changed(**more):
    """With other values; without checksums, as an earlier version wrote it."""
    return lambda path: path.write_text(json.dumps({**read(path), "sha256": {}, **more}))


# What happens to another file of a cut-off run, and what the same command says then.
OTHERS = {
    ".lock": (replaced_by_a_folder, 2, ".lock is a folder, not a regular file"),
    "status.json": (lambda path: path.write_text("{"), 2, "status.json is not valid JSON"),
    "status.json without": (changed(seconds=None), 2, "status.json is damaged: it lacks when the run started"),
    "status.json odd": (changed(seconds="long"), 2, "status.json is damaged: it lacks when the run started"),
    "status.json changed": (
        lambda path: path.write_text(path.read_text().replace('"seconds": ', '"seconds": 1')),
        2,
        "status.json does not match its own checksum",
    ),
    ".status.json.tmp": (replaced_by_a_folder, 2, ".status.json.tmp is a folder, not a regular file"),
    "config.yaml": (replaced_by_a_folder, 2, "config.yaml is a folder, not a regular file"),
    "env.json": (replaced_by_a_folder, 2, "env.json is a folder, not a regular file"),
    "result.json": (replaced_by_a_folder, 2, "result.json is a folder, not a regular file"),
    "train.log": (replaced_by_a_folder, 2, "train.log is a folder, not a regular file"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_files_of_a_cut_off_run_may_be_anything(cut_off, whole, name):
    """Said in words; the run goes on once they are as they were."""
    damage, code, words = OTHERS[name]
    path = cut_off / name.split()[0]
    content = path.read_bytes() if path.exists() else None
    damage(path)
    answer = command(*OWN, cwd=cut_off.parent)
    assert answer.code == code, answer.err
    assert words in " ".join(answer.err.split())
    if code:
        if path.is_dir():
            path.rmdir()
        if content is not None:
            path.write_bytes(content)
        assert command(*OWN, cwd=cut_off.parent).code == 0
    assert_same_run(cut_off, whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", [".lock", "status.json odd", ".status.json.tmp"])
def test_a_sweep_tells_what_keeps_a_job_from_going_on(tmp_path, monkeypatch, name):
    """And not how the job was cut off before."""
    arguments = ("-m", *OWN[:-1], "seed=0,1", "hydra.sweep.dir=sweep")
    with monkeypatch.context() as patch:
        stopping(patch, STOPPED, signal.SIGTERM)
        assert command(*arguments, cwd=tmp_path).code == 143
    (status,) = tmp_path.rglob("status.json")
    OTHERS[name][0](status.parent / name.split()[0])
    answer = command(*arguments, cwd=tmp_path)
    assert answer.code == 1
    said = " ".join((answer.err + answer.out).split())
    assert OTHERS[name][2].split(":")[0] in said
    assert "1 DONE" in said


@pytest.mark.slow
def test_a_lock_that_has_become_a_folder_keeps_no_other_run_from_starting(tmp_path, monkeypatch):
    """A new run looks at those of the same configuration that were cut off."""
    with monkeypatch.context() as patch:
        stopping(patch, STOPPED, signal.SIGTERM)
        assert command(*OWN[:-1], cwd=tmp_path).code == 143
    (lock,) = tmp_path.rglob(".lock")
    replaced_by_a_folder(lock)
    answer = command(*OWN[:-1], cwd=tmp_path)
    assert answer.code == 0
    assert "resuming" not in answer.out


@pytest.mark.slow
def test_lines_after_the_checkpoint_may_be_damaged(cut_off, whole):
    """They are written again."""
    with open(cut_off / "metrics.jsonl", "ab") as file:
        file.write(b'{"step": 14, "loss/train": 1}\n\0\0\0{"ste')
    assert_goes_on(cut_off, whole)


def test_two_damaged_checkpoints_are_refused_and_one_put_back_is_gone_on_from(cut_off, whole):
    folder, kept = cut_off / "checkpoints", cut_off.parent / "kept"
    shutil.copytree(folder, kept)
    for path in folder.iterdir():
        path.write_bytes(b"")
    answer = command(*OWN, cwd=cut_off.parent)
    assert answer.code == 2
    assert "last.pt is empty" in answer.err
    assert "previous.pt is empty" in answer.err
    assert read(cut_off / "status.json")["status"] == "INTERRUPTED"
    shutil.copy(kept / "last.pt", folder / "last.pt")
    assert_goes_on(cut_off, whole)


@pytest.mark.slow
def test_a_checkpoint_that_has_become_a_folder(cut_off, whole):
    """Refused in words before work starts, since nothing could take the folder's place."""
    last = cut_off / "checkpoints" / "last.pt"
    last.unlink()
    last.mkdir()
    answer = command(*OWN, cwd=cut_off.parent)
    assert answer.code == 2
    assert "last.pt is a folder, not a regular file" in " ".join(answer.err.split())
    last.rmdir()
    assert command(*OWN, cwd=cut_off.parent).code == 0
    assert (cut_off / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


@pytest.mark.slow
def test_a_checkpoint_from_before_logs_had_marks_is_gone_on_from(cut_off, whole):
    path = cut_off / "checkpoints" / "last.pt"
    state = checkpoint.load(path)
    del state["log"]
    checkpoint.save(path, state)
    assert_goes_on(cut_off, whole)


@pytest.mark.slow
def test_a_member_of_a_group_with_a_damaged_log_ends_no_other(tmp_path, monkeypatch):
    own = ("strategy=rewrite", *LONG)
    requests = [Request(compose(*own, f"seed={seed}"), tmp_path / str(seed)) for seed in range(3)]
    with monkeypatch.context() as patch:
        stop_at(patch, STOPPED)
        with pytest.raises(KeyboardInterrupt):
            run_group(requests)
    (tmp_path / "1" / "metrics.jsonl").write_bytes(b"")
    first, bad, third = run_group(requests)
    assert (first.status, third.status) == ("DONE", "DONE")
    assert "ends before step 13" in str(bad)
    assert read(tmp_path / "1/status.json")["status"] == "INTERRUPTED"


SWEEP = ("-m", "seed=0,1", "hydra.sweep.dir=sweep", "hydra.sweep.subdir=${seed}")
PRESET = "# @package _global_\nhydra: {run: {dir: run}}\n"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("run/status.json", ("hydra.run.dir=run",)),
        ("run/status.json", ("hydra.run.dir=run", "dry_run=true")),
        ("run/status.json", ("experiment=here",)),  # where another cut-off run could be gone on with
        ("sweep/1/status.json", SWEEP),
        pytest.param("sweep/1/status.json", (*SWEEP, "hydra/sweeper=basic"), marks=pytest.mark.slow),
        ("sweep/manifest.json", SWEEP),
        ("sweep/manifest.json", (*SWEEP, "hydra/sweeper=basic")),
    ],
)
def test_a_file_of_somebody_else_is_named_once_in_words_and_left_alone(tmp_path, name, arguments):
    conf = shutil.copytree(CONF, tmp_path / "conf")
    (conf / "experiment/here.yaml").write_text(PRESET)
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    file.write_text('{"status": "green"}')
    answer = command(*SHORT, *arguments, cwd=tmp_path, conf=conf)
    assert answer.code in (1, 2)
    (line,) = [line for line in answer.err.splitlines() if not line.startswith("Error executing job")]
    assert line.startswith(f"error: {file} is not ")
    assert line.count(str(file.parent)) == 1
    assert "Error" not in line
    assert file.read_text() == '{"status": "green"}'
    assert [path.parent.name for path in tmp_path.rglob("result.json")] in ([], ["0"])
