"""A stack that was cut off goes on with the same members in the same places, and each run is the uninterrupted one."""

import dataclasses
import json
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from sweep_kills import Sweep, assert_kills_change_nothing

from experiments.stacked.members import Member, group_by_step
from experiments.stacked.run import run_group
from experiments.sweep.arrange import arrange
from experiments.sweep.manifest import NAME, read_stacks, update_stacks
from experiments.sweep.plan import make_job
from experiments.tracking.run_status import FAILED
from experiments.training import session
from experiments.training.run import Request
from runs import command, compose, in_a_process, read, rewrite_status, tree

QUICK = ("hydra/launcher=stacked", "engine=stacked", "max_steps=12", "eval_every=3", "log_every=2", "model.width=8")


def sweep(engine="stacked", workers=2):
    shared = ("strategy=ste,smooth", "seed=range(5)", "max_steps=500", "eval_every=20", "model.width=8")
    return (*shared, "hydra/launcher=stacked", f"engine={engine}", f"workers={workers}")


def places(seeds, stacks, *overrides, workers=1, failed=()):
    """The seeds, None for a run that is over, in the slots of each stack, and the engines."""
    jobs = []
    for seed in seeds:
        own = (f"seed={seed}", "model.width=8", "engine=stacked", "retry=failed", *overrides)
        job = make_job(seed, own, Path(str(seed)), compose(*own))
        jobs.append(dataclasses.replace(job, state=FAILED) if seed in failed else job)
    units = arrange(jobs, workers, stacks)
    numbers = [tuple(None if job is None else job.number for job in unit.slots) for unit in units]
    return dict(zip(numbers, (unit.engine for unit in units), strict=True))


@pytest.mark.slow
def test_jobs_stay_in_the_stack_they_were_in():
    stacks = []
    first, second = (0, 1, 2, 3, 4), (5, 6, 7, 8)
    assert places(range(9), stacks, workers=2) == {first: "stacked", second: "stacked"}
    noted = list(stacks)
    assert [len(stack) for stack in noted] == [5, 4]
    assert places([8, 1, 3], stacks, workers=8) == {(None, 1, None, 3, None): "stacked", (None,) * 3 + (8,): "stacked"}
    assert stacks == noted
    assert places([1, 9, 10], stacks) == {(None, 1, None, None, None): "stacked", (9, 10): "stacked"}
    assert places([1, 3], stacks, "engine=auto") == {(None, 1, None, 3, None): "stacked"}
    assert places([1, 3], stacks, "engine=single") == {(1,): "single", (3,): "single"}
    assert places([1, 3], stacks, "optimizer.lr=0.3") == {(1, 3): "stacked"}  # other runs


def test_jobs_made_anew_make_a_stack_of_their_own():
    """And belong to that one from then on; the others keep the one they had."""
    stacks = []
    places(range(5), stacks)
    assert places([1, 2, 3], stacks, failed=(1, 3)) == {(None, None, 2, None, None): "stacked", (1, 3): "stacked"}
    assert places([1, 2, 3], stacks) == {(None, None, 2, None, None): "stacked", (1, 3): "stacked"}


def test_stacks_are_noted_beside_the_jobs(tmp_path):
    old, new = ("a", "b", "c"), ("b", "d")
    with update_stacks(tmp_path) as stacks:
        stacks += [old, new]
    assert read_stacks(tmp_path) == [old, new]
    with update_stacks(tmp_path) as stacks:
        assert stacks == [old, new]
        stacks += [("c", "a"), old]
    assert read_stacks(tmp_path) == [new, old]  # no run belongs to the third any more
    listed = json.loads((tmp_path / NAME).read_text())["stacks"]
    assert listed == [{"engine": "stacked", "members": list(stack)} for stack in (new, old)]
    for wrong in ("[]", "[{}]", '{"engine": "stacked", "members": []}', "3"):
        (tmp_path / NAME).write_text(f'{{"jobs": [], "stacks": [{wrong}, 1]}}')
        with pytest.raises(ValueError, match="is not the manifest of a sweep"):
            read_stacks(tmp_path)


def group(folder, *overrides, present=range(4)):
    """Trains those of four runs as one stack that are `present`; the others only have their places."""
    own = ("component=hard_max", "model.width=8", "max_steps=12", "eval_every=3", "log_every=2", *overrides)
    requests = [Request(compose(*own, f"seed={seed}"), folder / str(seed), quiet=True) for seed in range(4)]
    return run_group([request if seed in present else None for seed, request in enumerate(requests)])


