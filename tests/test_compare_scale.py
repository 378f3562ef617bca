"""Many runs: the report is made, all of it, within the memory of a small machine."""

import csv
import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from compare_scale import make, measure

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.mark.parametrize(
    ("runs", "points"),
    [
        pytest.param(120, 20, marks=pytest.mark.slow),
        pytest.param(1_000, 200, marks=pytest.mark.nightly),
        pytest.param(10_000, 200, marks=pytest.mark.nightly),
    ],
)
def test_every_file_of_the_report_is_written(tmp_path, runs, points):
    """The memory is that of all processes together; no time is asserted, since a test's machine is shared."""
    make(tmp_path / "runs", runs, points)
    used = measure([str(tmp_path / "runs"), "--out", str(tmp_path / "report")])
    assert 100 < used.memory < 1000
    names = {path.name for path in (tmp_path / "report").rglob("*") if path.is_file()}
    assert runs > 1_000 or (tmp_path / "report" / "report.html").stat().st_size < 5_000_000
    assert {"report.html", "report.md", "report.json", "curves.csv", "differences.csv", "scores.csv"} < names
    kinds = ("curves", "layers", "differences")
    assert {f"{block}_{kind}.{form}" for block in range(5) for kind in kinds for form in ("svg", "png")} < names
    with open(tmp_path / "report" / "runs.csv", newline="") as file:
        assert sum(1 for _ in csv.DictReader(file)) == runs
