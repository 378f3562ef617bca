"""A user's own options: a folder given by `--config-dir`, with classes of the user's own modules."""

import sys

import pytest
from doc_blocks import blocks, words_of_commands

import experiments
import hardgrad as hg
from experiments.command.errors import readable
from experiments.compare.reading.run_record import read_run
from experiments.config.choices import ConfigError
from experiments.terminal.extras import install
from runs import CONF, ROOT, command

MODEL = """\
from math import prod

from torch import nn


class OwnModel(nn.Module):
    def __init__(self, input_shape, classes, component, width: int = 8):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(prod(input_shape), width), component(), nn.Linear(width, classes))

    def forward(self, x):
        return self.layers(x.flatten(1))
"""
OPTIONS = {
    "strategy/mine.yaml": "_target_: surrogates.strategies.ste.StraightThrough\ncarrier: identity\n",
    "model/own.yaml": "_target_: own_model_of_a_test.OwnModel\n_partial_: true\nwidth: 8\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in OPTIONS.items():
        (tmp_path / "mine" / name).parent.mkdir(parents=True)
        (tmp_path / "mine" / name).write_text(text)
    (tmp_path / "own_model_of_a_test.py").write_text(MODEL)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_own_options_train_and_a_comparison_names_them(folder):
    answer = command(
        "--config-dir",
        "mine",
        "strategy=mine",
        "model=own",
        "data=fake",
        "max_steps=2",
        "hydra.run.dir=run",
        cwd=folder,
    )
    assert answer.code == 0, answer.err
    record = read_run(folder / "run")
    assert (record.options["strategy"], record.options["model"], record.options["data"]) == ("mine", "own", "fake")
    assert not [key for key in record.environment if key.startswith("options")]
    assert type(experiments.load(folder / "run")).__name__ == "OwnModel"
    del sys.modules["own_model_of_a_test"]
    with pytest.raises(ConfigError, match="is no part of hardgrad; import own_model_of_a_test first, if you trust it"):
        experiments.load(folder / "run")
    assert "own_model_of_a_test" not in sys.modules


@pytest.mark.slow
def test_the_example_of_the_page_trains(tmp_path, monkeypatch):
    """The files of own_options.md in an empty folder, and its commands with fewer steps, in this process."""
    page = ROOT / "docs" / "own_options.md"
    for block in filter(lambda block: block.file, blocks(page)):
        (tmp_path / block.file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / block.file).write_text(block.text)
    monkeypatch.syspath_prepend(tmp_path)
    typed = [words[2:] for words in words_of_commands(page) if words[1] == "train"]
    assert len(typed) == 2
    for words in typed:
        answer = command(*words, "max_steps=20", cwd=tmp_path)
        assert answer.code == 0, answer.err
    roots = list((tmp_path / "runs").rglob("result.json"))
    assert len(roots) == 3
    assert {read_run(path.parent).options["strategy"] for path in roots} == {"damped", "ste"}
    monkeypatch.chdir(tmp_path)
    run = hg.train("data=rings", "model=one_layer", config_dir="mine", max_steps=2, quiet=True)
    assert type(run.model).__name__ == "OneLayer"
    monkeypatch.delitem(sys.modules, "own")


@pytest.mark.parametrize("sweep", [[], ["-m", "seed=0,1"]])
def test_an_own_option_with_the_name_of_a_shipped_one_is_refused(folder, sweep):
    (folder / "mine" / "strategy" / "ste.yaml").write_text(OPTIONS["strategy/mine.yaml"])
    answer = command("--config-dir", "mine", *sweep, "strategy=ste", cwd=folder)
    assert answer.code == 2
    assert "mine/strategy/ste.yaml has the name of a shipped option and would not be read; rename it" in answer.err
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("launcher", ["joblib", "ray", "submitit_local"])
def test_a_launcher_that_is_not_installed_names_what_brings_it(launcher):
    text = f"In 'config': Could not find 'hydra/launcher/{launcher}'\n\nAvailable options in 'hydra/launcher':"
    extra = launcher.partition("_")[0]
    expected = f"hydra/launcher={launcher} is not installed; {install(extra)}"
    assert readable(ValueError(text), CONF) == expected
