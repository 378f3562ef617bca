"""Measures the comparison of many runs: wall and CPU seconds, and peak memory of all its processes together.

The runs are artificial, with 200 logged points each. Memory is the sum of the resident sets, read ten times a second;
memory that processes share counts once for each.

Usage: python benchmarks/compare_scale.py [--runs 1000] [--points 200]   needs the `compare` extra
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from run_folders import write_run

ROOT = Path(__file__).resolve().parents[1]
COMPONENTS = ("quantized_activation", "hard_max", "hard_gate", "floor", "binary")
STRATEGIES = ("subgradient", "ste", "smooth", "rewrite")
LAYERS = ("blocks.0", "blocks.1")


def rows(points: int, draws: np.random.Generator, level: float) -> list[dict[str, float]]:
    """Makes logged steps with the tags of a two-layer model."""
    found: list[dict[str, float]] = [{"step": 1, "loss/train": 2.3, "grad_norm/total": 1.0}]
    for index in range(1, points + 1):
        noise = draws.normal(size=12)
        row = {"step": 10 * index, "loss/train": 2 / index + 0.01 * abs(noise[0]), "grad_norm/total": abs(noise[1])}
        row |= {f"grad_norm/{layer}.weight": abs(noise[2 + i]) for i, layer in enumerate(LAYERS)}
        for i, layer in enumerate(LAYERS):
            names = ("grad_in_norm", "grad_out_norm", "zero_gradient_fraction", "saturated_fraction")
            row |= {f"op/{layer}/{name}": abs(noise[4 + i]) for name in names}
        if index % 10 == 0:
            accuracy = level * index / points + 0.01 * noise[8]
            row |= {"loss/val": 1 / index, "accuracy/val": accuracy, "accuracy/val_soft": accuracy + 0.01}
        found.append({key: float(value) for key, value in row.items()} | {"step": 10 * index})
    return found


def make(folder: Path, runs: int, points: int) -> None:
    """Writes the run folders: components, strategies, and as many seeds as are needed."""
    draws = np.random.default_rng(0)
    steps = {"max_steps": 10 * points, "log_every": 10, "eval_every": 100}
    for index in range(runs):
        seed, cell = divmod(index, len(COMPONENTS) * len(STRATEGIES))
        component, strategy = COMPONENTS[cell // len(STRATEGIES)], STRATEGIES[cell % len(STRATEGIES)]
        level = 0.5 + 0.1 * (cell % len(STRATEGIES)) + 0.02 * draws.normal()
        name = folder / f"{component}-{strategy}-{seed}"
        write_run(name, strategy, seed, level, component=component, rows=rows(points, draws, level), **steps)


@dataclass(frozen=True)
class Used:
    """Time and memory of one command."""

    wall: float  # seconds
    cpu: float  # seconds
    memory: float  # MB, the peak of all its processes together


def measure(arguments: list[str]) -> Used:
    """Runs the command and measures it; exits with its message if it fails."""
    before, since, most = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), 0.0
    command = [sys.executable, "-m", "experiments.compare", *arguments]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, cwd=ROOT)
        while process.poll() is None:
            most = max(most, sum(map(resident, family(process.pid))))
            time.sleep(0.1)
        if process.returncode:
            said.seek(0)
            sys.exit(said.read())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Used(time.perf_counter() - since, cpu, most)


def family(process: int) -> list[int]:
    """Lists a process and all its descendants."""
    try:
        threads = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:  # it has ended
        return []
    return [process, *(member for child in children for member in family(child))]


def resident(process: int) -> float:
    """Returns the resident set of a process in MB."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--points", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        runs = Path(place, "runs")
        make(runs, options.runs, options.points)
        print(json.dumps({"runs": options.runs, "points": options.points, "cores": os.cpu_count()}))
        print("| command | wall s | CPU s | peak MB |\n|---|---|---|---|")
        for name, more in (("compare RUNS", []), ("compare RUNS --out", ["--out", f"{place}/report"])):
            used = measure([str(runs), *more])
            print(f"| {name} | {used.wall:.1f} | {used.cpu:.1f} | {used.memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
