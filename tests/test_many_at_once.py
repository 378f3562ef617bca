"""Processes that want the same at the same time."""

import subprocess

import pytest
from test_cli import ENVIRONMENT, TRAIN

from run_contents import assert_same_run
from runs import SHORT, lines, read

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, "env": ENVIRONMENT}


def started(cwd, *arguments):
    return subprocess.Popen([*TRAIN, *SHORT, *arguments], cwd=cwd, **QUIET)


@pytest.mark.nightly
def test_sixteen_runs_at_once_into_one_root(tmp_path):
    running = [started(tmp_path, "resume=never") for _ in range(16)]
    errors = [process.communicate(timeout=300)[1] for process in running]
    assert [process.returncode for process in running] == [0] * 16, errors
    folders = [path.parent for path in tmp_path.rglob("status.json")]
    assert len(folders) == 16
    for folder in folders:
        assert_same_run(folder, folders[0])


@pytest.mark.slow
def test_two_processes_on_one_folder_the_second_is_refused(tmp_path):
    """Neither spoils the other's files: one run, its log whole."""
    running = [started(tmp_path, "hydra.run.dir=run", "max_steps=400") for _ in range(2)]
    errors = {process.communicate(timeout=120)[1]: process.returncode for process in running}
    assert sorted(errors.values()) == [0, 2], errors
    (refusal,) = [text for text, code in errors.items() if code == 2]
    assert "is in use by a live run" in refusal or "is over (DONE)" in refusal
    assert [line["step"] for line in lines(tmp_path / "run")] == list(range(1, 401))


@pytest.mark.nightly
def test_generated_data_by_several_processes_are_the_same(tmp_path):
    running = [started(tmp_path, "data=mnist1d", f"hydra.run.dir={index}") for index in range(4)]
    assert [process.wait(timeout=300) for process in running] == [0] * 4
    assert len({str(read(path)["data_hashes"]) for path in tmp_path.glob("*/env.json")}) == 1
