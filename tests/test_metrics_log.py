"""`metrics.jsonl`: strict, exact, and one continuous record whatever kills the process."""

import json
import logging
import math
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from experiments.tracking.metrics import MetricsLog, last_values, read_metrics
from experiments.tracking.run_errors import LogChanged

ROOT = Path(__file__).parents[1]


def log_steps(path, steps, resume_at=None, value=0.1):
    log = MetricsLog(path, resume_at)
    for step in steps:
        log.write(step, {"loss/train": value * step, "accuracy/val": 0.5})
    log.sync()
    log.close()


def test_a_line_is_the_step_and_then_the_tags_in_order(tmp_path):
    log_steps(tmp_path / "m.jsonl", [0, 3])
    lines = (tmp_path / "m.jsonl").read_text().splitlines()
    assert lines[1] == '{"step": 3, "loss/train": 0.30000000000000004, "accuracy/val": 0.5}'
    assert last_values(read_metrics(tmp_path / "m.jsonl")) == {"loss/train": 0.30000000000000004, "accuracy/val": 0.5}


def test_numbers_that_are_not_finite_stay_visible(tmp_path):
    """H04, the part of metrics.jsonl: strict JSON in the file, the same numbers when read."""
    log = MetricsLog(tmp_path / "m.jsonl")
    log.write(1, {"a": math.nan, "b": math.inf, "c": -math.inf})
    log.close()
    text = (tmp_path / "m.jsonl").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"step": 1, "a": "NaN", "b": "Infinity", "c": "-Infinity"}
    (record,) = read_metrics(tmp_path / "m.jsonl")
    assert math.isnan(record["a"])
    assert (record["b"], record["c"]) == (math.inf, -math.inf)


def test_a_killed_process_loses_no_line(tmp_path):
    """H05, the part of metrics.jsonl."""
    code = """
import os, signal, sys
from experiments.tracking.metrics import MetricsLog
log = MetricsLog(sys.argv[1])
for step in range(50):
    log.write(step, {"loss/train": step})
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "m μ.jsonl")], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [record["step"] for record in read_metrics(tmp_path / "m μ.jsonl")] == list(range(50))


def test_a_damaged_file_is_an_error_and_not_a_short_curve(tmp_path):
    """H06, the part of the source of truth: the reader names the line; a report reads this file, not the events."""
    path = tmp_path / "m.jsonl"
    log_steps(path, range(5))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x80
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"m\.jsonl, line 3 is damaged"):
        read_metrics(path)
    with pytest.raises(LogChanged, match=r"m\.jsonl line 3 is damaged"):
        MetricsLog(path, resume_at=4)
    log_steps(path, [2], resume_at=1)
    assert len(read_metrics(path)) == 3


@pytest.mark.parametrize(
    "value", [None, "soon", [1.0], torch.tensor([]), torch.tensor([1.0, 2.0]), 1j, 10**400], ids=str
)
def test_an_odd_value_is_skipped_and_counted(tmp_path, value, caplog):
    """H09, the part of scalars; histograms are not logged."""
    log = MetricsLog(tmp_path / "m.jsonl")
    with caplog.at_level(logging.WARNING):
        for step in range(3):
            log.write(step, {"odd": value, "loss/train": torch.tensor(1.5, dtype=torch.bfloat16)})
    assert log.skipped == {"odd": 3}
    assert [record.getMessage()[:25] for record in caplog.records] == ["odd at step 0 is left out"]
    log.close()
    assert read_metrics(tmp_path / "m.jsonl") == [{"step": step, "loss/train": 1.5} for step in range(3)]


def test_every_float64_comes_back_bit_for_bit(tmp_path):
    """H10, the part of metrics.jsonl; a fractional step is refused."""
    values = [16777217.0, 1e-50, 1e39, 0.1, 5e-324, -0.0, 1.7976931348623157e308, 2.0**-1074]
    log = MetricsLog(tmp_path / "m.jsonl")
    log.write(0, {str(index): value for index, value in enumerate(values)})
    with pytest.raises(TypeError):
        log.write(1.7, {})
    log.close()
    (record,) = read_metrics(tmp_path / "m.jsonl")
    assert [float.hex(record[str(index)]) for index in range(len(values))] == [float.hex(value) for value in values]


@pytest.mark.parametrize("torn", ["", '{"step": 12, "loss/tr', "\0\0\0"])
def test_a_resumed_file_equals_that_of_an_uninterrupted_run(tmp_path, torn):
    log_steps(tmp_path / "whole.jsonl", range(20))
    log_steps(tmp_path / "cut.jsonl", range(12), value=0.1)
    with open(tmp_path / "cut.jsonl", "a") as file:
        file.write(torn)
    assert len(read_metrics(tmp_path / "cut.jsonl")) == 12
    log_steps(tmp_path / "cut.jsonl", range(9, 20), resume_at=8)
    assert (tmp_path / "cut.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_new_log_starts_empty_and_a_resumed_one_needs_its_file(tmp_path):
    log_steps(tmp_path / "m.jsonl", range(5))
    log_steps(tmp_path / "m.jsonl", [7])
    assert len(read_metrics(tmp_path / "m.jsonl")) == 1
    with pytest.raises(LogChanged, match="No such file"):
        MetricsLog(tmp_path / "none.jsonl", resume_at=3)
    assert not (tmp_path / "none.jsonl").exists()


def test_each_step_is_logged_once(tmp_path):
    log = MetricsLog(tmp_path / "m.jsonl")
    log.write(4, {"loss/train": 1})
    for step in (3, 4):
        with pytest.raises(ValueError, match=f"step {step} comes after step 4"):
            log.write(step, {"loss/val": 1})
    with pytest.raises(ValueError, match="'step'"):
        log.write(5, {"step": 1})
    log.close()
    with pytest.raises(ValueError, match="step 4 comes after step 4"):
        MetricsLog(tmp_path / "m.jsonl", resume_at=4).write(4, {})