def results(folder):
    return {name: content for name, content in tree(folder).items() if name.endswith((".jsonl", "result.json"))}


@pytest.mark.parametrize("present", [(1, 3), (2,)])
def test_a_replica_does_not_depend_on_what_else_is_in_its_stack(tmp_path, present):
    assert [ending.status for ending in group(tmp_path / "all")] == ["DONE"] * 4
    assert [ending.status for ending in group(tmp_path / "some", present=present)] == ["DONE"] * len(present)
    some, everything = results(tmp_path / "some"), results(tmp_path / "all")
    assert len(some) == 2 * len(present)
    assert some == {name: everything[name] for name in some}


@pytest.mark.parametrize(
    ("saved", "resumed"),
    [
        ([(9, 6), (9, 6)], {9: [0, 1]}),
        ([(9, 6), (6, 3), (9, 6)], {6: [0, 1, 2]}),
        ([(9, 6), (3,)], {3: [1], 9: [0]}),  # nine steps and three are no more than all twelve
        ([(8, 5), (3,)], {0: [0, 1]}),
        ([(6, 3), ()], {0: [0, 1]}),
    ],
)
def test_runs_of_a_stack_resume_from_the_newest_step_that_all_have(monkeypatch, saved, resumed):
    """Apart, or all from the start, where that takes fewer steps; twelve in all."""
    put_back = []
    monkeypatch.setattr(
        "experiments.tracking.checkpoint.go_back", lambda folder, to_start: put_back.append((folder, to_start))
    )
    choices = SimpleNamespace(settings=SimpleNamespace(max_steps=12))
    members = []
    for number, steps in enumerate(saved):
        states = [{"trainer": {"step": step}} for step in steps]
        members.append(Member(number, None, choices, None, SimpleNamespace(checkpoints=number), states))
    found = {}
    for some in group_by_step(members):
        (step,) = {state["trainer"]["step"] for member in some for state in member.states} or {0}
        found[step] = [member.number for member in some]
    assert found == resumed
    step_of = {number: step for step, some in resumed.items() for number in some}
    newest = {number: (steps or (0,))[0] for number, steps in enumerate(saved)}
    assert sorted(put_back) == [(n, step_of[n] == 0) for n in newest if newest[n] != step_of[n]]


@pytest.mark.slow
def test_a_run_that_cannot_have_its_folder_keeps_its_place_too(tmp_path):
    group(tmp_path / "all")
    (tmp_path / "some/1").mkdir(parents=True)
    (tmp_path / "some/1/mine.txt").touch()
    endings = group(tmp_path / "some")
    assert "has files (mine.txt, ...) but no run" in str(endings[1])
    some, everything = results(tmp_path / "some"), results(tmp_path / "all")
    assert some == {name: everything[name] for name in some}
    assert len(some) == 6


@pytest.mark.slow
def test_failed_jobs_are_made_anew_if_asked_and_no_others(tmp_path):
    own = ("-m", "seed=0,1,2", "optimizer.lr=0.1,1e30", *QUICK, "workers=1")
    assert command(*own, cwd=tmp_path).out.splitlines()[-1] == "3 DONE, 3 FAILED"
    before = tree(tmp_path)
    assert "0 to run, 3 already done" in command(*own, cwd=tmp_path).out
    assert tree(tmp_path) == before
    shown = command(*own, "retry=failed", "dry_run=true", cwd=tmp_path)
    assert shown.out.count("run again: FAILED") == 3
    assert "3 runs train as 1 stack of 3 (engine=stacked)" in shown.out
    answer = command(*own, "retry=failed", cwd=tmp_path)
    assert answer.code == 1
    assert answer.out.splitlines()[-1] == "3 DONE, 3 FAILED"
    after = tree(tmp_path)
    changed = {name for name in before if before[name] != after.get(name)}
    assert {name for name in changed if name.endswith("status.json")} == {
        name for name in before if name.endswith("status.json") and b'"FAILED"' in before[name]
    }
    assert [len(stack) for stack in read_stacks(tmp_path / "runs" / os.listdir(tmp_path / "runs")[0])] == [6, 3]


