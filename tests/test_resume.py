"""Stopped at any moment and started again, a run ends with the numbers of one that was never stopped."""

import itertools
import json
import math
import os
import signal
import time

import pytest
import torch
from omegaconf import OmegaConf
from test_tensorboard import Board

from experiments.tracking import checkpoint
from experiments.training import record, session
from experiments.training.interruption import Interrupted
from experiments.training.record import Record
from experiments.training.trainer import Trainer
from run_contents import assert_same_run, last, same
from runs import command, in_a_process, lines, only_run, read, train, tree

LONG = ("max_steps=24", "log_every=2", "eval_every=4", "model.width=8", "model.batch_norm=true")
# All that has a state: momentum or moments, a schedule, clipping, noise, annealing, batch norm, learned ranges.
KINDS = {
    "noise": ("strategy=rewrite", "optimizer.clip_norm=0.5", "optimizer.warmup_steps=10"),
    "annealing": ("strategy=smooth", "optimizer=adam", "optimizer.schedule=cosine"),
    "learned": ("strategy=ste", "component.range=learned_step", "optimizer=adamw", "batch_size=100"),
    "fresh": ("data=mnist1d", "data.fresh=true", "data.test_samples=50", "batch_size=700", "component=floor"),
    "scaled": ("strategy=ste", "component=hard_gate", "precision=float16", "optimizer.nesterov=true"),
}


@pytest.fixture(autouse=True)
def _a_checkpoint_an_evaluation(monkeypatch):
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(session, "SHARE", math.inf)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Runs that nothing stopped, by kind."""
    made = {}

    def run(kind):
        if kind not in made:
            made[kind] = train(tmp_path_factory.mktemp(kind) / "run", *KINDS[kind], *LONG).folder
        return made[kind]

    return run


def assert_as_whole(folder, uninterrupted):
    """The same run, and one curve."""
    assert_same_run(folder, uninterrupted)
    board = Board(folder.parent)
    for tag in ("loss/train", "accuracy/val"):
        logged = [(record["step"], record[tag]) for record in lines(folder) if tag in record]
        points = [(step, value) for _, step, value in board.points(folder.name, tag)]
        assert points == [(step, pytest.approx(value)) for step, value in logged]
    (row,) = board.rows()
    assert [s["status"] for s in row["sessions"]] == ["STATUS_SUCCESS"]


def stopping(monkeypatch, step, *signals):
    """Sends signals to this process in one optimizer step; the last call wins."""
    advance = Trainer.advance

    def stopped(self):
        values = advance(self)
        if self.step == step:
            for number in signals:
                os.kill(os.getpid(), number)
        return values

    monkeypatch.setattr(Trainer, "advance", stopped)


@pytest.mark.parametrize(
    ("kind", "number", "step"),
    [
        ("noise", signal.SIGTERM, 13),
        pytest.param("annealing", signal.SIGINT, 12, marks=pytest.mark.slow),
        pytest.param("learned", signal.SIGUSR2, 1, marks=pytest.mark.slow),
        pytest.param("scaled", signal.SIGINT, 23, marks=pytest.mark.slow),
        pytest.param("noise", signal.SIGINT, 24, marks=pytest.mark.slow),
        pytest.param("fresh", signal.SIGINT, 8, marks=pytest.mark.slow),
    ],
)
def test_a_signal_stops_after_the_step_and_the_same_command_goes_on(tmp_path, monkeypatch, whole, kind, number, step):
    own = (*KINDS[kind], *LONG)
    with monkeypatch.context() as patch:
        stopping(patch, step, number)
        answer = command(*own, cwd=tmp_path)
    assert answer.code == 128 + number
    assert answer.err == "stopped; run the same command to resume\n"
    folder = only_run(tmp_path)
    status = read(folder / "status.json")
    assert (status["status"], status["error"]) == ("INTERRUPTED", f"stopped by {number.name}")
    assert last(folder)["step"] == step
    again = command(*own, cwd=tmp_path)
    assert again.code == 0
    assert f"resuming {folder} from step {step}" in again.out
    assert only_run(tmp_path) == folder
    assert_as_whole(folder, whole(kind))


@pytest.mark.slow
def test_a_second_signal_does_not_wait(tmp_path, monkeypatch, whole):
    """It breaks off inside a step, at whatever place; the run goes on from the checkpoint before."""
    own = (*KINDS["noise"], *LONG, f"hydra.run.dir={tmp_path}/a/run")
    with monkeypatch.context() as patch:
        stopping(patch, 15, signal.SIGINT, signal.SIGINT)
        assert command(*own, cwd=tmp_path).code == 130
    assert read(tmp_path / "a/run/status.json")["status"] == "INTERRUPTED"
    assert last(tmp_path / "a/run")["step"] == 12
    again = command(*own, cwd=tmp_path)
    assert again.code == 0
    assert f"resuming {tmp_path}/a/run from step 12\n" in again.out
    assert_as_whole(tmp_path / "a/run", whole("noise"))


@pytest.mark.parametrize("place", ["open", "finish"])
def test_a_signal_outside_the_loop_is_an_interruption_too(tmp_path, monkeypatch, whole, place):
    """While the run is set up, and after its last step."""
    own = (*KINDS["annealing"], *LONG)

    def interrupt(*_):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)

    with monkeypatch.context() as patch:
        if place == "open":
            patch.setattr("experiments.training.run.calibrate", interrupt)
        else:
            patch.setattr(session.Session, "_finish", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "a" / "run", *own)
    assert read(tmp_path / "a/run/status.json")["error"] == "stopped by SIGINT"
    assert train(tmp_path / "a" / "run", *own).status == "DONE"
    assert_as_whole(tmp_path / "a/run", whole("annealing"))


def test_a_signal_that_a_library_hides_behind_an_error_is_an_interruption_too(tmp_path, monkeypatch):
    """OmegaConf's clean-up raises if a signal arrives while it makes nodes of a mapping."""

    def hiding(*_):
        try:
            raise Interrupted(signal.SIGTERM)
        except Interrupted:
            raise AttributeError("half-made")  # noqa: B904

    with monkeypatch.context() as patch:
        patch.setattr(OmegaConf, "to_yaml", hiding)
        with pytest.raises(Interrupted):
            train(tmp_path / "run", *LONG)
    assert read(tmp_path / "run" / "status.json")["status"] == "INTERRUPTED"
    assert train(tmp_path / "run", *LONG).status == "DONE"


