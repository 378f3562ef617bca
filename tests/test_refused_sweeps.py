"""Sweeps that cannot be meant so are refused in words, with exit code 2, before anything is on the disk."""

import pytest

from runs import command

SHORT = ("max_steps=2", "eval_every=1", "model.width=8")
REFUSED = {
    "more than 100,000 values": ["seed=range(1000000000000)"],
    "would have 999,000 jobs": ["seed=range(1000)", "optimizer.lr=range(1,1000)"],
    "lists no value, so the sweep has no job": ["seed=range(0)"],
    "has the step 0": ["seed=range(0,5,0)"],
    "leave_out leaves no job": ["seed=0,1", "hydra.sweeper.leave_out=[{seed: [0, 1]}]"],
    "workers must be at least 1, got 0": ["seed=0,1", "workers=0"],
    "workers acts on the sweep as a whole": ["seed=0,1", "workers=1,2"],
    "on_error acts on the sweep as a whole": ["seed=0,1", "on_error=stop,continue"],
    "dry_run acts on the sweep as a whole": ["hydra.sweeper.points=[{dry_run: true}]"],
    "hydra.sweeper acts on the sweep as a whole": ["experiment=maxout,learned_range"],
    "is not below the sweep's root": ["seed=0,1", "hydra.sweep.subdir='../x/${seed}'"],
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", REFUSED)
def test_a_sweep_is_refused_in_words(tmp_path, fault):
    more = [] if fault.startswith("hydra.sweeper acts") else ["hydra.sweep.dir=runs/one"]
    for own in ([], ["dry_run=true"]) if "dry_run" not in fault else ([],):
        answer = command("-m", *REFUSED[fault], *more, *SHORT, *own, cwd=tmp_path)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("error: ")
        assert fault in answer.err
    assert list(tmp_path.iterdir()) == []


def test_two_presets_that_set_nothing_of_the_sweep_are_swept(tmp_path):
    answer = command("-m", "debug=one_batch,overfit", *SHORT, "dry_run=true", cwd=tmp_path)
    assert answer.code == 0, answer.err
    assert "2 of 2 jobs to run" in answer.out
