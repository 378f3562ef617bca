"""The examples run from an empty folder, learn what they say, and stay short."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.fixture
def output(tmp_path: Path):
    """What an example prints with a number of steps, run in an empty folder, which it leaves empty."""

    def run(name: str, steps: int) -> str:
        command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--steps", str(steps)]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        result = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
        )
        assert result.returncode == 0, result.stderr
        assert not list(tmp_path.iterdir())
        return result.stdout

    return run


def row(text: str, start: str) -> list[float]:
    """The numbers of the last line that begins with `start`."""
    line = [line for line in text.splitlines() if line.startswith(start)][-1]
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", line.removeprefix(start))]


def losses(text: str, model: str) -> list[float]:
    """The losses printed under the heading of a model."""
    return [float(loss) for loss in re.findall(r"loss (\S+)", re.findall(rf"^{model}\n((?:  .*\n)+)", text, re.M)[0])]


def test_every_example_is_short_and_stands_in_the_table() -> None:
    assert SCRIPTS == ["hard_attention", "resnet_4bit", "spiking", "vqvae"]
    table = (EXAMPLES / "README.md").read_text()
    for name in SCRIPTS:
        text = (EXAMPLES / f"{name}.py").read_text()
        assert len(text.splitlines()) < 80, name
        for page in (text, table):
            assert f"python examples/{name}.py" in page, name


@pytest.mark.nightly
def test_resnet_learns_at_4_bits_under_straight_through(output) -> None:
    text = output("resnet_4bit", 20)
    full, ste, subgradient = (
        losses(text, model) for model in ("full precision", "4 bits, straight-through", "4 bits, subgradient")
    )
    assert full[-1] < 0.5 * full[0]
    assert ste[-1] < 0.5 * ste[0]
    assert ste[-1] < subgradient[-1]
    assert row(text, "4 bits, straight-through")[0] > row(text, "4 bits, subgradient")[0]


@pytest.mark.nightly
def test_vqvae_rebuilds_better_than_the_mean_image(output) -> None:
    text = output("vqvae", 100)
    [mean] = row(text, "the mean image")
    for strategy in ("straight-through", "rotation trick"):
        error, used, codes, perplexity = row(text, strategy)
        assert error < 0.5 * mean
        assert 1 < perplexity <= used <= codes == 64


@pytest.mark.nightly
def test_spiking_net_learns_under_both_kernels(output) -> None:
    text = output("spiking", 150)
    [subgradient] = row(text, "subgradient")
    for kernel in ("fast sigmoid", "triangular"):
        assert row(text, kernel)[0] > subgradient + 10


@pytest.mark.nightly
def test_attention_finds_the_position_under_all_but_the_subgradient(output) -> None:
    text = output("hard_attention", 200)
    assert row(text, "subgradient")[0] < 25
    for strategy in ("ste", "smooth", "rewrite", "gumbel", "reinmax"):
        position, answer = row(text, strategy)
        assert position > 50
        assert answer > 50
