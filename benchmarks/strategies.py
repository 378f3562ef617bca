"""Components by strategies on MNIST-1D: the table of the README, each strategy at its own best learning rate.

The learning rate of every cell is chosen on validation accuracy and on seeds that are not reported, from one grid; a
best value at the grid's edge extends the grid. Reported: test accuracy of the checkpoint that was best on validation
data, as mean and 95 % t interval over the reported seeds; the difference to the row's best strategy is paired by seed.
Runs that are already there are not run again.

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
from statistics import mean, stdev
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

COMPONENTS = ("quantized_activation", "hard_max", "hard_gate", "floor", "binary", "relu")
STRATEGIES = ("subgradient", "ste", "smooth", "rewrite")
RATES = (0.01, 0.03, 0.1, 0.3)
CHOOSING, REPORTED = (100, 101, 102), tuple(range(8))
COMMON = ("data=mnist1d", "model=mlp", "max_steps=2000", "eval_every=200")
Cell = tuple[str, str]


def train(job: tuple[str, str, float, int]) -> tuple[tuple[str, str, float, int], Any]:
    """Validation and test accuracy of one job, None where the cell does not exist; a diverged run is at chance."""
    from hydra import compose, initialize_config_dir

    from experiments.cli import VERSION_BASE
    from experiments.naming import register_resolvers
    from experiments.run import Request, run
    from experiments.tracking.run_errors import RunOver
    from experiments.tracking.strict_json import read_json

    component, strategy, rate, seed = job
    register_resolvers()
    overrides = [*COMMON, f"component={component}", f"strategy={strategy}", f"optimizer.lr={rate}", f"seed={seed}"]
    folder = ROOT / "runs" / "strategies" / component / strategy / f"lr={rate:g}" / f"seed={seed}"
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
        return job, (0.1, 0.1, 0)
    return job, (result["best"]["accuracy/val"], result["best"]["accuracy/test"], _parameters(folder))


def _parameters(folder: Path) -> int:
    from experiments import load

    return sum(parameter.numel() for parameter in load(folder).parameters())


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
            found.setdefault((component, strategy, rate), []).append(score[0])
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


def interval(values: list[float]) -> tuple[float, float]:
    """Mean and half-width of the 95 % t interval."""
    from scipy.stats import t

    return mean(values), float(t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5


def report(rates: dict[Cell, float], tests: dict[Cell, list[float]], sizes: dict[str, int]) -> str:
    """The table in Markdown, with the paired differences to each row's best strategy below."""
    lines = ["| component (parameters) | " + " | ".join(STRATEGIES) + " |", "|---|" + "---|" * len(STRATEGIES)]
    for component in COMPONENTS:
        row = [f"`{component}` ({sizes[component]:,})"]
        for strategy in STRATEGIES:
            if (component, strategy) not in tests:
                row.append("n/a")
                continue
            middle, half = interval(tests[component, strategy])
            row.append(f"{100 * middle:.1f} ± {100 * half:.1f} (lr {rates[component, strategy]:g})")
        lines.append("| " + " | ".join(row) + " |")
    lines += ["", "Paired difference to the best strategy of the row, in points, with its 95 % interval:", ""]
    for component in COMPONENTS:
        present = [s for s in STRATEGIES if (component, s) in tests]
        if len(present) < 2:
            continue
        best = max(present, key=lambda s: mean(tests[component, s]))
        parts = []
        for strategy in present:
            if strategy == best:
                continue
            pairs = zip(tests[component, strategy], tests[component, best], strict=True)
            middle, half = interval([100 * (a - b) for a, b in pairs])
            parts.append(f"{strategy} {middle:+.1f} [{middle - half:+.1f}, {middle + half:+.1f}]")
        lines.append(f"- `{component}`, best {best}: " + "; ".join(parts))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    cells = [(c, s) for c in COMPONENTS for s in STRATEGIES if c != "relu" or s == "subgradient"]
    with multiprocessing.get_context("spawn").Pool(arguments.workers) as pool:
        rates, grids = choose_rates(pool, cells)
        jobs = [(*cell, rate, seed) for cell, rate in rates.items() for seed in REPORTED]
        results = dict(pool.imap_unordered(train, jobs))
    tests = {cell: [results[(*cell, rates[cell], seed)][1] for seed in REPORTED] for cell in rates}
    sizes = {cell[0]: results[(*cell, rates[cell], REPORTED[0])][2] for cell in rates}
    text = report(rates, tests, sizes)
    print(text)
    for cell, grid in sorted(grids.items()):
        if grid != sorted(RATES):
            print(f"grid of {' '.join(cell)} extended to {grid}")
    if arguments.markdown:
        arguments.markdown.write_text(text + "\n")


if __name__ == "__main__":
    main()
