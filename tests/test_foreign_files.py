"""Files of one run in the folder of another: named themselves, with both hashes, before a number is taken from them."""

import math
import shutil
import signal

import pytest
from test_resume import stopping

import experiments
from experiments.compare.reading.run_files import Unreadable
from experiments.compare.reading.run_record import read_run
from experiments.config.choices import ConfigError
from experiments.evaluate import main as evaluate
from experiments.tracking import checkpoint
from experiments.tracking.checkpoint import CheckpointError
from experiments.training import session
from run_contents import assert_same_run
from runs import SHORT, command, read, rewrite_status, tree

OWN = ("strategy=rewrite", *SHORT)


@pytest.fixture
def _stopped(tmp_path, monkeypatch):
    """The folders a (seed 0) and b (seed 1) of interrupted runs."""
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(session, "SHARE", math.inf)
    with monkeypatch.context() as patch:
        stopping(patch, 2, signal.SIGTERM)
        for name, seed in (("a", 0), ("b", 1)):
            assert command(*OWN, f"seed={seed}", f"hydra.run.dir={name}", cwd=tmp_path).code == 143


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Two finished runs that differ in the seed."""
    root = tmp_path_factory.mktemp("done")
    for name, seed in (("a", 0), ("b", 1)):
        assert command(*OWN, f"seed={seed}", f"hydra.run.dir={name}", cwd=root).code == 0
    return root / "a", root / "b"


@pytest.mark.usefixtures("_stopped")
@pytest.mark.parametrize("names", [("checkpoints/last.pt", "metrics.jsonl"), ("metrics.jsonl",), ("status.json",)])
def test_a_run_resumes_from_no_file_of_another(tmp_path, done, names):
    """Case K30: the first of the mixed-up files is named, nothing is lost, and the right files put back are used."""
    mine, other = tmp_path / "a", tmp_path / "b"
    kept = shutil.copytree(mine, tmp_path / "kept")
    for name in names:
        shutil.copy(other / name, mine / name)
    hashes = [read(folder / "status.json")["config_hash"] for folder in (kept, other)]
    before = tree(mine)
    answer = command(*OWN, "seed=0", "hydra.run.dir=a", cwd=tmp_path)
    said = " ".join(answer.err.split())
    assert answer.code == 2
    assert said.startswith(f"error: {mine / names[0]} ")
    if names != ("metrics.jsonl",):
        assert all(one in said for one in hashes)
    after = tree(mine)
    assert {name for name in before if before[name] != after[name]} <= {"status.json", "train.log"}
    for name in (*names, "status.json"):
        shutil.copy(kept / name, mine / name)
    assert command(*OWN, "seed=0", "hydra.run.dir=a", cwd=tmp_path).code == 0
    assert_same_run(mine, done[0])


def mixed(tmp_path, done, name):
    """The first run's folder with one file of the second's."""
    folder = shutil.copytree(done[0], tmp_path / "mixed")
    shutil.copy(done[1] / name, folder / name)
    return folder


def test_evaluate_and_load_take_no_checkpoint_of_another_run(tmp_path, done, capsys):
    """Case K30: its best.pt under evaluate."""
    folder = mixed(tmp_path, done, "checkpoints/best.pt")
    hashes = [read(run / "status.json")["config_hash"] for run in done]
    assert evaluate([str(folder)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {folder / 'checkpoints/best.pt'} belongs to another run")
    assert all(one in said for one in hashes)
    with pytest.raises(CheckpointError, match=r"best\.pt belongs to another run"):
        experiments.load(folder)


@pytest.mark.parametrize("name", ["config.yaml", "status.json"])
def test_the_mixed_up_file_is_named_and_not_the_one_beside_it(tmp_path, done, name):
    folder = mixed(tmp_path, done, name)
    with pytest.raises(ConfigError, match=rf"{name} (was changed or )?belongs to another run"):
        experiments.load(folder)
    with pytest.raises(Unreadable, match=rf"^{name} (was changed or )?belongs to another run"):
        read_run(folder)


@pytest.mark.parametrize("name", ["result.json", "env.json"])
def test_the_comparison_takes_no_file_of_another_run(tmp_path, done, name):
    folder = mixed(tmp_path, done, name)
    (folder / name).write_bytes((done[1] / name).read_bytes().replace(b"}", b" }"))
    with pytest.raises(Unreadable, match=f"^{name} .*another run"):
        read_run(folder)


def test_a_model_of_an_absurd_size_is_refused_before_it_is_made(tmp_path, done):
    folder = shutil.copytree(done[0], tmp_path / "huge")
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("depth: 2", "depth: 300000000"))
    assert (folder / "config.yaml").read_text() != text
    with pytest.raises(ConfigError, match=r"config\.yaml was changed"):
        experiments.load(folder)


def test_a_checkpoint_in_the_place_of_another_kind_is_named(tmp_path, done):
    folder = shutil.copytree(done[0], tmp_path / "run")
    shutil.copy(folder / "checkpoints/last.pt", folder / "checkpoints/best.pt")
    with pytest.raises(CheckpointError, match=r"best\.pt lacks the part 'model'"):
        experiments.load(folder)


def test_runs_of_earlier_versions_load_and_compare(tmp_path, done):
    """Their best.pt has no hash, their status.json no checksums."""
    folder = shutil.copytree(done[0], tmp_path / "run")
    path = folder / "checkpoints/best.pt"
    state = checkpoint.load(path)
    del state["config_hash"]
    checkpoint.save(path, state)
    rewrite_status(folder)
    assert experiments.load(folder).training is False
    assert read_run(folder).outcome == "done"