@pytest.mark.slow
def test_stopped_again_and_again(tmp_path, monkeypatch, whole):
    own = (*KINDS["noise"], *LONG)
    folder = tmp_path / "a" / "run"
    for step in (3, 4, 11, 20):
        with monkeypatch.context() as patch:
            stopping(patch, step, signal.SIGTERM)
            with pytest.raises(KeyboardInterrupt):
                train(folder, *own)
    assert train(folder, *own).status == "DONE"
    assert_as_whole(folder, whole("noise"))


PLACES = {
    "log": (Record, "write"),
    "replace": (os, "replace"),
    "save": (checkpoint, "save"),
    "evaluate": (session.Validation, "__call__"),
    "finish": (session.Session, "_finish"),
    "result": (record, "write_json"),
}


def die_at(place, count, cwd, arguments):
    """Runs a command and is killed at the n-th call of a place: before it, or after it for the result."""
    session.CHECKPOINT_SECONDS, session.SHARE = 0.0, math.inf
    owner, name = PLACES[place]
    original, left = getattr(owner, name), itertools.count(count - 1, -1)

    def counting(*given):
        here = next(left) == 0
        if here and place != "result":
            os.kill(os.getpid(), signal.SIGKILL)
        done = original(*given)
        if here:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(owner, name, counting)
    command(*arguments, cwd=cwd)


@pytest.mark.parametrize(
    ("kind", "place", "count"),
    [
        pytest.param("noise", "log", 8, marks=pytest.mark.slow),  # between a step and its line
        pytest.param("annealing", "replace", 9, marks=pytest.mark.slow),  # a file is written, not yet at its place
        pytest.param("learned", "result", 1, marks=pytest.mark.slow),  # the result is there, the status says RUNNING
        *(
            pytest.param(kind, place, count, marks=pytest.mark.nightly)
            for kind, (place, counts) in itertools.product(
                KINDS,
                {
                    "log": (1, 5, 13),
                    "replace": (1, 2, 5, 12, 16),
                    "save": (1, 3),
                    "evaluate": (1, 4),
                    "finish": (1,),
                }.items(),
            )
            for count in counts
        ),
    ],
)
def test_killed_and_resumed(tmp_path, whole, kind, place, count):
    own = (*KINDS[kind], *LONG)
    assert in_a_process(die_at, place, count, tmp_path, own) == -signal.SIGKILL
    found = list(tmp_path.rglob("status.json"))
    assert [read(path)["status"] for path in found] in (["RUNNING"], [])  # none before the first file is at its place
    assert command(*own, cwd=tmp_path).code == 0
    folder = next(path.parent for path in tmp_path.rglob("result.json"))
    assert folder in [path.parent for path in found] or not found
    assert_as_whole(folder, whole(kind))