@pytest.mark.slow
def test_a_dry_run_shows_the_stacks_that_were_cut_off(tmp_path):
    """With one member gone to its end before, as after a kill while the results are written."""
    own = ("-m", "seed=range(3)", *QUICK, "workers=1")
    assert command(*own, cwd=tmp_path).code == 0
    states = sorted(tmp_path.rglob("status.json"))
    for path in states[:2]:
        rewrite_status(path.parent, status="RUNNING")
    before = tree(tmp_path)
    shown = command(*own, "dry_run=true", cwd=tmp_path)
    assert "2 runs train as 1 stack of 3 (listed in manifest.json)" in " ".join(shown.out.split())
    assert (shown.out.count("  resume"), shown.out.count("skip: DONE")) == (2, 1)
    assert tree(tmp_path) == before
    assert command(*own, cwd=tmp_path).out.splitlines()[-1] == "3 DONE"
    after = tree(tmp_path)
    assert results(tmp_path) == {name: before[name] for name in results(tmp_path)}
    over = str(states[2].relative_to(tmp_path))
    assert after[over] == before[over]


@pytest.mark.slow
def test_cells_that_do_not_exist_are_listed_and_in_no_stack(tmp_path):
    own = ("component=binary", "strategy=ste,rewrite", "seed=0,1", *QUICK, "workers=1")
    shown = command("-m", *own, "dry_run=true", cwd=tmp_path)
    assert shown.out.count("skip: NOT_APPLICABLE") == 2
    assert "2 runs train as 1 stack of 2" in shown.out
    answer = command("-m", *own, cwd=tmp_path)
    assert (answer.code, answer.out.splitlines()[-1]) == (0, "2 DONE, 2 NOT_APPLICABLE")
    (root,) = (tmp_path / "runs").iterdir()
    assert [len(stack) for stack in read_stacks(root)] == [2]


def die_at(folder, own, call):
    """Runs a command that saves at each evaluation, and dies at that call of `os.replace`, before it: with every file
    of a run there are such."""
    session.CHECKPOINT_SECONDS, session.SHARE = 0.0, 1e9
    replace, calls = os.replace, 0

    def replace_or_die(*names, **more):
        nonlocal calls
        calls += 1
        if calls == call:
            os._exit(9)
        replace(*names, **more)

    os.replace = replace_or_die
    try:
        os._exit(command(*own, cwd=folder).code)
    finally:
        os._exit(77)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(63, marks=pytest.mark.slow),
        *(pytest.param(first, marks=pytest.mark.nightly) for first in (22, 31, 40, 79, 95)),
    ],
)
def test_killed_between_any_two_files(tmp_path, first):
    """While members have their first, or their next, or their last checkpoint, and while some are DONE already."""
    own = ("-m", "seed=0,1,2", "optimizer.lr=0.1,1e30", *QUICK, "workers=1")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    assert in_a_process(die_at, whole, own, None) == 1
    for call in (first, 25, 37, None):
        if in_a_process(die_at, killed, own, call) == 1:
            break
    assert results(killed) == results(whole)
    for path in whole.rglob("status.json"):
        assert read(killed / path.relative_to(whole))["status"] == read(path)["status"]


@pytest.mark.nightly
def test_killed_at_random_moments_a_sweep_of_stacks_ends_as_one_that_was_not(tmp_path, record_property):
    assert_kills_change_nothing(tmp_path, sweep("stacked"), 10)
    record_property("kills survived", 10)


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_two_workers_stopped_by_hand_leave_what_goes_on(tmp_path, number):
    """As Ctrl-C does it: to all processes of the terminal. Nothing of the command is left over."""
    whole, stopped = Sweep(tmp_path / "whole", *sweep()), Sweep(tmp_path / "stopped", *sweep())
    whole.end()
    running = stopped.start()
    while len(list((tmp_path / "stopped").rglob("last.pt"))) < 10:
        assert running.poll() is None
        time.sleep(0.01)
    assert len(stopped.left()) == 3
    os.killpg(running.pid, number)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (128 + number, "stopped; run the same command to resume\n")
    assert stopped.left() == []
    assert stopped.statuses() == ["INTERRUPTED"] * 10
    assert out.splitlines()[-1] == "10 INTERRUPTED"
    assert stopped.end() == "10 DONE"
    stopped.assert_same_runs(whole)


@pytest.mark.nightly
def test_two_sweeps_of_stacks_of_the_same_second_into_one_root(tmp_path):
    """Each job is made by one of them, in its place of the one stack that both know."""
    own = sweep(workers=1)
    alone, both = Sweep(tmp_path / "alone", *own), Sweep(tmp_path / "both", *own)
    alone.end()
    for running in [both.start() for _ in range(2)]:
        running.communicate(timeout=300)
    assert both.statuses() == ["DONE"] * 10
    both.assert_same_runs(alone)
    assert {len(list(path.parent.glob("events.out.*"))) for path in (tmp_path / "both").rglob("result.json")} == {1}
    assert len(read_stacks(tmp_path / "both/runs/one")) == 2
