"""Compiled steps on disk: found again by what their code follows from, without the compiler, and never a wrong one."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from experiments.config.choices import choose
from experiments.stacked import code_cache
from experiments.stacked.code_cache import is_warm, kept, steps_of
from runs import ROOT, compose


def folder(*overrides, seeds=2, own=()):
    """Of a stack of runs that differ in their seeds, the last in more."""
    members = [[*overrides, f"seed={seed}"] for seed in range(seeds)]
    members[-1] += own
    return steps_of([choose(compose(*member)).plain for member in members])


def test_the_code_of_a_step_follows_from_some_keys_and_not_from_others():
    alike = [(), ("optimizer.lr=0.3",), ("max_steps=77", "log_every=3", "strategy.temperature=0.5"), ("seed=9",)]
    different = [
        ("strategy=smooth",),
        ("strategy=smooth", "strategy.kernel=normal"),
        ("component=floor",),
        ("model.width=33",),
        ("batch_size=32",),
        ("optimizer=adam",),
        ("optimizer.clip_norm=1",),
        ("optimizer.weight_decay=0.1",),
        ("optimizer.momentum=0",),
        ("precision=float64",),
        ("data=mnist1d",),
        ("threads=2",),
    ]
    assert len({folder(*overrides) for overrides in alike}) == 1
    folders = [folder(), *(folder(*overrides) for overrides in different)]
    folders += [folder(seeds=3), folder(own=["optimizer.lr=0.3"]), folder(own=["strategy.temperature=0.5"])]
    assert len(set(folders)) == len(folders)


def test_it_follows_from_the_sources(monkeypatch):
    before = folder()
    monkeypatch.setattr(code_cache, "_sources", lambda: "changed")
    assert folder() != before


def double(x):
    x.mul_(2.0)
    return [x.sum()]


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """The folder of a step that doubles its input, compiled by a stand-in for the compiler that counts."""
    count = []

    def compile_(file, graph, inputs):
        count.append(file)
        file.write_bytes(b"code")

    def load(file):
        if file.read_bytes() != b"code":
            raise RuntimeError("no library")
        return double

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(code_cache, "_compile", compile_)
    monkeypatch.setattr(code_cache, "_load", load)
    return count


def test_what_is_there_is_not_compiled_again_and_what_is_damaged_is(compiled, caplog):
    plains = [choose(compose()).plain] * 2
    where = steps_of(plains)
    assert not is_warm(plains)
    for _ in range(2):
        assert kept(where, ["facts"], nn.Module, []) is double
    assert len(compiled) == 1
    assert is_warm(plains)
    compiled[0].write_bytes(b"co")
    assert kept(where, ["facts"], nn.Module, []) is double
    assert len(compiled) == 2
    assert "cannot be read and is compiled again: no library" in caplog.text
    kept(where, ["others"], nn.Module, [])
    assert len(set(compiled)) == 2


def test_those_not_used_for_longest_are_deleted(compiled, monkeypatch, tmp_path):
    monkeypatch.setattr(code_cache, "KEPT", 2)
    for number in range(4):
        kept(tmp_path / "hardgrad" / "steps" / "one", [number], nn.Module, [])
    left = list(tmp_path.rglob("*.pt2"))
    assert len(left) == 2
    assert compiled[-1] in left


@pytest.mark.slow
def test_a_warm_sweep_is_the_cold_one_without_the_compiler(tmp_path):
    """In processes of their own: the second loads what the first compiled, and says so when it is planned."""
    code = (
        "import runpy, sys\ntry: runpy.run_path('train.py', run_name='__main__')\n"
        "finally: print('compiler', 'torch._inductor' in sys.modules, 'sympy' in sys.modules)"
    )
    common = ["-m", "seed=range(8)", "model.width=8", "max_steps=20", "eval_every=10", "hydra/launcher=stacked"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}

    def sweep(name, *more):
        line = [sys.executable, "-c", code, *common, f"hydra.sweep.dir={tmp_path / name}", "workers=1", *more]
        done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        metrics = {path.parent.name: path.read_bytes() for path in (tmp_path / name).rglob("metrics.jsonl")}
        return done.stdout, metrics

    cold, numbers = sweep("cold", "engine=compiled")
    warm, again = sweep("warm")
    assert "compiler True" in cold
    assert "engine compiled for 8 jobs" in warm
    assert "compiled, which it was before" in warm
    assert "compiler False False" in warm
    assert len(again) == 8
    assert again == numbers
    eager, _ = sweep("eager", "engine=stacked")
    assert "compiler False False" in eager


@pytest.mark.slow
def test_a_graph_is_compiled_writes_its_inputs_and_is_loaded(tmp_path):
    """With the compiler itself; a library cut short is compiled again."""
    from torch.fx.experimental.proxy_tensor import make_fx

    x = torch.arange(4.0)

    def code():
        return kept(tmp_path, [], lambda: make_fx(double, tracing_mode="fake")(x), [x])

    for _ in range(2):
        x.copy_(torch.arange(4.0))
        assert code()([x])[0].item() == 12.0
        assert x.tolist() == [0.0, 2.0, 4.0, 6.0]
    (library,) = tmp_path.glob("*.pt2")
    library.write_bytes(library.read_bytes()[:1000])
    assert code()([x])[0].item() == 24.0
