"""The benchmarks measure what they say: their peers have the same values and derivatives, every op is met."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from products import OP_CLASSES
from surrogates.members import ops, strategies

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch):
    """The benchmarks' modules by name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def printed(script: str, *arguments: str) -> str:
    command = [sys.executable, str(BENCHMARKS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_members_are_those_of_the_packages() -> None:
    assert ops() == OP_CLASSES
    assert {"subgradient", "ste", "smooth", "rewrite"} <= set(strategies())
    assert "tempered" not in strategies()


def test_minimal_functions_have_the_same_value_and_derivative(scripts) -> None:
    bench, least, timing = scripts("ops"), scripts("minimal"), scripts("timing")
    torch.manual_seed(0)
    checked, fallen_back = 0, set()
    for stem, op in bench.elementwise(set()).items():
        if not bench.exists(bench.StraightThrough(), op):
            continue
        x, ours = bench.inputs_of(op, 200), bench.under(bench.StraightThrough(), op)
        peer, own = least.minimal(stem, ours, op.hard, x)
        assert torch.allclose(peer(*x), ours(*x)), stem
        for a, b in zip(timing.derivatives(peer, x), timing.derivatives(ours, x), strict=True):
            assert torch.allclose(a, b, atol=1e-4), stem
        fallen_back |= {stem} if own else set()
        checked += 1
    assert checked >= 14
    assert not fallen_back & {*least.VALUES, *least.BACKWARDS}


def test_saved_bytes_count_each_tensor_once(scripts) -> None:
    timing = scripts("timing")
    (x,) = timing.inputs((100,))
    assert timing.saved_bytes(torch.tanh, [x]) == 1
    assert timing.saved_bytes(lambda x: x * x, [x]) == 1
    assert timing.saved_bytes(lambda x: x * x.detach().exp(), [x]) == 1
    assert timing.saved_bytes(lambda x: (x.sin() * x).tanh(), [x]) == 3


def test_verdicts_of_the_peer_table(scripts) -> None:
    peers = scripts("peers")
    line = {"name": "a / b", "ours": 1.0, "peer": 2.0, "ratio": 0.5, "value": 0.0, "derivative": 0.0, "pairs": 15}
    assert "| win |" in peers.row("p", {**line, "low": 0.4, "high": 0.6})
    assert "| **loss** |" in peers.row("p", {**line, "low": 1.1, "high": 1.6})
    assert "| even |" in peers.row("p", {**line, "low": 0.9, "high": 1.6})
    assert "| too few pairs |" in peers.row("p", {**line, "low": 0.4, "high": 0.6, "pairs": 14})
    assert "differs" in peers.row("p", {**line, "low": 0.9, "high": 1.6, "derivative": float("nan")})
    assert "not measured" in peers.row("p", {"name": "a", "error": "ImportError"})
    assert {row.count("|") for row in (*peers.HEADER.splitlines(), peers.row("p", {"name": "a", "error": "e"}))} == {8}


def test_a_missing_environment_is_a_line_of_the_table(scripts, tmp_path: Path) -> None:
    peers = scripts("peers")
    (line,) = peers.measured("entmax", tmp_path / "entmax" / "bin" / "python", [])
    assert "make it with --make" in line["error"]
    (line,) = peers.measured("entmax", Path(sys.executable), [])
    assert "entmax" in line["error"]
    assert set(peers.PACKAGES) == set(scripts("peer_cases").PEERS)


@pytest.mark.slow
def test_ops_benchmark_runs_and_meets_every_elementwise_op() -> None:
    out = printed("ops.py", "--size", "64", "--side", "4", "--pairs", "2", "--threads", "1")
    stems = set(re.findall(r"`(?:ste|smooth)` on (\w+)", out))
    assert {stem for stem, cls in ops().items() if cls.elementwise} <= stems
    assert out.count("kept for backward") == 1


@pytest.mark.slow
def test_planning_benchmark_divides_what_a_job_costs_beyond_its_training() -> None:
    out = printed("planning.py", "--jobs", "8", "--pairs", "1")
    ours = float(re.findall(r"Hydra's composition \+ 10 ms \| ([\d.]+)", out)[0])
    parts = [float(value) for value in re.findall(r"^\| (?:planning|opening|closing) \| ([\d.]+)", out, re.M)]
    assert len(parts) == 3
    assert sum(parts) == pytest.approx(ours, rel=0.02)  # both have three digits


@pytest.mark.slow
def test_a_wrong_name_is_told() -> None:
    for script, option in (("ops.py", "flor"), ("peers.py", "softjax")):
        arguments = ["--only", option] + (["--make", "nowhere"] if script == "peers.py" else [])
        done = subprocess.run([sys.executable, str(BENCHMARKS / script), *arguments], capture_output=True, text=True)
        assert done.returncode == 2
        assert option in done.stderr
        assert "there are:" in done.stderr
