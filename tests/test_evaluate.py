"""Finished runs: loaded as an ordinary hard model, scored again to the digit, wrong requests said."""

import copy
import json
import pickle
import shutil

import pytest
import torch

import experiments
from experiments.config.choices import ConfigError, choose
from experiments.evaluate import main
from experiments.tracking import checkpoint
from experiments.tracking.checkpoint import CheckpointError
from experiments.training.scoring import score
from runs import ROOT, SHORT, lines, process, read, train, tree
from surrogates import hard_layers

TRAINED = ("max_steps=40", "eval_every=10", "model.width=16", "optimizer.lr=0.3")
KINDS = {
    "smooth": ("strategy=smooth", "model.batch_norm=true"),
    "rewrite": ("strategy=rewrite", "component=floor", "model=cnn"),
    "learned": ("component.range=learned_step", "strategy=ste", "precision=float64"),
    "weights": ("component=quantized_weight", "component.scale=learned", "component.grid=affine"),
    "signals": ("data=mnist1d", "component=hard_gate"),
    "unused": ("strategy=ste", "strategy.temperature=0.5", "strategy.kernel=null"),
}


def scored(capsys, *arguments):
    """Exit code, the printed rows by name, and the errors."""
    code = main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    rows = dict(line.split(maxsplit=1) if "  " not in line else line.split("  ", 1) for line in said.out.splitlines())
    return code, {name.strip(): cell.strip() for name, cell in rows.items()}, said.err


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["best", pytest.param("last", marks=pytest.mark.slow)])
def test_it_reproduces_what_was_logged(shared, capsys, kind, which):
    folder = shared(*KINDS[kind], *TRAINED)
    result = read(folder / "result.json")
    logged = result["best"] if which == "best" else lines(folder)[-1]
    for part in ("val", "test"):
        code, rows, err = scored(capsys, folder, "--part", part, "--which", which)
        assert (code, err) == (0, "")
        assert rows["hard accuracy"] == f"{logged[f'accuracy/{part}']:.4f}"
        if part == "val":
            assert rows["hard loss"] == f"{logged['loss/val']:.6f}"
    model = experiments.load(folder, which)
    data = choose(read_config(folder)).data.load()
    exact = score(model.double() if kind == "learned" else model, data.to("cpu", next(model.parameters()).dtype).val)
    assert (exact.accuracy, exact.loss) == (logged["accuracy/val"], logged["loss/val"])


def read_config(folder):
    from omegaconf import OmegaConf

    config = OmegaConf.load(folder / "config.yaml")
    for key in [key for key, value in config.strategy.items() if value is None]:
        del config.strategy[key]
    return config


def test_the_loaded_model_is_an_ordinary_hard_module(shared):
    folder = shared(*KINDS["smooth"], *TRAINED)
    model = experiments.load(folder)
    assert isinstance(model, torch.nn.Module)
    assert not any(module.training for module in model.modules())
    assert [layer.mode for layer in hard_layers(model).values()] == ["hard", "hard"]
    x = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    hidden = model.blocks[0](x.flatten(1))
    assert torch.allclose(hidden * 15, (hidden * 15).round(), atol=1e-5)
    assert len(hidden.unique()) > 2
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(copied(x), model(x))
    assert all(parameter.device.type == "cpu" for parameter in model.parameters())
    with pytest.raises(ValueError, match="'best' or 'last'"):
        experiments.load(folder, "newest")


def test_a_saved_whole_model_comes_back(shared, tmp_path):
    model = experiments.load(shared(*KINDS["rewrite"], *TRAINED))
    torch.save(model, tmp_path / "model.pt")
    again = torch.load(tmp_path / "model.pt", weights_only=False)
    x = torch.ones(2, 1, 8, 8)
    assert torch.equal(again(x), model(x))


def test_looking_leaves_the_run_as_it_was(shared, capsys):
    folder = shared(*KINDS["rewrite"], *TRAINED)
    before = tree(folder), torch.get_rng_state()
    experiments.load(folder)
    scored(capsys, folder)
    assert tree(folder) == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_a_moved_folder_is_still_a_run(shared, tmp_path, monkeypatch, capsys):
    moved = tmp_path / "moved here μ"
    shutil.copytree(shared(*KINDS["rewrite"], *TRAINED), moved)
    monkeypatch.chdir(tmp_path)
    code, rows, _ = scored(capsys, "moved here μ")
    assert code == 0
    assert rows["run"] == "moved here μ"


def test_another_data_set_of_the_same_shape(shared, capsys):
    code, rows, err = scored(capsys, shared(*KINDS["rewrite"], *TRAINED), "--data", "digits", "--part", "train")
    assert (code, err) == (0, "")
    assert rows["data"] == "digits, train, 1079 samples"


