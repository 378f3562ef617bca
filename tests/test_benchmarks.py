"""The benchmarks measure what they say: their peers have the same values and derivatives, every op has its row."""

import importlib
import os
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


def run(script: str, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(BENCHMARKS / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_members_are_those_of_the_packages() -> None:
    assert ops() == OP_CLASSES
    assert {"subgradient", "ste", "smooth", "rewrite"} <= set(strategies())
    assert "tempered" not in strategies()


def test_minimal_functions_have_the_same_value_and_derivative(scripts) -> None:
    bench = scripts("ops")
    torch.manual_seed(0)
    assert set(bench.PEERS) == {"round", "floor", "ceil", "sign", "heaviside", "quantize", "clamp"}
    for stem in bench.PEERS:
        x = bench.numbers(200)
        ours, peer = bench.straight_through(stem)(x), bench.minimal(stem)(x)
        assert torch.allclose(peer, ours), stem
        slopes = [torch.autograd.grad(value.sum(), x)[0] for value in (ours, peer)]
        assert torch.allclose(*slopes, atol=1e-4), stem


def test_saved_bytes_count_each_tensor_once(scripts) -> None:
    timing = scripts("timing")
    x = torch.randn(100, requires_grad=True)
    assert timing.saved_bytes(torch.tanh, x) == 1
    assert timing.saved_bytes(lambda x: x * x, x) == 1
    assert timing.saved_bytes(lambda x: x * x.detach().exp(), x) == 1
    assert timing.saved_bytes(lambda x: (x.sin() * x).tanh(), x) == 3


def test_used_bytes_include_an_allocation_that_is_not_kept(scripts) -> None:
    timing = scripts("timing")
    x = torch.randn(100, requires_grad=True)
    assert timing.bytes_used(lambda x: x + (x.detach() - x.detach()[:, None]).sum(0), x) >= 100


def test_verdict_of_a_bound(scripts) -> None:
    pairs = scripts("pairs")
    row = {"name": "a / b", "ours": 1.0, "peer": 2.0, "ratio": 0.5, "high": 1.6, "bound": 1.0}
    assert "| yes |" in pairs.Ratio(**row, low=0.4, pairs=15).row()
    assert "| **no** |" in pairs.Ratio(**row, low=1.1, pairs=15).row()
    assert "| too few pairs |" in pairs.Ratio(**row, low=0.4, pairs=14).row()


def test_a_row_of_the_peer_table_has_how_far_both_are_apart(scripts) -> None:
    peers = scripts("peers")
    line = {"name": "a", "ours": 1.0, "peer": 2.0, "ratio": 0.5, "low": 0.4, "high": 0.6, "bound": 1.0, "pairs": 15}
    same = peers.row("p", {**line, "value": 0.0, "derivative": 1e-6})
    assert same.startswith("| a / p |")
    assert "differs" not in same
    assert "differs" in peers.row("p", {**line, "value": 0.0, "derivative": float("nan")})
    failed = peers.row("p", {"name": "a", "error": "ImportError"})
    assert "not measured" in failed
    assert {row.count("|") for row in (*peers.PEER_HEADER.splitlines(), same, failed)} == {8}


@pytest.mark.slow
def test_a_missing_environment_is_a_line_of_the_table(scripts, tmp_path: Path) -> None:
    peers = scripts("peers")
    (line,) = peers.measured("brevitas", tmp_path / "brevitas" / "bin" / "python", [])
    assert "make it with --make" in line["error"]
    (line,) = peers.measured("brevitas", Path(sys.executable), [])
    assert "brevitas" in line["error"]
    assert set(peers.PACKAGES) == set(scripts("peer_cases").PEERS)


def test_a_sweep_is_estimated_from_the_time_between_the_ends_of_two_runs(scripts, tmp_path: Path) -> None:
    sweep = scripts("sweep")
    for name, end in {"a": 100, "b": 103, "c": 110, "d": 115}.items():
        (tmp_path / name).mkdir()
        for file, before in (("status.json", 1), ("result.json", 0)):
            (tmp_path / name / file).touch()
            os.utime(tmp_path / name / file, (end - before, end - before))
    assert sweep.run_ends(tmp_path) == [100, 103, 110, 115]
    assert sweep.further(sweep.run_ends(tmp_path), seeds=16) == 14 * (3 + 5)


@pytest.mark.slow
def test_ops_benchmark_runs_and_has_a_row_for_every_elementwise_op() -> None:
    done = run("ops.py", "--size", "64", "--side", "4", "--pairs", "2")
    assert done.returncode == 0, done.stderr
    stems = set(re.findall(r"`smooth` on (\w+) / `tanh`", done.stdout))
    assert stems == {stem for stem, cls in ops().items() if cls.elementwise}
    assert done.stdout.count("bytes over those of the row") == 2
    assert done.stdout.count("64 x 64") == done.stdout.count("in `through`") == 1


@pytest.mark.nightly
@pytest.mark.parametrize("script", ["step.py", "startup.py"])
def test_benchmark_of_train_py_prints_its_row(script: str) -> None:
    done = run(script, "--pairs", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("too few pairs") == 1


@pytest.mark.nightly
def test_benchmark_of_resnet_in_through_and_converted_prints_its_rows() -> None:
    done = run("own_model.py", "--batch", "2", "--pairs", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("too few pairs") == done.stdout.count("ResNet-18 step") == 5


@pytest.mark.nightly
def test_sweep_benchmark_prints_its_row() -> None:
    done = run("sweep.py", "--pairs", "1", "--steps", "10", "--width", "32")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("too few pairs") == 1


def test_an_unknown_peer_is_named() -> None:
    done = run("peers.py", "--only", "softjax", "--make", "nowhere")
    assert done.returncode == 2
    assert "softjax" in done.stderr
    assert "there are:" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_the_benchmark_of_a_card_says_where_there_is_none() -> None:
    done = run("gpu.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "finds no CUDA device" in done.stderr


def test_the_benchmark_of_a_card_compares_every_pair(scripts, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU against itself; a number that is off is named."""
    pairs = scripts("gpu_pairs")
    assert {stem for stem in ops() if any(name.endswith(f" on {stem}") for name, _, _ in pairs.pairs())} == set(ops())
    some = [pair for pair in pairs.pairs() if pair[0].endswith((" on round", " on sort"))]
    monkeypatch.setattr(pairs, "pairs", lambda: iter(some))
    assert [line.partition(" pairs, at most 0.0e+00 apart")[1] != "" for line, _ in pairs.laws("cpu", Path())] == [
        True
    ] * 2
    assert all(good for _, good in list(pairs.times("cpu", Path())))
    a = torch.tensor([1.0, float("nan")])
    assert pairs.apart(a, a) == 0
    assert pairs.apart(a + 0.5, a) == 0.5
    assert pairs.apart(a.nan_to_num(), a) == float("inf")


@pytest.mark.nightly
def test_the_benchmark_of_a_card_can_be_rehearsed() -> None:
    done = run("gpu.py", "--device", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all checks hold" in done.stdout
