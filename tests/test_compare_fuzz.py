"""Whatever lies in a run folder, the comparison is made, and says of each file that it cannot read what is wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("scipy")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.compare.reading.collection import collect
from experiments.compare.reading.learning_curves import read_curves
from run_folders import write_run

NUMBERS = st.one_of(
    st.floats(), st.integers(-(2**70), 2**70), st.sampled_from(["NaN", "Infinity", "-Infinity", "x", "", None, True])
)
TAGS = st.sampled_from(["loss/train", "loss/val", "accuracy/val", "grad_norm/total", "op/a/flip_rate", "μ", "", "step"])
VALUES = st.one_of(NUMBERS, st.lists(NUMBERS, max_size=2), st.dictionaries(TAGS, NUMBERS, max_size=2))
STEPS = st.one_of(st.integers(-2, 30), NUMBERS)
FILES = ("metrics.jsonl", "status.json", "result.json", "env.json", "config.yaml")


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """A file of metrics, line by line right, odd or damaged, and perhaps cut short."""
    rows = draw(st.lists(st.tuples(STEPS, st.dictionaries(TAGS, VALUES, max_size=4)), max_size=8))
    content = "".join(json.dumps({"step": step, **values}) + "\n" for step, values in rows).encode()
    content += draw(st.sampled_from([b"", b"{", b"[]\n", b"\0\0\0", b"null\n", b"\xff\xfe\n", b'{"step": 1}\n']))
    return content[: draw(st.integers(0, len(content)))] if draw(st.booleans()) else content


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """A sound file with some bytes changed, left out or put in."""
    place = draw(st.integers(0, len(content)))
    return content[:place] + draw(st.binary(max_size=4)) + content[place + draw(st.integers(0, 40)) :]


def check(root: Path, name: str, content: bytes) -> None:
    (root / "odd" / name).write_bytes(content)
    found = collect([root])
    assert "sound" in {run.path.name for run in found.runs}
    assert len(found.runs) + len(found.notes) >= 2
    for run in found.runs:
        curves = read_curves(run)
        for tag in ("loss/train", "accuracy/val"):
            assert len(curves.steps(tag)) == len(curves.values(tag))


def examine(root: Path, data: st.DataObject) -> None:
    shutil.rmtree(root / "odd", ignore_errors=True)
    write_run(root / "odd", seed=1)
    name = data.draw(st.sampled_from(FILES))
    sound = (root / "odd" / name).read_bytes()
    check(root, name, data.draw(logs() if name == FILES[0] and data.draw(st.booleans()) else damaged(sound)))


def fuzz(root: Path, examples: int) -> int:
    write_run(root / "sound", seed=0)
    read = 0

    @given(st.data())
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def run(data: st.DataObject) -> None:
        nonlocal read
        examine(root, data)
        read += 1

    run()
    assert read >= examples
    return read


def test_a_few_files(tmp_path: Path) -> None:
    fuzz(tmp_path, 40)


@pytest.mark.nightly
def test_two_thousand_files(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    record_property("odd or damaged files read", fuzz(tmp_path, 2000))
