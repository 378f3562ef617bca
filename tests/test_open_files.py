"""A stack is no larger than the limit of open files allows, and a soft limit that is too low is raised."""

import os
import resource
import subprocess

import pytest
from test_cli import ENVIRONMENT, TRAIN, statuses
from test_stacked_resume import group, places

from experiments.stacked.trainer import StackedTrainer
from experiments.sweep import arrange
from experiments.sweep.capacity import FILES_OF_A_RUN, OTHER_FILES, open_runs
from runs import in_a_process


def limits(soft, hard, wanted):
    """Exits with how many runs a process with these limits may hold."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = open_runs(wanted)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= min(hard, most * FILES_OF_A_RUN + OTHER_FILES)
    os._exit(most)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "most"),
    [(256, 256, 100, 64), (128, 512, 100, 100), (80, 80, 100, 5), (64, 64, 100, 1), (256, 256, 20, 20)],
)
def test_how_many_runs_fit_into_a_process(soft, hard, wanted, most):
    assert in_a_process(limits, soft, hard, wanted) == most


def test_stacks_are_split_by_the_limit_of_open_files(monkeypatch):
    """An interrupted stack keeps its slots in each part, so its runs keep their bits."""
    stacks = []
    assert list(places(range(5), stacks)) == [(0, 1, 2, 3, 4)]
    monkeypatch.setattr(arrange, "open_runs", lambda wanted: min(wanted, 3))
    assert list(places(range(5), stacks)) == [(0, 1, 2, None, None), (None, None, None, 3, 4)]
    assert sorted(map(len, places(range(5), []))) == [2, 3]


def test_a_run_of_a_stack_keeps_so_many_files_open(tmp_path, monkeypatch):
    counts = []
    advance = StackedTrainer.advance

    def count(self):
        counts.append(len(os.listdir("/proc/self/fd")))
        return advance(self)

    monkeypatch.setattr(StackedTrainer, "advance", count)
    before = len(os.listdir("/proc/self/fd"))
    group(tmp_path)
    assert max(counts) - before <= 4 * FILES_OF_A_RUN + 2


@pytest.mark.nightly
def test_a_hundred_runs_under_a_limit_of_256_files(tmp_path):
    own = ["-m", "seed=range(100)", "max_steps=2", "eval_every=2", "model.width=8", "component=relu"]
    line = [*TRAIN, *own, "hydra/launcher=stacked", "engine=stacked", "workers=1"]
    limited = ["bash", "-c", 'ulimit -n 256; exec "$@"', "-", *line]
    done = subprocess.run(limited, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "2 stacks of 50" in done.stdout
    assert "at most 64 runs a stack, because of the limit of open files" in " ".join(done.stdout.split())
    assert len(statuses(tmp_path)) == 100
