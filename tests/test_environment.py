"""`env.json`: complete, and never in the way."""

import json
import subprocess

import pytest
import torch

from experiments.tracking import environment as module
from experiments.tracking.environment import environment
from experiments.tracking.strict_json import write_json


def describe(source=None):
    return environment(["train.py", "seed=0"], 1, "cpu", {"digits/train": "abc"}, "stacked of 2", source)


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_it_holds_what_the_result_depends_on(tmp_path):
    found = describe()
    names = ["versions", "platform", "cpu", "git", "argv", "threads", "device", "gpu", "engine", "data_hashes"]
    assert list(found) == names
    assert found["versions"]["torch"].count(".") == 2
    assert found["cpu"]["cores"] >= 1
    assert found["cpu"]["instructions"] in torch.__config__.show()  # "CPU capability usage: AVX2"
    assert (found["gpu"], found["engine"]) == (None, "stacked of 2")
    assert found["argv"] == ["train.py", "seed=0"]
    assert found["data_hashes"] == {"digits/train": "abc"}
    write_json(tmp_path / "env.json", found)
    assert json.loads((tmp_path / "env.json").read_text()) == found


def test_the_commit_and_whether_the_files_differ_from_it(tmp_path):
    assert describe(tmp_path)["git"] == {"commit": None, "dirty": None}
    git(tmp_path, "init", "-q")
    assert describe(tmp_path)["git"] == {"commit": None, "dirty": False}
    (tmp_path / "a b μ.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert describe(tmp_path)["git"] == {"commit": head, "dirty": False}
    (tmp_path / "strategy.py").write_text("new, and not added")
    assert describe(tmp_path)["git"] == {"commit": head, "dirty": True}


@pytest.mark.parametrize("failure", ["missing", "slow", "broken"])
def test_git_may_be_missing_slow_or_broken(tmp_path, monkeypatch, failure):
    (tmp_path / ".git").write_text("")
    scripts = {"slow": "#!/bin/sh\nexec sleep 5\n", "broken": "#!/bin/sh\nexit 3\n"}
    if failure in scripts:
        (tmp_path / "git").write_text(scripts[failure])
        (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}" if failure == "missing" else f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(module, "_GIT_TIMEOUT", 0.2)
    assert describe(tmp_path)["git"] == {"commit": None, "dirty": None}
