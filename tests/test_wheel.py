"""The package as a user gets it: a wheel and an editable install, each used from an empty folder."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from runs import ROOT

pytestmark = pytest.mark.slow

USER = """\
import torch

import hardgrad as hg
import surrogates as sg
from torch import Tensor, nn

x = torch.tensor([0.4, 1.6], requires_grad=True)
y: Tensor = hg.round(x, "ste")
layer: nn.Module = hg.HardLayer(sg.ops.Quantize(bits=4), hg.strategies.Smooth(temperature=0.5))
pool = hg.layers.HardMaxPool("smooth", k=2)
run: hg.Run = hg.train("component=floor", strategy="ste", max_steps=2, folder="python", quiet=True)
runs: list[float] = [one.accuracy for one in hg.sweep(seed=range(2), max_steps=2, folder="sweep", quiet=True)]
trained: nn.Module = run.model
names: list[str] = hg.options("strategy")
print(run.accuracy, runs, names, hg.load(run.folder), hg.compare("sweep", baseline="ste"))
print(hg.__version__, y.detach().tolist(), layer, hg.convert(nn.Sequential(nn.ReLU()), "ste"))
"""
WRONG = "import hardgrad as hg\n\nhg.strategies.Smooth(temprature=1.0)\nhg.strategies.Smoth()\nhg.HardLayer(1, 'ste')\n"
WRONG += "hg.train(folder=3)\n"


def build(kind: str, folder: Path) -> Path:
    """Installs the project into a new environment that sees the packages of this one; its folder.

    No index is asked: dependencies come from this environment, by a .pth file.
    """
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    site = next((environment / "lib").glob("python3*/site-packages"))
    own = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "packages_of_the_tests.pth").write_text(f"{own}\n")
    source = folder / "checkout"
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    for name in tracked.stdout.split():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "-q"]
    what = ["-e", source]
    if kind == "wheel":
        pip(environment, "wheel", *offline, "--wheel-dir", folder, source)
        what = [next(folder.glob("*.whl"))]
    pip(environment, "install", *offline, *what)
    return environment


def pip(environment: Path, *arguments: object) -> None:
    """As the README's commands do, with the pip of the Python that the environment was made with."""
    line = [Path(sys.base_prefix, "bin", "python3"), "-m", "pip", "--python", environment, *arguments]
    done = subprocess.run(list(map(str, line)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def run(environment: Path, cwd: Path, *line: object) -> subprocess.CompletedProcess:
    cwd.mkdir(exist_ok=True)
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    words = [str(environment / "bin" / line[0]), *map(str, line[1:])]
    return subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """What mypy finds out about torch, once for both kinds."""
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.parametrize("kind", ["wheel", pytest.param("editable", marks=pytest.mark.nightly)])
def test_an_installed_copy_trains_and_is_typed(kind, tmp_path, cache):
    environment = build(kind, tmp_path)
    empty = tmp_path / "empty"
    trained = run(environment, empty, "hardgrad", "train", "strategy=ste", "max_steps=20", "hydra.run.dir=here")
    assert trained.returncode == 0, trained.stderr
    subprocess.run(
        [sys.executable, ROOT / "train.py", "strategy=ste", "max_steps=20", "hydra.run.dir=there"],
        cwd=empty,
        check=True,
        capture_output=True,
    )
    for name in ("result.json", "metrics.jsonl", "config.yaml"):
        assert (empty / "here" / name).read_bytes() == (empty / "there" / name).read_bytes()
    assert json.loads((empty / "here" / "status.json").read_text())["status"] == "DONE"
    wrong = run(environment, empty, "hardgrad", "trian")
    assert (wrong.returncode, wrong.stderr.splitlines()[0]) == (2, "error: there is no command 'trian'")

    (empty / "user.py").write_text(USER)
    (empty / "wrong.py").write_text(WRONG)
    used = run(environment, empty, "python", "user.py")
    assert used.returncode == 0, used.stderr
    assert "Quantize(), Smooth(temperature=0.5)" in used.stdout
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", environment / "bin" / "python"]
    checked = subprocess.run(
        [*mypy, "--cache-dir", cache, "user.py", "wrong.py"], cwd=empty, capture_output=True, text=True
    )
    wrong_lines = {":".join(line.split(":")[:2]) for line in checked.stdout.splitlines() if ": error: " in line}
    assert wrong_lines == {"wrong.py:3", "wrong.py:4", "wrong.py:5", "wrong.py:6"}, checked.stdout


def test_the_wheel_holds_the_options_and_the_types(tmp_path):
    build("wheel", tmp_path)
    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    options = {
        f"experiments/{path.relative_to(ROOT)}" for path in (ROOT / "conf").rglob("*.yaml") if "local" not in path.parts
    }
    assert options <= names
    assert {f"{package}/py.typed" for package in ("hardgrad", "surrogates", "experiments")} <= names
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {
        "experiments", "hardgrad", "hydra_plugins", "surrogates",
    }  # fmt: skip
