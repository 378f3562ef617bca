"""Runs train.py on a device: repeated, compared with the CPU, killed and resumed, stacked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from experiments.tracking import checkpoint
from experiments.tracking.metrics import read_metrics
from experiments.tracking.run_paths import RunPaths

ROOT = Path(__file__).resolve().parents[1]
STRATEGIES = ("subgradient", "ste", "smooth", "rewrite", "gumbel")  # the last one draws noise
PRECISIONS = ("float32", "bfloat16", "float16")
COMPONENT = "component=hard_gate"  # all five strategies apply to it
CLOSE = 0.05  # the largest allowed distance of noiseless float32 training losses from the CPU's, in nats
SUBDIR = "hydra.sweep.subdir=${hydra:runtime.choices.strategy}-${precision}"
PATIENCE = 240  # seconds that one command may take


def run(*arguments: str, patience: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """Runs `python train.py ARGUMENTS`."""
    line = [sys.executable, str(ROOT / "train.py"), *arguments]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=patience)


def steps(device: str) -> list[str]:
    """Returns the steps of a run; few in a rehearsal."""
    short, long = ("max_steps=12", "log_every=4", "eval_every=6"), ("max_steps=300", "log_every=10", "eval_every=100")
    return [*(short if device == "cpu" else long), f"device={device}"]


def train(device: str, folder: Path) -> Iterator[tuple[str, bool]]:
    """Trains all strategies in all precisions twice on the device, and the float32 runs on the CPU."""
    product = f"strategy={','.join(STRATEGIES)}", f"precision={','.join(PRECISIONS)}"
    names = [(strategy, precision) for strategy in STRATEGIES for precision in PRECISIONS]
    for name in ("first", "second"):
        began = time.monotonic()
        done = run("-m", COMPONENT, *product, *steps(device), f"hydra.sweep.dir={folder / name}", SUBDIR)
        warnings = sorted({line.strip() for line in done.stderr.splitlines() if "Warning" in line})
        yield f"- {len(names)} runs: exit code {done.returncode}, {time.monotonic() - began:.0f} s", not done.returncode
        for line in warnings:
            yield f"- {line}", False
    cpu = [*steps(device)[:-1], "device=cpu"]
    run("-m", COMPONENT, product[0], "precision=float32", *cpu, f"hydra.sweep.dir={folder / 'cpu'}", SUBDIR)
    yield "\n| strategy | precision | accuracy/val | twice the same bytes | loss from the CPU's curve |", True
    yield "|---|---|---|---|---|", True
    for strategy, precision in names:
        first, second, cpu_run = (folder / root / f"{strategy}-{precision}" for root in ("first", "second", "cpu"))
        equal = same(first, second)
        apart = distance(first, cpu_run) if precision == "float32" else None
        accuracy = json.loads((first / "result.json").read_text())["metrics"]["accuracy/val"]
        near = apart is None or strategy == "gumbel" or apart <= CLOSE
        shown = "-" if apart is None else f"{apart:.1e}"
        yield f"| {strategy} | {precision} | {accuracy:.3f} | {'yes' if equal else 'no'} | {shown} |", equal and near


def resume(device: str, folder: Path) -> Iterator[tuple[str, bool]]:
    """Stops a run, kills it, and resumes it each time; compares it with an undisturbed run."""
    longer = [COMPONENT, "strategy=gumbel", "optimizer=adam", *steps(device), "max_steps=2000", "log_every=1"]
    whole, cut = folder / "whole", folder / "cut"
    for signum, lines in ((signal.SIGTERM, 20), (signal.SIGKILL, 200)):
        code = interrupt([*longer, f"hydra.run.dir={cut}"], cut / "metrics.jsonl", signum, lines)
        yield f"- {signum.name} at step {count_lines(cut / 'metrics.jsonl')}: exit code {code}", code not in (0, 1, 2)
    codes = [run(*longer, f"hydra.run.dir={place}").returncode for place in (cut, whole)]
    yield f"- resumed, and undisturbed: exit codes {codes}", codes == [0, 0]
    equal = same(cut, whole)
    yield f"- log, result and final state are the same: {'yes' if equal else 'no'}", equal


def interrupt(arguments: list[str], log: Path, signum: signal.Signals, lines: int) -> int:
    """Sends a run a signal once it has logged so many lines; returns its exit code."""
    line = [sys.executable, str(ROOT / "train.py"), *arguments]
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + PATIENCE
    while count_lines(log) < lines and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signum)
    return process.wait(PATIENCE)


def stacked_sweeps(device: str, folder: Path) -> Iterator[tuple[str, bool]]:
    """Trains eight runs as one stack in one process, and as two stacks in two; CUDA must not start before the fork."""
    product = (COMPONENT, "strategy=ste", "seed=range(8)", "engine=stacked", "hydra/launcher=stacked")
    yield "| workers | exit code | runs done | seconds |\n|---|---|---|---|", True
    for workers in (1, 2):
        root, began = folder / f"{workers}", time.monotonic()
        done = run("-m", *product, *steps(device), f"workers={workers}", f"hydra.sweep.dir={root}")
        results = [json.loads(file.read_text()) for file in root.rglob("result.json")]
        good = sum(result["engine"] == "stacked" for result in results)
        row = f"| {workers} | {done.returncode} | {good} of 8 | {time.monotonic() - began:.0f} |"
        yield row, done.returncode == 0 and good == 8


def count_lines(log: Path) -> int:
    """Counts the lines of a log."""
    return len(log.read_bytes().splitlines()) if log.exists() else 0


def same(run: Path, other: Path) -> bool:
    """Whether two finished runs have the same log and result, byte for byte, and the same final state."""
    files = all((run / name).read_bytes() == (other / name).read_bytes() for name in ("metrics.jsonl", "result.json"))
    states = (checkpoint.load(RunPaths(folder).last_checkpoint)["trainer"] for folder in (run, other))
    return files and equal(*states)


def equal(left: Any, right: Any) -> bool:
    """Whether two states are equal in every tensor, container and number."""
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)


def distance(run: Path, other: Path) -> float:
    """Returns the largest difference of the training losses at a logged step."""
    curves = [read_metrics(folder / "metrics.jsonl") for folder in (run, other)]
    pairs = zip(*curves, strict=True)
    return max(abs(a["loss/train"] - b["loss/train"]) for a, b in pairs if "loss/train" in a)
