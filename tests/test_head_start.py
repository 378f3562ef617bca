"""The jobs of a sweep that another process composes while torch is imported: the same jobs, or none."""

import json
import os
import pickle
import subprocess
import sys

import pytest

from runs import CONF, ROOT

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is no core for it")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
OWN = ["-m", "strategy=ste,smooth", "seed=0,1", "max_steps=2"]
SCRIPT = f"""
import json, os, sys
from pathlib import Path
sys.modules["torch"] = None  # neither process could import it
from experiments.sweep.head_start import HeadStart
told = []
for line in json.loads(sys.argv[1]):
    sys.argv = ["train.py", *line]
    task = object()
    sweeper = HeadStart(Path({str(CONF)!r})).sweeper(task)
    assert sweeper is None or sweeper.task_function is task
    told.append(sweeper and [[list(key), config.seed] for key, config in sweeper.composer.ready.items()])
print(json.dumps(told))
"""


def composed(*lines):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(lines)], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_all_jobs_are_composed_without_torch():
    (jobs,) = composed(OWN)
    assert jobs == [
        [[f"strategy={name}", f"seed={seed}", "max_steps=2"], seed] for name in ("ste", "smooth") for seed in (0, 1)
    ]


@pytest.mark.slow
def test_where_there_is_no_such_sweep_or_something_is_wrong_nothing_is_composed(tmp_path):
    lines = [
        ["strategy=ste"],
        ["-m", "seed=0,1", "hydra/sweeper=basic", f"hydra.sweep.dir={tmp_path}"],
        ["-m", "seed=0,1", "+hydra.callbacks.one._target_=hydra.experimental.callback.Callback"],
        ["-m", "seed=0,1", "hydra.verbose=true"],
        ["-m", "no_such_key=0,1"],
        ["-m", "seed=0,1", "--cfg", "job"],
        ["-m", "seed='"],
    ]
    assert composed(*lines) == [None] * len(lines)
    assert not list(tmp_path.iterdir())


def test_what_was_sent_in_part_is_nothing(monkeypatch):
    from experiments.sweep import head_start

    def half(conf, pipe):
        whole = pickle.dumps({"a": 1})
        os.write(pipe, whole[: len(whole) // 2])
        os._exit(0)

    monkeypatch.setattr(head_start, "_compose", half)
    monkeypatch.setattr(sys, "argv", ["train.py", "-m", "seed=0,1"])
    assert head_start.HeadStart(CONF).sweeper(None) is None


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("hydra.sweep.dir=runs/${now:%H-%M-%S_%f}",)])
@pytest.mark.parametrize("launcher", ["basic", "stacked", "joblib"])
def test_a_sweep_is_the_same_with_one_core_where_nothing_is_composed_ahead(tmp_path, launcher, more):
    if launcher == "joblib":
        pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    cores = sorted(os.sched_getaffinity(0))

    def swept(name, own):
        home = tmp_path / name
        home.mkdir()
        line = [sys.executable, str(ROOT / "train.py"), *OWN, f"hydra/launcher={launcher}", "workers=1", *more]
        done = subprocess.run(
            line, cwd=home, env=ENVIRONMENT, capture_output=True, preexec_fn=lambda: os.sched_setaffinity(0, own)
        )
        assert done.returncode == 0
        files = {str(path.relative_to(home)): path for path in home.rglob("*") if path.suffix in (".yaml", ".jsonl")}
        (root,) = home.glob("runs/*")
        manifest = (root / "manifest.json").read_bytes()
        own = str(root.relative_to(home))
        texts = {name: path.read_text().replace(str(home), "") for name, path in files.items()}
        return {name.replace(own, "root"): text.replace(own, "root") for name, text in texts.items()}, manifest

    one, two = swept("one", cores[:1]), swept("two", cores)
    assert len(two[0]) == 4 * 5
    assert one == two
