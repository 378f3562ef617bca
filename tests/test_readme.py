"""The commands of the README run as they are typed, at reduced size and in the order of the page."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from test_cli import ENVIRONMENT

from runs import CONF, ROOT

pytest.importorskip("scipy")

README = (ROOT / "README.md").read_text()
TABLE = re.findall(r"^\| [^|]+ \| `((?:python|hardgrad|tensorboard) [^`]+)`", README, re.MULTILINE)
BLOCKS = re.findall(r"^((?:python train.py|hardgrad) .+)$", README, re.MULTILINE)
LONG = ("experiment=gradient_bias",)  # minutes: only planned
WHOLE = ("--help", "dry_run=true", "debug=one_batch")  # short as they are
SHORT = ["max_steps=20", "eval_every=10", "model.width=8"]
SERVERS = ("hardgrad dashboard", "tensorboard")


def line(command: str, folder: Path) -> list[str]:
    """The words of a command, for this interpreter."""
    if "FOLDER" in command:
        finished = next(folder.glob("runs/first/**/result.json")).parent
        command = command.replace("runs/first/FOLDER", str(finished))
    first, *rest = shlex.split(command)
    if first == "tensorboard":
        return [sys.executable, "-m", "tensorboard.main", *rest, "--port", "0"]
    if first == "hardgrad":
        return [sys.executable, "-m", "hardgrad", *rest, *(["--port", "0"] if rest[0] == "dashboard" else [])]
    words = [sys.executable, str(ROOT / rest[0]), *rest[1:]]
    if any(word in rest for word in LONG):
        return [*words, "dry_run=true"]
    return words if any(word in command for word in WHOLE) else [*words, *SHORT]


def run(command: str, folder: Path) -> str:
    done = subprocess.run(
        line(command, folder), cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def serves(command: str, folder: Path) -> bool:
    """Whether a server prints its address; it is stopped then."""
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    server = subprocess.Popen(line(command, folder), cwd=folder, env=ENVIRONMENT, text=True, **both)
    try:
        return any("http://" in said for said in server.stdout)
    finally:
        server.terminate()
        server.communicate(timeout=60)


@pytest.mark.slow
def test_the_commands_of_the_table(tmp_path):
    assert len(TABLE) >= 12
    for command in TABLE:
        if command.startswith(SERVERS):
            assert serves(command, tmp_path), command
        else:
            assert run(command, tmp_path), command
    assert (tmp_path / "report/report.html").exists()


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=m) for n, m in (("strategies", pytest.mark.slow), ("gradient_truth", pytest.mark.nightly))],
)
def test_the_studies_of_the_results(tmp_path, name):
    """Each with one component, one value of each key, and few steps."""
    (study,) = [block for block in BLOCKS if name in block]
    content = yaml.safe_load((CONF / "study" / f"{name}.yaml").read_text())
    content["settings"] |= {"max_steps": 20, "eval_every": 10, "model.width": 8}
    content["grids"] = {key: values[:1] for key, values in content["grids"].items()}
    strategies = "subgradient,ste,smooth,rewrite" if name == "gradient_truth" else "smooth"
    content |= {"pairs": {"all": {"component": "floor", "strategy": strategies}}, "reporting_seeds": [0, 1]}
    (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    run(study.replace(name, f"{name}.yaml"), tmp_path)
    report = (tmp_path / "runs" / "studies" / name / "study.md").read_text()
    assert report.startswith(f"# Study {name}\n\n## Question")
    assert "| component" in report
    assert ("| signal-to-noise |" in report) == (name == "gradient_truth")
