"""Which test samples a run's models classified right: the file's bits, and the refusal of every other file."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
import torch

import experiments
from experiments.data import load as load_data
from experiments.data.digits import Digits
from experiments.tracking.run_folder import RunFolder
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import DONE
from experiments.tracking.strict_json import DamagedFile
from experiments.tracking.test_outcomes import Owner, read_test_outcomes, write_test_outcomes
from runs import read, rewrite_status

TEST = "t" * 64
SAMPLES = 1003


def finished(path, seed=0, test=TEST):
    """A finished run's folder with random outcomes, and the outcomes."""
    stream = np.random.default_rng(seed)
    right = {"last": stream.random(SAMPLES) < 0.6, "best": stream.random(SAMPLES) < 0.7}
    with RunFolder.claim(path, f"hash{seed}", False, False) as folder:
        folder.env.write_text(json.dumps({"data_hashes": {"test": test}}))
        write_test_outcomes(folder, Owner(folder.config_hash, test), right)
        folder.seal(files=True)
        folder.write_status(DONE)
    return RunPaths(path), right


def test_what_is_written_is_read_and_equal_outcomes_are_equal_files(tmp_path):
    run, right = finished(tmp_path / "a")
    for which, bits in right.items():
        found = read_test_outcomes(run.path, which)
        assert found.dtype == bool
        assert (found == bits).all()
    assert run.test_outcomes.read_bytes() == finished(tmp_path / "b")[0].test_outcomes.read_bytes()
    assert run.test_outcomes.stat().st_size < 4 * SAMPLES / 8 + 300


@pytest.mark.slow
def test_a_run_leaves_the_outcomes_of_its_last_and_its_best_model(shared):
    folder = shared("precision=float64", "optimizer.lr=3", "max_steps=9", "eval_every=1", "model.width=8")
    result = read(folder / "result.json")
    assert result["best"]["step"] < 9
    test = load_data(Digits()).test
    for which, scores in (("last", result["metrics"]), ("best", result["best"])):
        found = read_test_outcomes(folder, which)
        assert found.mean() == scores["accuracy/test"]
        with torch.no_grad():
            logits = experiments.load(folder, which)(test.x.double())
        assert (found == (logits.argmax(1) == test.y).numpy()).all()


def test_a_run_without_outcomes_has_none(tmp_path):
    assert read_test_outcomes(tmp_path, "last") is None
    with RunFolder.claim(tmp_path, "h", False, False):
        assert read_test_outcomes(tmp_path, "last") is None


def change(**more):
    def act(file):
        content = json.loads(file.read_text())
        file.write_text(json.dumps({**content, **more}))

    return act


DAMAGE = {
    "missing": (lambda file: file.unlink(), "cannot be read"),
    "folder": (lambda file: (file.unlink(), file.mkdir()), "cannot be read"),
    "link": (lambda file: (file.rename(file.with_name("x")), file.symlink_to("x")), "a link"),
    "FIFO": (lambda file: (file.unlink(), os.mkfifo(file)), "a FIFO"),
    "cut short": (lambda file: os.truncate(file, 200), "checksum"),
    "huge": (lambda file: os.truncate(file, 2**38), "checksum"),
}
UNSEALED = {
    "cut short": (lambda file: os.truncate(file, 200), "is not valid JSON"),
    "huge": (lambda file: os.truncate(file, 2**38), "more than the"),
    "a list": (lambda file: file.write_text("[]"), "does not hold the test outcomes"),
    "hash": (change(config_hash="other"), "belongs to another run: its config_hash is other, this run's is hash0"),
    "test part": (change(test_sha256="u" * 64), f"its test_sha256 is {'u' * 64}, this run's is {TEST}"),
    "one model": (change(right={"last": ""}), "lacks the outcomes of the best model"),
    "not base64": (change(right={"best": "!"}), "lacks the outcomes of the best model"),
    "more samples": (change(samples=1009), "has 126 bytes of outcomes for 1009 samples"),
    "no samples": (change(samples=0), "has 126 bytes of outcomes for 0 samples"),
    "part of a sample": (change(samples=1002.5), "has 126 bytes of outcomes for 1002.5 samples"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_named(tmp_path, kind):
    run, _ = finished(tmp_path)
    damage, words = DAMAGE[kind]
    damage(run.test_outcomes)
    with pytest.raises(DamagedFile, match=rf"test_outcomes\.json .*{words}"):
        read_test_outcomes(tmp_path, "best")


@pytest.mark.parametrize("kind", UNSEALED)
def test_a_damaged_file_without_checksums_is_named(tmp_path, kind):
    run, _ = finished(tmp_path)
    damage, words = UNSEALED[kind]
    damage(run.test_outcomes)
    rewrite_status(tmp_path)
    with pytest.raises(DamagedFile, match=rf"test_outcomes\.json .*{words}"):
        read_test_outcomes(tmp_path, "best")


@pytest.mark.parametrize("sealed", [True, False])
def test_another_runs_file_is_refused(tmp_path, sealed):
    run, _ = finished(tmp_path / "a")
    other, _ = finished(tmp_path / "b", seed=1)
    shutil.copy(other.test_outcomes, run.test_outcomes)
    if not sealed:
        rewrite_status(run.path)
    with pytest.raises(DamagedFile, match=r"test_outcomes\.json .*another run"):
        read_test_outcomes(run.path, "last")


def test_an_environment_without_the_hash_is_named(tmp_path):
    run, _ = finished(tmp_path)
    run.env.write_text("{}")
    with pytest.raises(DamagedFile, match=r"env\.json lacks the hash of the test part"):
        read_test_outcomes(tmp_path, "last")
