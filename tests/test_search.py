"""The search: finds the better values, prunes the hopeless, goes on after a stop, and leaves ordinary runs."""

import sys

import pytest
from hydra.core.global_hydra import GlobalHydra
from test_cli import statuses

from experiments.compare.reading.run_record import read_run
from experiments.config.values import ConfigError
from experiments.search import command as search
from experiments.sweep.manifest import read_manifest
from experiments.training.trainer import Trainer
from runs import read

SHARED = ["--", "strategy=ste", "max_steps=60", "eval_every=20", "model.width=16"]


def test_spaces_are_read_and_wrong_ones_refused():
    spaces = search._spaces(["optimizer.lr=log(1e-3,1)", "a.b=interval(0,0.5)", "model.width=16,32"])
    assert spaces == {"optimizer.lr": (1e-3, 1.0, True), "a.b": (0.0, 0.5, False), "model.width": ["16", "32"]}
    for wrong in ("optimizer.lr", "optimizer.lr=", "a=log(0,1)", "a=log(2,1)", "a=interval(1)", "=1,2"):
        with pytest.raises(ConfigError, match="is no space"):
            search._spaces([wrong])


def made(folder, *arguments, trials=8):
    GlobalHydra.instance().clear()
    return search.main([*arguments, "--trials", str(trials), "--root", str(folder), *SHARED])


@pytest.mark.nightly
def test_a_search_finds_prunes_and_goes_on(tmp_path, monkeypatch, capsys):
    """Stopped in its third trial, it makes that one and the rest, and none again."""
    pytest.importorskip("optuna", reason="needs the extra: pip install -e '.[search]'")
    advance, calls = Trainer.advance, []

    def stopping(self):
        calls.append(self.step)
        if calls.count(0) == 3 and self.step == 30:
            raise KeyboardInterrupt
        return advance(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", stopping)
        assert made(tmp_path / "s", "optimizer.lr=log(1e-5,1)") == 130
    before = {path: path.read_bytes() for path in (tmp_path / "s").rglob("result.json")}
    assert "INTERRUPTED" in statuses(tmp_path).values()
    assert made(tmp_path / "s", "optimizer.lr=log(1e-5,1)", trials=14) == 0
    assert {path: path.read_bytes() for path in before} == before
    assert len(read_manifest(tmp_path / "s")) == len(statuses(tmp_path)) == 14
    said = capsys.readouterr().out
    assert "pruned" in said
    results = [read(path) for path in (tmp_path / "s").rglob("result.json")]
    best = min(1.0 - result["best"]["accuracy/val"] for result in results)
    assert said.splitlines()[-1].startswith(f"best {best:.4f}: optimizer.lr=")
    assert float(said.splitlines()[-1].rpartition("=")[2]) > 1e-3
    assert made(tmp_path / "s", "optimizer.lr=log(1e-5,1)", trials=14) == 0
    assert capsys.readouterr().out == said.splitlines()[-1] + "\n"


def test_a_search_without_its_extra_names_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "experiments.search.study", raising=False)
    assert search.main(["optimizer.lr=0.1,0.2"]) == 2
    assert "optuna is not installed; pip install 'hardgrad[search]' brings it" in capsys.readouterr().err


def test_own_options_that_a_search_cannot_use(tmp_path):
    with pytest.raises(ConfigError, match=r"Additional config directory '.*absent' not found"):
        search._search_path(tmp_path / "absent")
    (tmp_path / "strategy").mkdir()
    (tmp_path / "strategy" / "ste.yaml").touch()
    with pytest.raises(ConfigError, match="has the name of a shipped option"):
        search._search_path(tmp_path)


@pytest.mark.slow
def test_a_search_among_own_options(tmp_path):
    pytest.importorskip("optuna", reason="needs the extra: pip install -e '.[search]'")
    own = tmp_path / "my, own" / "strategy" / "mine.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("_target_: surrogates.strategies.ste.StraightThrough\ncarrier: identity\n")
    GlobalHydra.instance().clear()
    places = ["--config-dir", str(own.parents[1]), "--root", str(tmp_path / "s"), "--trials", "1"]
    assert search.main(["optimizer.lr=0.1,0.2", *places, "--", "strategy=mine", *SHARED[2:]]) == 0
    (status,) = (tmp_path / "s").rglob("status.json")
    assert read_run(status.parent).options["strategy"] == "mine"


@pytest.mark.nightly
def test_a_search_that_cannot_be(tmp_path, capsys):
    pytest.importorskip("optuna", reason="needs the extra: pip install -e '.[search]'")
    assert made(tmp_path / "a", "optimizer.rate=1,2", trials=1) == 2
    assert "optimizer.rate" in capsys.readouterr().err
    assert made(tmp_path / "b", "optimizer.lr=abc", trials=1) == 1
    assert "optimizer.lr must be float" in capsys.readouterr().out
    assert made(tmp_path / "c", "optimizer.lr=0.1,0.1", trials=1) == 0
    (result,) = (tmp_path / "c").rglob("result.json")
    result.write_text("{")
    capsys.readouterr()
    assert made(tmp_path / "c", "optimizer.lr=0.1,0.1", trials=2) == 2
    assert capsys.readouterr().err.startswith(f"error: {result} is not valid JSON")
