"""Training from Python: the command's files and messages, values of Python, and a process left as it was."""

import logging
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser

import experiments
import hardgrad as hg
from experiments.command.python_values import refuse_flags, run_overrides, sweep_overrides
from experiments.training.trainer import Trainer
from runs import CONF, command, read, read_files_once

SHORT = {"max_steps": 3, "eval_every": 3, "log_every": 1, "model": {"width": 8}, "quiet": True}
TYPED = ("max_steps=3", "eval_every=3", "log_every=1", "model.width=8")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    read_files_once()
    GlobalHydra.instance().clear()
    monkeypatch.chdir(tmp_path)


def test_a_run_is_that_of_the_command(tmp_path):
    run = hg.train("component=floor", strategy="smooth", folder="here, and=there", **SHORT)
    assert command("component=floor", "strategy=smooth", *TYPED, "hydra.run.dir=typed", cwd=tmp_path).code == 0
    for name in ("result.json", "metrics.jsonl", "config.yaml"):
        assert (run.folder / name).read_bytes() == (tmp_path / "typed" / name).read_bytes()
    assert run.folder == tmp_path / "here, and=there"
    assert read(run.folder / "env.json")["argv"][:2] == ["hardgrad.train", "component=floor"]
    assert (run.status, run.reason) == ("DONE", "")
    assert run.accuracy == run.result["best"]["accuracy/test"]
    assert repr(run) == f"Run({str(run.folder)!r}, DONE, accuracy {run.accuracy:.4f})"


def test_curves_and_model_of_a_run(tmp_path, shared):
    run = hg.Run(shared("component=floor", "strategy=ste", *TYPED))
    curves = run.curves()
    assert (curves.index.name, curves.index.tolist()) == ("step", [1, 2, 3])
    assert curves["accuracy/val"].isna().tolist() == [True, True, False]
    assert curves["loss/train"].notna().all()
    assert run.model is run.model
    assert not run.model.training
    assert os.fspath(run) == str(run.folder)
    with pytest.raises(FileNotFoundError, match="holds no run"):
        hg.Run(tmp_path)