@pytest.mark.slow  # imports torchvision
def test_fake_data_have_the_shape_of_digits_and_tell_nothing(shared, capsys):
    code, rows, _ = scored(capsys, shared(*KINDS["rewrite"], *TRAINED), "--data", "fake")
    assert code == 0
    assert float(rows["hard accuracy"]) < 0.4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "mnist1d"], "the run's model takes (1, 8, 8) and 10 classes; data set mnist1d has (1, 40)"),
        *[(["--data", name], f"there is no data set '{name}'") for name in ("nope", "batches", "dataset", "../digits")],
        *[(["--data", name], f"there is no data set '{name}'") for name in ("", "digits.x", "parts", "files", "os")],
        (["--data", "mnist", "--root", "nowhere"], "the run's model takes (1, 8, 8)"),
    ],
)
def test_wrong_data_are_said(shared, capsys, arguments, words):
    code, rows, err = scored(capsys, shared(*KINDS["rewrite"], *TRAINED), *arguments)
    assert (code, rows) == (2, {})
    assert err.startswith("error: ")
    assert words in err


def test_a_wrong_part_or_checkpoint_is_said(shared, capsys):
    folder = str(shared(*KINDS["rewrite"], *TRAINED))
    for arguments in ([folder, "--part", "dev"], [folder, "--which", "newest"], []):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
    assert "choose from" in capsys.readouterr().err


def broken(tmp_path, whole):
    """Folders that are no finished run, and what is to be said of each."""
    yield tmp_path / "nowhere", "holds no run: there is no config.yaml"
    empty = tmp_path / "empty"
    empty.mkdir()
    yield empty, "holds no run"
    file = tmp_path / "file"
    file.write_text("")
    yield file, "holds no run"
    for index, (text, words) in enumerate(
        [
            ("{", "is not YAML"),
            ("\xff\0", "is not YAML"),
            ("[1, 2]", "is not the configuration of a run"),
            ("", "is not the configuration of a run"),
            ("seed: 0", "is not the configuration of a run"),
            ("strategy: {_target_: os.system}", "component is not chosen"),
        ]
    ):
        folder = tmp_path / str(index)
        folder.mkdir()
        (folder / "config.yaml").write_text(text)
        yield folder, words
    cut = tmp_path / "cut"
    shutil.copytree(whole, cut)
    (cut / "checkpoints/best.pt").write_bytes((cut / "checkpoints/best.pt").read_bytes()[:500])
    yield cut, "is incomplete"
    bare = tmp_path / "bare"
    shutil.copytree(whole, bare, ignore=shutil.ignore_patterns("*.pt"))
    yield bare, "cannot be read: No such file"


def test_a_folder_that_is_no_finished_run_is_said(shared, tmp_path, capsys):
    count = 0
    for folder, words in broken(tmp_path, shared(*KINDS["rewrite"], *TRAINED)):
        code, rows, err = scored(capsys, folder)
        assert (code, rows) == (2, {})
        assert err.startswith("error: ")
        assert words in err
        with pytest.raises((FileNotFoundError, ConfigError, CheckpointError)):
            experiments.load(folder)
        count += 1
    assert count == 11


def test_weights_of_another_model_are_said(shared, tmp_path, capsys):
    folder = tmp_path / "changed"
    shutil.copytree(shared(*KINDS["rewrite"], *TRAINED), folder)
    config = (folder / "config.yaml").read_text()
    assert "width: 16" in config
    (folder / "config.yaml").write_text(config.replace("width: 16", "width: 17"))
    code, _, err = scored(capsys, folder)
    assert code == 2
    assert "config.yaml was changed or belongs to another run" in err
    (folder / "status.json").unlink()
    code, _, err = scored(capsys, folder)
    assert code == 2
    assert "best.pt belongs to another run" in err
    best = folder / "checkpoints/best.pt"
    checkpoint.save(best, {"model": checkpoint.load(best)["model"]})  # as an earlier version wrote it
    code, _, err = scored(capsys, folder)
    assert code == 2
    assert "does not fit" in err


def test_a_run_without_a_result_is_said(tmp_path, capsys):
    train(tmp_path / "n/a", "component=binary", "strategy=rewrite")
    code, _, err = scored(capsys, tmp_path / "n/a")
    assert code == 2
    assert "declares no reading" in err or "cannot be read" in err
    train(tmp_path / "failed", "component=relu", "optimizer.lr=1e30", *SHORT)
    code, _, err = scored(capsys, tmp_path / "failed")
    assert code == 2
    assert "best.pt cannot be read" in err


@pytest.mark.slow  # a process of its own
def test_as_a_command(shared, tmp_path):
    folder = shared(*KINDS["rewrite"], *TRAINED)
    answer = process(str(folder), cwd=tmp_path, program=("-m", "experiments.evaluate"))
    assert (answer.code, answer.err) == (0, "")
    best = json.loads((folder / "result.json").read_text())["best"]
    assert f"hard accuracy  {best['accuracy/test']:.4f}" in answer.out
    assert all(len(line) <= 80 or " " not in line[15:].strip() for line in answer.out.splitlines())
    assert ROOT.name not in answer.out
