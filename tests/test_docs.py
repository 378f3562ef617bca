"""The documentation is run.

- Lines that start with `#>` in a ```python block are what it prints; a block without any is run only.
- A block whose first line is a comment with a path, `# conf/strategy/leaky.yaml`, is a file.
- A ```text block after a command has lines of its output in their order: words and zeros are compared, other numbers
  are not, because they vary between machines.
- Commands are run for the tour, for adding.md and for own_options.md (`test_own_options.py`); those of other pages may
  be meant for hours. Those of cluster.md are composed.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from doc_blocks import Block, blocks, words_of_commands

from experiments.config.choices import choose
from runs import compose

ROOT = Path(__file__).resolve().parents[1]
TOUR, ADDING = ROOT / "docs" / "tour.md", ROOT / "docs" / "adding.md"
WITH_FILES = (ADDING, ROOT / "docs" / "own_options.md")
PAGES = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if path.exists()]
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")


def python(block: Block, namespace: dict[str, object]) -> None:
    """Runs a block in this process; a traceback names the page and its line."""
    out = io.StringIO()
    code = compile("\n" * block.line + block.text, str(block.page), "exec")
    with contextlib.redirect_stdout(out), torch.random.fork_rng(devices=[]):
        exec(code, namespace)
    compare(block, out.getvalue())


def compare(block: Block, output: str) -> None:
    if block.printed:
        assert output.splitlines() == block.printed, block.where


def commands(block: Block) -> list[list[str]]:
    """The command lines of a bash block, as arguments for this interpreter."""
    split = [shlex.split(line) for line in block.text.splitlines()]
    assert split
    assert all(words[0] == "python" for words in split), block.where
    return [[sys.executable, *words[1:]] for words in split]


def run(arguments: list[str], folder: Path) -> str:
    """What a command prints; it sees neither this run's PYTHONPATH nor its pytest."""
    hidden = ("PYTHONPATH", "PYTEST_", "HYDRA_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    done = subprocess.run(arguments, cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{shlex.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def words_and_zeros(text: str) -> list[str]:
    """Lines without their spacing, numbers other than 0 as #."""
    return [" ".join(NUMBER.sub(lambda m: "#" if float(m[0]) else "0", line).split()) for line in text.splitlines()]


def has_lines(block: Block, output: str) -> None:
    remaining = iter(words_and_zeros(output))
    for line in words_and_zeros(block.text):
        assert line in remaining, f"{block.where}: no line '{line}', in this order, in\n{output}"


@pytest.mark.parametrize("page", [page for page in PAGES if page not in WITH_FILES], ids=lambda page: page.stem)
def test_python_blocks_print_what_they_say(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the tour the part before its training runs."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in blocks(page):
        if page == TOUR and block.language == "bash":
            break
        if block.language == "python":
            assert block.file is None, f"{block.where}: no test writes this file"
            python(block, namespace)


def test_the_tour_is_checked() -> None:
    found = blocks(TOUR)
    assert sum(block.language == "python" for block in found) >= 14
    assert all(block.printed for block in found if block.language == "python")
    assert {block.language for block in found} == {"python", "bash", "text"}


@pytest.mark.slow
def test_the_whole_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its training runs; `python train.py` is that of the project, the runs go to a temporary folder."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "tour"}
    output, ran = "", 0
    for block in blocks(TOUR):
        if block.language == "python":
            python(block, namespace)
        elif block.language == "text":
            has_lines(block, output)
        else:
            for interpreter, script, *rest in commands(block):
                output = run([interpreter, str(ROOT / script), *rest], tmp_path)
                ran += 1
    assert ran == 2


def test_the_commands_for_a_cluster_have_known_keys() -> None:
    """Without the launchers, which need not be installed; of a list of values the first."""
    found = [words[2:] for words in words_of_commands(ROOT / "docs" / "cluster.md") if words[0] == "hardgrad"]
    launchers = {word.partition("=")[2] for words in found for word in words if word.startswith("hydra/launcher=")}
    assert launchers == {"joblib", "submitit_local", "submitit_slurm", "ray"}
    own = {word for words in found for word in words if word != "-m" and not word.startswith("hydra")}
    by_key = dict(re.sub(r"range\(\d+\)", "0", word).partition(",")[0].split("=") for word in own)
    assert len(by_key) >= 6
    choose(compose(*[f"{key}={value}" for key, value in by_key.items()]))


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the files of adding.md written into it."""
    copy = tmp_path_factory.mktemp("copy")
    for name in ("hardgrad", "surrogates", "experiments", "hydra_plugins", "conf", "benchmarks", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "local", "test_docs.py"))
    for name in ("train.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy / name)
    for block in blocks(ADDING):
        if block.file:
            path = copy / block.file
            assert path.parent.is_dir(), f"{block.where}: no folder {path.parent.name}"
            assert not path.exists(), f"{block.where}: {block.file} exists already"
            path.write_text(block.text.partition("\n")[2])
    return copy


def test_adding_has_a_complete_example_of_each_kind() -> None:
    found = {block.file for block in blocks(ADDING)} - {None}
    for code, conf in (
        ("surrogates/layers", "conf/component"),
        ("surrogates/strategies", "conf/strategy"),
        ("experiments/models", "conf/model"),
        ("experiments/data", "conf/data"),
    ):
        stems = {Path(file).stem for file in found if Path(file).parent == Path(code)}
        assert stems == {Path(file).stem for file in found if Path(file).parent == Path(conf)}
        assert len(stems) == 1
    assert sum(file.startswith("surrogates/ops/") for file in found) == 1


@pytest.mark.slow
def test_python_blocks_of_adding_print_what_they_say(extended: Path) -> None:
    found = [block for block in blocks(ADDING) if block.language == "python" and not block.file]
    assert found
    for block in found:
        compare(block, run([sys.executable, "-c", block.text], extended))


COMMANDS = [words for block in blocks(ADDING) if block.language == "bash" for words in commands(block)]


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(COMMANDS)))
def test_commands_of_adding(index: int, extended: Path) -> None:
    """Trainings with 20 steps; the laws as they are typed."""
    arguments = COMMANDS[index]
    short = ["max_steps=20"] if arguments[1] == "train.py" else []
    output = run([*arguments, *short], extended)
    assert "NOT_APPLICABLE" not in output
    sweep = "-m" in arguments
    assert (" validation," if short and sweep else "/20 " if short else " passed") in output
