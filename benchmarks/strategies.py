"""Components by strategies on MNIST-1D: the table of the README, each strategy at its own best learning rate.

The learning rate of every cell is chosen on validation accuracy and on seeds that are not reported, from one grid; a
best value at the grid's edge extends the grid. Reported: test accuracy of the checkpoint that was best on validation
data, as mean and 95 % t interval over the reported seeds; the difference to the row's best strategy is paired by seed.
Runs that are already there are not run again. The table is that of the comparison, which chooses the rates once more:
`python -m experiments.compare runs/strategies --baseline best --readme FILE` makes it from the runs alone.

Usage: python benchmarks/strategies.py [--workers 2] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import os
import sys
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "runs" / "strategies"
sys.path.insert(0, str(ROOT))

COMPONENTS = ("quantized_activation", "hard_max", "hard_gate", "floor", "binary", "relu")
STRATEGIES = ("subgradient", "ste", "smooth", "rewrite")
RATES = (0.01, 0.03, 0.1, 0.3)
CHOOSING, REPORTED = (100, 101, 102), tuple(range(8))
COMMON = ("data=mnist1d", "model=mlp", "max_steps=2000", "eval_every=200")
Cell = tuple[str, str]


def train(job: tuple[str, str, float, int]) -> tuple[tuple[str, str, float, int], Any]:
    """Validation accuracy of one job, None where the cell does not exist; a diverged run is at chance."""
    from hydra import compose, initialize_config_dir

    from experiments.cli import VERSION_BASE
    from experiments.naming import register_resolvers
    from experiments.run import Request, run
    from experiments.tracking.run_errors import RunOver
    from experiments.tracking.strict_json import read_json

    component, strategy, rate, seed = job
    register_resolvers()
    overrides = [*COMMON, f"component={component}", f"strategy={strategy}", f"optimizer.lr={rate}", f"seed={seed}"]
    folder = RUNS / component / strategy / f"lr={rate:g}" / f"seed={seed}"
    with initialize_config_dir(str(ROOT / "conf"), version_base=VERSION_BASE):
        config = compose("config", overrides)
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            outcome = run(Request(config, folder, overrides=overrides))
            status, result = outcome.status, outcome.result
        except RunOver as over:
            status = over.status
            result = read_json(folder / "result.json") if status == "DONE" else None
    if status == "NOT_APPLICABLE":
        return job, None
    if result is None:
        return job, 0.1
    return job, result["best"]["accuracy/val"]


def choose_rates(pool: Any, cells: list[Cell]) -> tuple[dict[Cell, float], dict[Cell, list[float]]]:
    """Each cell's best learning rate on the choosing seeds, its grid extended while the best is at its edge."""
    scores: dict[Cell, dict[float, float]] = {cell: {} for cell in cells}
    pending = {cell: list(RATES) for cell in cells}
    while pending:
        jobs = [(*cell, rate, seed) for cell, rates in pending.items() for rate in rates for seed in CHOOSING]
        found: dict[tuple[str, str, float], list[float]] = {}
        for (component, strategy, rate, _), score in pool.imap_unordered(train, jobs):
            if score is None:
                scores.pop((component, strategy), None)
                continue
            found.setdefault((component, strategy, rate), []).append(score)
        for (component, strategy, rate), values in found.items():
            scores[component, strategy][rate] = mean(values)
        pending = {}
        for cell, by_rate in scores.items():
            best = max(by_rate, key=lambda rate: by_rate[rate])
            if best == min(by_rate) and best > 1e-4:
                pending[cell] = [float(f"{best / 3:.1g}")]
            elif best == max(by_rate) and best < 10:
                pending[cell] = [float(f"{best * 3:.1g}")]
    return {c: max(s, key=lambda r: s[r]) for c, s in scores.items()}, {c: sorted(s) for c, s in scores.items()}


def main() -> None:
    from experiments.compare import markdown
    from experiments.compare.comparing import Question
    from experiments.compare.report import make

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    cells = [(c, s) for c in COMPONENTS for s in STRATEGIES if c != "relu" or s == "subgradient"]
    with multiprocessing.get_context("spawn").Pool(arguments.workers) as pool:
        rates, grids = choose_rates(pool, cells)
        jobs = [(*cell, rate, seed) for cell, rate in rates.items() for seed in REPORTED]
        for _ in pool.imap_unordered(train, jobs):
            pass
    text = markdown.readme(make([RUNS], Question(baseline="best")))
    print(text)
    for cell, grid in sorted(grids.items()):
        if grid != sorted(RATES):
            print(f"grid of {' '.join(cell)} extended to {grid}")
    if arguments.markdown:
        arguments.markdown.write_text(text + "\n")


if __name__ == "__main__":
    main()
