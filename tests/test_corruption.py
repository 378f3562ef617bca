"""Every file of a run folder, damaged or replaced in every way: readers give the right numbers or name it."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("scipy")

import experiments
from experiments.compare.reading.collection import NoRuns, collect
from experiments.compare.reading.learning_curves import read_curves
from experiments.config.choices import ConfigError
from experiments.diagnostics.diagnostics import Diagnostics
from experiments.evaluate import main as evaluate
from experiments.tracking.checkpoint import CheckpointError
from experiments.training.trainer import Trainer
from run_contents import assert_same_run
from runs import command

OWN = ("strategy=rewrite", "max_steps=12", "log_every=2", "eval_every=4", "model.width=8", "diagnostics=truth")
STOPPED = 9
SECONDS = 300  # within which every reader answers, also on a busy machine
FLIPS = 20
SPARSE = 2**38  # bytes: 256 GB that take no room
ALIASES = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10 if n else ['x'] * 10)}]\n" for n in range(8))
FILES = (
    ".lock",
    "status.json",
    "config.yaml",
    "env.json",
    "metrics.jsonl",
    "diagnostics.jsonl",
    "train.log",
    "result.json",
    "test_outcomes.json",
    ".hydra/config.yaml",
    ".hydra/overrides.yaml",
    "events",
    "checkpoints/last.pt",
    "checkpoints/previous.pt",
    "checkpoints/best.pt",
)


@pytest.fixture(scope="module", autouse=True)
def _quick_diagnostics() -> Iterator[None]:
    """Their numbers do not matter here, their file does; measuring takes ten times as long as training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Diagnostics, "measure", lambda self, model, batch, step: {"truth/gradient_norm": 1.0 / step})
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run and one that was stopped, and those of another seed, made by the command."""
    root = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.training.session.CHECKPOINT_SECONDS", 0.0)
        patch.setattr("experiments.training.session.SHARE", float("inf"))
        for name, seed in (("whole", 0), ("foreign_whole", 1)):
            assert command(*OWN, f"seed={seed}", f"hydra.run.dir={name}", cwd=root).code == 0
        advance = Trainer.advance

        def stopping(self: Trainer) -> Any:
            if self.step == STOPPED:
                os.kill(os.getpid(), signal.SIGTERM)
            return advance(self)

        patch.setattr(Trainer, "advance", stopping)
        for name, seed in (("stopped", 0), ("foreign_stopped", 1)):
            assert command(*OWN, f"seed={seed}", f"hydra.run.dir={name}", cwd=root).code == 143
    return {folder.name: folder for folder in root.iterdir()}


def place(folder: Path, name: str) -> Path | None:
    """Where a file of a run is; None if the run has none."""
    found = next(folder.glob("events.*"), None) if name == "events" else folder / name
    return found if found is not None and found.exists() else None


def damages(path: Path, foreign: Path | None, elsewhere: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every kind of damage to a file, with what does it."""
    content = path.read_bytes()

    def emptied(make: Callable[[], object]) -> Callable[[], object]:
        return lambda: (path.unlink(), make())

    if content:
        yield "cut short", lambda: path.write_bytes(content[: len(content) // 2])
        for number in range(FLIPS):
            at = number * (len(content) - 1) // (FLIPS - 1)
            bad = content[:at] + bytes([content[at] ^ 1 << number % 8]) + content[at + 1 :]
            yield f"bit {number}", lambda bad=bad: path.write_bytes(bad)
        yield "empty", lambda: path.write_bytes(b"")
    yield "folder", emptied(path.mkdir)
    yield "link", emptied(lambda: (elsewhere.write_bytes(content), path.symlink_to(elsewhere)))
    yield "FIFO", emptied(lambda: os.mkfifo(path))
    if foreign is not None:
        yield "foreign", lambda: shutil.copy(foreign, path)
    if path.suffix == ".yaml":
        yield "bomb", lambda: path.write_text(ALIASES)
    elif path.suffix == ".json":
        yield "bomb", lambda: path.write_text("[" * 500_000)
    else:
        yield "bomb", lambda: os.truncate(path, SPARSE)


@contextlib.contextmanager
def soon() -> Iterator[None]:
    """Fails where a reader waits."""

    def late(*_: object) -> None:
        raise AssertionError(f"no answer within {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def contents(folder: Path, but: Path) -> dict[str, bytes]:
    """The bytes of all files of a folder except `but`, and those that say how a run ended."""
    left_out = (but, folder / "status.json", folder / "train.log")
    files = (file for file in sorted(folder.rglob("*")) if file not in left_out and file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def resume(folder: Path, bad: Path, runs: dict[str, Path]) -> str:
    """The same command; where it is refused, nothing is lost, and it resumes once the file is put back."""
    line = (*OWN, "seed=0", "hydra.run.dir=run")
    before = contents(folder, bad)
    answer = command(*line, cwd=folder.parent)
    if answer.code:
        assert answer.code == 2, answer.err
        assert bad.name in "".join(answer.err.split()), answer.err
        assert contents(folder, bad) == before
        shutil.rmtree(bad) if bad.is_dir() and not bad.is_symlink() else bad.unlink()
        shutil.copy(runs["stopped"] / bad.relative_to(folder), bad)
        again = command(*line, cwd=folder.parent)
        assert again.code == 0, again.err
    assert_same_run(folder, runs["whole"])
    return "refused" if answer.code else "right"


def compare(folder: Path, bad: Path, runs: dict[str, Path]) -> str:
    """The record and the curves of the run are those of the sound one, or a note names the file."""
    found, said = None, ""
    try:
        found = collect([folder])
    except NoRuns as none:
        said = str(none)
    if found is None:
        assert bad.name in said
        return "refused"
    (run,), (sound,) = found.runs, collect([runs["whole"]]).runs
    curves, expected = read_curves(run), read_curves(sound)
    assert dataclasses.replace(run, path=sound.path) == sound
    if curves.problems:
        assert bad.name in curves.problems[0]
        assert not curves.curves
        return "refused"
    assert curves.curves.keys() == expected.curves.keys()
    for tag, pair in curves.curves.items():
        assert all((mine == own).all() for mine, own in zip(pair, expected.curves[tag], strict=True))
    return "right"


def load(folder: Path, bad: Path, runs: dict[str, Path]) -> str:
    """Both models are the sound run's, or an error names the file."""
    faults = []
    for which in ("best", "last"):
        try:
            state = experiments.load(folder, which).state_dict()
        except (FileNotFoundError, ConfigError, CheckpointError) as error:
            faults.append(str(error))
        else:
            for name, value in experiments.load(runs["whole"], which).state_dict().items():
                assert torch.equal(value, state[name])
    assert all(bad.name in fault for fault in faults), faults
    return "refused" if faults else "right"


def score(folder: Path, bad: Path, runs: dict[str, Path]) -> str:
    """The command prints the sound run's scores, or names the file."""
    out, err, sound = io.StringIO(), io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = evaluate([str(folder)])
    if code:
        assert code == 2
        assert bad.name in err.getvalue()
        return "refused"
    with contextlib.redirect_stdout(sound):
        evaluate([str(runs["whole"])])
    assert out.getvalue().splitlines()[1:] == sound.getvalue().splitlines()[1:]
    return "right"


READERS = {"resume": resume, "compare": compare, "load": load, "evaluate": score}
SOME = {  # of these a few kinds of damage are always tried
    ("compare", "config.yaml"): ("bomb", "foreign", "FIFO"),
    ("compare", "metrics.jsonl"): ("bomb", "foreign", "bit 3"),
    ("compare", "result.json"): ("link", "foreign", "bit 9"),
    ("load", "config.yaml"): ("bomb", "foreign", "bit 5"),
    ("load", "checkpoints/best.pt"): ("bomb", "foreign", "FIFO"),
    ("evaluate", "checkpoints/best.pt"): ("foreign",),
}


def cases(reader: str, name: str, runs: dict[str, Path], root: Path, kinds: tuple[str, ...] = ()) -> dict[str, int]:
    """Tries all kinds of damage to a file, or `kinds`; counts how its reader answered."""
    origin = "stopped" if reader == "resume" else "whole"
    folder, counts = root / "run", {"right": 0, "refused": 0}
    model = place(runs[origin], name)
    if model is None:
        return counts
    bad, foreign = folder / model.relative_to(runs[origin]), place(runs[f"foreign_{origin}"], name)
    shutil.copytree(runs[origin], folder)
    todo = [kind for kind, _ in damages(bad, foreign, root / "elsewhere") if not kinds or kind in kinds]
    for kind in todo:
        shutil.rmtree(folder)
        shutil.copytree(runs[origin], folder)
        dict(damages(bad, foreign, root / "elsewhere"))[kind]()
        try:
            with soon():
                counts[READERS[reader](folder, bad, runs)] += 1
        except BaseException as error:
            error.add_note(f"{reader} of a run whose {name} is damaged: {kind}") if hasattr(error, "add_note") else None
            raise
        if kind == "link":
            assert (root / "elsewhere").read_bytes() == model.read_bytes()
    return counts


@pytest.mark.slow
@pytest.mark.parametrize(("reader", "name"), SOME)
def test_a_damaged_file_is_named_or_does_no_harm(tmp_path, runs, reader, name):
    counts = cases(reader, name, runs, tmp_path, SOME[reader, name])
    assert counts == {"right": 0, "refused": len(SOME[reader, name])}


@pytest.mark.nightly
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", FILES)
def test_every_file_damaged_in_every_way(tmp_path, runs, record_property, reader, name):
    counts = cases(reader, name, runs, tmp_path)
    if counts["right"] + counts["refused"]:
        record_property("read right, refused by name", f"{counts['right']}, {counts['refused']}")
