"""The comparison of many runs: wall and CPU seconds and peak memory, of made-up runs of 200 logged points.

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
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from run_folders import write_run

COMPONENTS = ("quantized_activation", "hard_max", "hard_gate", "floor", "binary")
STRATEGIES = ("subgradient", "ste", "smooth", "rewrite")
LAYERS = ("blocks.0", "blocks.1")


def rows(points: int, draws: np.random.Generator, level: float) -> list[dict[str, float]]:
    """Logged steps with the tags of a two-layer model."""
    found = []
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
    """Writes the run folders: components, strategies, and as many seeds as it takes."""
    draws = np.random.default_rng(0)
    for index in range(runs):
        seed, cell = divmod(index, len(COMPONENTS) * len(STRATEGIES))
        component, strategy = COMPONENTS[cell // len(STRATEGIES)], STRATEGIES[cell % len(STRATEGIES)]
        level = 0.5 + 0.1 * (cell % len(STRATEGIES)) + 0.02 * draws.normal()
        name = folder / f"{component}-{strategy}-{seed}"
        write_run(name, strategy, seed, level, component=component, rows=rows(points, draws, level))


def measure(arguments: list[str]) -> str:
    """A line on one command: seconds of wall and CPU, and the peak memory of its largest process so far."""
    before, since = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "experiments.compare", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).resolve().parents[1])
    wall, after = time.perf_counter() - since, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"| {wall:.1f} | {cpu:.1f} | {after.ru_maxrss / 1024:.0f} |"


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
        print("| compare RUNS", measure([str(runs)]))
        print("| compare RUNS --out", measure([str(runs), "--out", f"{place}/report"]))


if __name__ == "__main__":
    main()
