"""Times whole sweeps with hydra/launcher=stacked against hydra/launcher=basic and against a Lightning script.

Seconds for a sweep of 64 runs x 600 steps, start-up included: the digits MLP with quantized activations, batch 64,
validation every 100 steps, gradient norms every 10. Ours runs whole. The other side is estimated in the same pair from
a sweep of two seeds a strategy: its seconds, plus for each missing run the time between the ends of the two runs.

Usage: python benchmarks/sweep.py [--pairs 15] [--width 32 128] [--steps 600] [--lightning PYTHON]
`--lightning` is the interpreter of an environment with lightning 2.6.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pairs import HEADER, compare

ROOT = Path(__file__).resolve().parents[1]
LIGHTNING = ROOT / "benchmarks" / "lightning" / "train.py"
STRATEGIES = ("subgradient", "ste", "smooth", "rewrite")
RUNS, TWO = 64, 2
BOUNDS = {32: 1 / 5, 128: 1 / 3}
AGAINST_LIGHTNING = 1 / 12


def main() -> None:
    """Prints a table of seconds and ratios, and each time on stderr."""
    parser = argparse.ArgumentParser(description="Seconds a sweep.")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--width", type=int, nargs="*", choices=BOUNDS, default=[*BOUNDS])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--lightning", type=Path)
    given = parser.parse_args()
    print(f"seconds a sweep of {RUNS} runs x {given.steps} steps\n\n{HEADER}")
    for width in given.width:
        options = [f"model.width={width}", f"max_steps={given.steps}"]
        each = RUNS // len(STRATEGIES)
        ours = partial(whole, command(STRATEGIES, each, "stacked", *options))
        peer = partial(estimate, command(STRATEGIES, TWO, "basic", *options), each)
        name = f"width {width}, {len(STRATEGIES)} strategies x {each} seeds: stacked / one run after another"
        print(compare(name, told(ours), told(peer), BOUNDS[width], given.pairs).row(), flush=True)
    if given.lightning:
        ours = partial(whole, command(("ste",), RUNS, "stacked", "model.width=128", f"max_steps={given.steps}"))
        script = [str(given.lightning), str(LIGHTNING), "-m", f"seed=range({TWO})", f"steps={given.steps}"]
        peer = partial(estimate, script, RUNS)
        name = f"width 128, 1 strategy x {RUNS} seeds: stacked / Lightning"
        print(compare(name, told(ours), told(peer), AGAINST_LIGHTNING, given.pairs).row())


def told(measure: Callable[[], float]) -> Callable[[], float]:
    """Prints the seconds of each call on stderr."""

    def measured() -> float:
        value = measure()
        print(f"  {time.strftime('%H:%M:%S')} {value:.3g} s", file=sys.stderr, flush=True)
        return value

    return measured


def command(strategies: tuple[str, ...], seeds: int, launcher: str, *options: str) -> list[str]:
    """Returns our command line for a sweep."""
    own = [f"strategy={','.join(strategies)}", f"seed=range({seeds})", f"hydra/launcher={launcher}"]
    return [sys.executable, str(ROOT / "train.py"), "-m", *own, *options]


def whole(line: list[str]) -> float:
    """Returns the seconds of a sweep."""
    with tempfile.TemporaryDirectory() as folder:
        return seconds(line, Path(folder))


def estimate(line: list[str], seeds: int) -> float:
    """Estimates the seconds of a sweep of `seeds` seeds a strategy from one of two, whose strategies run in turn."""
    with tempfile.TemporaryDirectory() as folder:
        return seconds(line, Path(folder)) + further(run_ends(Path(folder)), seeds)


def further(ends: list[float], seeds: int) -> float:
    """Estimates the seconds of the missing runs by the time between the ends of a strategy's two runs."""
    return (seeds - TWO) * sum(second - first for first, second in zip(ends[::2], ends[1::2], strict=True))


def seconds(line: list[str], folder: Path) -> float:
    """Returns the seconds of a command that fills a folder."""
    began = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(line)} ended with code {done.returncode}: {done.stderr[-2000:]}")
    return time.perf_counter() - began


def run_ends(folder: Path) -> list[float]:
    """Returns when the last file of each run was written, by us or by Lightning's script."""
    files = [*folder.rglob("status.json")] or [*folder.rglob("hparams.yaml")]
    return sorted(max(file.stat().st_mtime for file in run.parent.rglob("*") if file.is_file()) for run in files)


if __name__ == "__main__":
    main()
