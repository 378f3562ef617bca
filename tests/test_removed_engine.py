"""engine=compiled, which earlier versions had: refused when typed, read as stacked in what they left behind."""

import json
import shutil

import pytest

import experiments
from experiments.evaluate import main as evaluate
from experiments.sweep.manifest import NAME
from experiments.sweep.unit_files import read_unit, unit_file, write_unit
from experiments.training.run import Request
from runs import SHORT, command, compose, read, rewrite_status

STACKED = ("-m", "seed=0,1", "hydra/launcher=stacked", "workers=1", "hydra.sweep.dir=here", *SHORT)


@pytest.mark.parametrize("more", [(), STACKED])
def test_it_is_refused_in_one_sentence(tmp_path, more):
    answer = command("engine=compiled", *more, cwd=tmp_path)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "error: engine=compiled was removed; use engine=stacked, which trains the same runs together\n"
    assert list(tmp_path.iterdir()) == []


def test_its_runs_load_and_are_scored(shared, tmp_path, capsys):
    old = shutil.copytree(shared(*SHORT), tmp_path / "old")
    config = (old / "config.yaml").read_text()
    (old / "config.yaml").write_text(config.replace("engine: auto", "engine: compiled"))
    assert "engine: compiled" in (old / "config.yaml").read_text()
    result = read(old / "result.json") | {"engine": "compiled"}
    (old / "result.json").write_text(json.dumps(result))
    rewrite_status(old)
    assert not experiments.load(old).training
    assert evaluate([str(old)]) == 0
    assert "hard accuracy" in capsys.readouterr().out


@pytest.mark.slow
def test_its_runs_are_compared(shared, tmp_path):
    pytest.importorskip("scipy")
    from experiments.compare.command import main as compare

    for seed in range(2):
        old = shutil.copytree(shared(*SHORT, f"seed={seed}"), tmp_path / "runs" / str(seed))
        config = (old / "config.yaml").read_text()
        (old / "config.yaml").write_text(config.replace("engine: auto", "engine: compiled"))
        (old / "result.json").write_text(json.dumps(read(old / "result.json") | {"engine": "compiled"}))
        rewrite_status(old)
    assert compare([str(tmp_path / "runs"), "--out", str(tmp_path / "report")]) == 0


@pytest.mark.slow
def test_its_stacks_resume_as_stacks(tmp_path):
    assert command(*STACKED, "engine=stacked", cwd=tmp_path).code == 0
    manifest = read(tmp_path / "here" / NAME)
    manifest["stacks"][0]["engine"] = "compiled"
    (tmp_path / "here" / NAME).write_text(json.dumps(manifest))
    rewrite_status(min((tmp_path / "here").rglob("status.json")).parent, status="RUNNING")
    answer = command(*STACKED, "engine=stacked", cwd=tmp_path)
    assert "1 run trains as 1 stack of 2 (listed in manifest.json)" in answer.out
    assert answer.out.splitlines()[-1] == "2 DONE"


def test_its_unit_files_are_read(tmp_path):
    file = unit_file(tmp_path / "units", "launched")
    write_unit(file, [Request(compose(), tmp_path / "one")])
    content = json.loads(file.read_bytes())
    content["requests"][0]["config"]["engine"] = "compiled"
    content["requests"][0]["columns"] = ["optimizer.lr"]
    file.write_text(json.dumps({"compiled": True, **content}))
    (request,) = read_unit(file)
    assert request.config.engine == "stacked"