def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, monkeypatch, whole, caplog):
    folder = tmp_path / "a" / "run"
    with monkeypatch.context() as patch:
        stopping(patch, 14, signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            train(folder, *KINDS["noise"], *LONG)
    path = folder / "checkpoints" / "last.pt"
    path.write_bytes(path.read_bytes()[:1000])
    assert train(folder, *KINDS["noise"], *LONG).status == "DONE"
    assert f"{path} is incomplete" in caplog.text
    assert_as_whole(folder, whole("noise"))


@pytest.mark.slow
def test_resume_never_starts_anew_and_leaves_the_cut_off_run(tmp_path, monkeypatch):
    own = (*KINDS["noise"], *LONG)
    with monkeypatch.context() as patch:
        stopping(patch, 5, signal.SIGTERM)
        assert command(*own, cwd=tmp_path).code == 143
    folder = only_run(tmp_path)
    before = tree(folder)
    answer = command(*own, "resume=never", cwd=tmp_path)
    assert answer.code == 0
    assert "resuming" not in answer.out
    assert tree(folder) == before
    refused = command(*own, "resume=never", f"hydra.run.dir={folder}", cwd=tmp_path)
    assert refused.code == 2
    assert "resume=auto resumes it" in refused.err
    assert tree(folder) == before


@pytest.mark.slow
def test_another_configuration_does_not_continue_the_run(tmp_path, monkeypatch):
    own = (*KINDS["noise"], *LONG)
    with monkeypatch.context() as patch:
        stopping(patch, 5, signal.SIGTERM)
        assert command(*own, cwd=tmp_path).code == 143
    assert "resuming" not in command(*own, "seed=1", cwd=tmp_path).out
    assert "resuming" in command(*own, cwd=tmp_path).out
    assert len(list(tmp_path.glob("runs/single/*/*"))) == 2  # Hydra's folder for the resumed run is gone


@pytest.mark.slow
def test_a_sweep_that_was_stopped_goes_on_with_what_is_missing(tmp_path, monkeypatch):
    arguments = ("-m", "strategy=ste,smooth", "seed=0,1", "max_steps=6", "model.width=8", "eval_every=2")
    counted = itertools.count()
    advance = Trainer.advance

    def stopped(self):
        if next(counted) == 10:  # in the second job
            os.kill(os.getpid(), signal.SIGINT)
        return advance(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", stopped)
        assert command(*arguments, cwd=tmp_path).code == 130
    statuses = [json.loads(path.read_text())["status"] for path in sorted(tmp_path.rglob("status.json"))]
    assert statuses == ["DONE", "INTERRUPTED"]
    answer = command(*arguments, cwd=tmp_path)
    assert answer.code == 0
    assert "4 jobs in" in answer.out
    assert "3 to run, 1 of them resumed, 1 already done" in answer.out
    assert "4 DONE" in answer.out
    assert [read(path)["status"] for path in tmp_path.rglob("status.json")] == ["DONE"] * 4
    assert all(any(path.iterdir()) for path in tmp_path.rglob("*") if path.is_dir())  # no empty folder is left


def test_the_state_of_a_checkpoint_is_all_there_is(whole):
    """Saved, restored into a new trainer, and saved again, it is the same: nothing is forgotten or kept elsewhere."""
    from experiments.config.choices import choose
    from experiments.data import load
    from experiments.training.build import build_model
    from runs import compose

    for kind, overrides in KINDS.items():
        choices = choose(compose(*overrides, *LONG))
        trainer = Trainer(build_model(choices), choices.optimizer, choices.settings, load(choices.data))
        trainer.restore([last(whole(kind))])
        assert same(trainer.state(0), last(whole(kind)))
        assert isinstance(trainer.state(0)["model"]["readout.weight"], torch.Tensor)