def test_without_pandas_the_extra_is_named(shared, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    brings = r"pandas is not installed; pip install 'hardgrad\[compare\]' brings it \(in a checkout: pip install -e"
    with pytest.raises(ModuleNotFoundError, match=brings):
        hg.Run(shared("component=floor", "strategy=ste", *TYPED)).curves()


@pytest.mark.parametrize(
    ("keys", "typed"),
    [
        ({"max_step": 3}, "max_step=3"),
        ({"strategy": "stee"}, "strategy=stee"),
        ({"optimizer": {"lr": "a,b"}}, "optimizer.lr='a,b'"),
        ({"optimizer.lrr": 1}, "optimizer.lrr=1"),
        ({"model": {"width": 1.5}}, "model.width=1.5"),
        ({"seed": [0, 1]}, "seed=[0,1]"),
        ({"component": "binary", "component.bits": 3}, "component=binary component.bits=3"),
    ],
)
def test_a_mistake_has_the_text_of_the_command(keys, typed, tmp_path):
    answer = command(*typed.split(), cwd=tmp_path)
    with pytest.raises(hg.ConfigError) as refused:
        hg.train(**keys)
    assert (answer.code, answer.err) == (2, f"error: {refused.value}\n")
    assert isinstance(refused.value, ValueError)
    assert not list(tmp_path.rglob("status.json"))


def test_a_pair_that_is_not_applicable_is_a_mistake():
    with pytest.raises(hg.ConfigError, match="declares no reading 'rewrite'"):
        hg.train(component="binary", strategy="rewrite", **SHORT)


def test_what_has_no_run_is_refused(tmp_path, capsys):
    with pytest.raises(hg.ConfigError, match="asks a question and trains nothing"):
        hg.train(experiment="gradient_bias")
    assert not list(tmp_path.iterdir())
    with pytest.raises(hg.ConfigError, match="dry_run=true trains nothing"):
        hg.train(dry_run=True)
    for wrong in ("--help", "-m", "ste", 3):
        with pytest.raises(hg.ConfigError, match="is no override"):
            hg.sweep(wrong)


def test_what_a_function_cannot_do_is_refused_before_a_job_runs(tmp_path):
    """Another sweeper does not report its jobs; a preset that is a sweep is not one run."""
    for sweeper in ("basic", "listed"):
        with pytest.raises(hg.ConfigError, match="hydra/sweeper cannot be chosen here"):
            hg.sweep(f"hydra/sweeper={sweeper}", strategy=["ste", "smooth"], **SHORT)
    with pytest.raises(hg.ConfigError, match="this preset is a sweep"):
        hg.train(experiment="maxout", **SHORT)
    assert not list(tmp_path.iterdir())


VALUES = [
    0,
    1.5,
    1e-30,
    True,
    None,
    "ste",
    "a,b",
    "a=b",
    "it's",
    'x"y',
    "a b",
    "",
    "null",
    "0.1",
    "ü",
    "\\",
    ["a,b", 1],
    [],
]


@pytest.mark.parametrize("value", VALUES)
def test_a_value_of_python_reaches_the_configuration(value):
    """Also as one of a sweep's values."""
    (typed,) = run_overrides({"data.root": value})
    assert OverridesParser.create().parse_override(typed).value() == value
    (swept,) = sweep_overrides({"data": {"root": [value, "other"]}})
    parsed = OverridesParser.create().parse_override(swept)
    assert [OverridesParser.create().parse_override(f"k={one}").value() for one in parsed.sweep_string_iterator()] == [
        value,
        "other",
    ]


def test_values_of_other_types():
    keys = {
        "seed": np.int64(3),
        "optimizer": {"lr": np.float32(0.5)},
        "data.root": Path("a"),
        "diagnostics": ("truth",),
    }
    assert run_overrides(keys) == ["seed=3", "optimizer.lr=0.5", "data.root=a", "diagnostics=[truth]"]
    lists = {"seed": range(3), "a": range(1, 3), "b": range(4, 0, -2), "c": np.arange(2), "d": 1}
    assert sweep_overrides(lists) == ["seed=range(3)", "a=range(1,3)", "b=range(4,0,-2)", "c=0,1", "d=1"]
    refuse_flags(["a=1", "~b", "+c=1"])


@pytest.mark.parametrize(
    ("make", "keys", "words"),
    [
        (run_overrides, {"strategy": ["ste", "smooth"]}, "strategy has several values"),
        (run_overrides, {"seed": range(3)}, "hardgrad.sweep makes a run of each"),
        (run_overrides, {"seed": object()}, "seed has a value of type object"),
        (run_overrides, {"a=b": 1}, "'a=b' is no key"),
        (sweep_overrides, {"seed": []}, "seed lists no value"),
    ],
)
def test_values_that_cannot_be(make, keys, words):
    with pytest.raises(hg.ConfigError, match=words):
        make(keys)


def test_the_process_is_left_as_it_was(tmp_path, monkeypatch):
    """Inside a program that uses Hydra itself; also after a mistake."""

    def state():
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        hydra = (GlobalHydra.instance().hydra, HydraConfig.instance().cfg, os.environ.get("HYDRA_FULL_ERROR"))
        return [*handlers, *hydra, list(sys.argv), Path.cwd(), logging.root.level, list(logging.root.handlers)]

    with initialize_config_dir(str(CONF), version_base="1.3"):
        before = state()
        hg.train(strategy="ste", **SHORT)
        with pytest.raises(hg.ConfigError):
            hg.train(max_step=1)
        assert state() == before
        assert compose("config", ["seed=5"]).seed == 5


def test_an_interrupted_run_is_resumed_by_the_same_call(tmp_path, monkeypatch):
    advance = Trainer.advance

    def stopping(self):
        os.kill(os.getpid(), signal.SIGINT) if self.step == 1 else None
        return advance(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", stopping)
        with pytest.raises(KeyboardInterrupt):
            hg.train(folder="run", **SHORT)
    assert hg.Run("run").status == "INTERRUPTED"
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        with pytest.raises(hg.ConfigError, match="there is no key max_step"):
            hg.train(max_step=3)
    with pytest.raises(hg.RunFailed, match="INTERRUPTED, stopped by SIGINT"):
        assert hg.Run("run").result
    assert hg.train(folder="run", **SHORT).status == "DONE"
    assert "resuming" in (tmp_path / "run" / "train.log").read_text()


def test_a_run_that_diverges_is_an_error_with_its_folder(tmp_path):
    with pytest.raises(hg.RunFailed, match="FAILED, training diverged") as failed:
        hg.train(folder="run", optimizer={"lr": 1e30}, component="relu", strategy="subgradient", **SHORT)
    assert failed.value.run.folder == tmp_path / "run"


def test_own_options(tmp_path):
    (tmp_path / "mine" / "strategy").mkdir(parents=True)
    (tmp_path / "mine/strategy/own.yaml").write_text("_target_: surrogates.strategies.ste.StraightThrough\n")
    run = hg.train(strategy="own", config_dir=tmp_path / "mine", **SHORT)
    assert read(run.folder / "env.json")["options"]["strategy"] == "own"


@pytest.mark.slow
def test_a_sweep_gives_its_runs_and_what_failed(tmp_path):
    keys = {"component": "binary", "strategy": ["ste", "rewrite"], "optimizer": {"lr": [0.1, 1e30]}, **SHORT}
    runs = hg.sweep("seed=range(2)", folder="s", **keys)
    assert [run.status for run in runs] == ["DONE", "DONE"]
    assert runs[0].folder.is_relative_to(runs.folder)
    assert runs.folder == tmp_path / "s"
    assert sorted({job.status for job in runs.failed}) == ["FAILED", "NOT_APPLICABLE"]
    assert len(runs.folders) == 8
    assert repr(runs) == f"SweepRuns({str(tmp_path / 's')!r}, 2 done, 6 without a result)"
    assert [run.folder for run in hg.sweep("seed=range(2)", folder="s", **keys)] == [r.folder for r in runs]
    frame = hg.compare(runs, baseline="best").to_frame()
    assert set(frame["strategy"]) == {"ste"}
    for same in ([runs.folder], runs.folders, [[*runs], *(job.folder for job in runs.failed)]):
        assert hg.compare(*same, baseline="best").to_frame().equals(frame)


@pytest.mark.slow
def test_a_sweep_in_worker_processes_is_that_of_the_command(tmp_path):
    runs = hg.sweep("hydra/launcher=stacked", strategy=["ste", "subgradient"], seed=range(2), **SHORT)
    typed = ("hydra/launcher=stacked", "strategy=ste,subgradient", "seed=range(2)", *TYPED)
    answer = command("-m", *typed, cwd=tmp_path)
    assert (answer.code, len(runs)) == (0, 4)
    assert f"4 jobs in {runs.folder.relative_to(tmp_path)}: 0 to run, 4 already done" in answer.out


@pytest.mark.slow
def test_a_comparison_as_text_tables_and_files(tmp_path):
    runs = hg.sweep(component="floor", strategy=["subgradient", "ste"], seed=range(2), **SHORT)
    comparison = hg.compare(runs)
    frame = comparison.to_frame()
    assert frame["strategy"].tolist() == ["subgradient", "ste"]
    assert frame["difference_mean"].isna().tolist() == [True, False]
    assert frame["mean"][0] == pytest.approx(np.mean([run.accuracy for run in runs[:2]]))
    assert str(comparison).startswith("2 pairs: no interval;")
    assert "4 runs: 4 done\n" in str(comparison)
    assert "<td>subgradient</td><td>2</td>" in comparison._repr_html_()
    assert comparison.save("report") == Path("report/report.html")


def test_the_names_of_the_options():
    assert {"ste", "smooth"} <= set(hg.options("strategy"))
    with pytest.raises(hg.ConfigError, match="there is no group stratgy; did you mean strategy"):
        hg.options("stratgy")


def test_every_name_is_there():
    assert all(hasattr(hg, name) for name in hg.__all__)
    assert not hasattr(experiments, "tarin")
    assert not callable(experiments.sweep)  # the package, whether or not `hg.sweep` has been used
