"""Throughput of whole sweeps: hydra/launcher=stacked against the basic launcher, and Lightning's script if asked.

Runs a second, start-up included, of the digits MLP with quantized activations, batch 64, validation every 100 steps and
gradient norms every 10: 4 strategies x 16 seeds for 600 steps, 1 strategy x 64 seeds for 6,000, at widths 128 and 32.
The limit is the same number of batched matrix products and nothing else, measured with one thread and divided by the
number of cores, as the workers of a sweep (one thread each) divide it. A row says whether the compile cache was cold.

Usage: python benchmarks/sweep.py [--pairs 15] [--scale 1.0] [--width 32 ...] [--lightning PYTHON]
`--scale` shortens steps and seeds for a trial; `--lightning` is the interpreter of an environment with lightning 2.6.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
LIGHTNING = ROOT / "benchmarks" / "lightning" / "train.py"


@dataclass(frozen=True)
class Sweep:
    """A sweep's size; `bounds` are the least ratios of throughput by width, stacked over basic."""

    strategies: str
    seeds: int
    steps: int
    bounds: dict[int, float]

    @property
    def jobs(self) -> int:
        return len(self.strategies.split(",")) * self.seeds

    def scaled(self, scale: float) -> Sweep:
        return Sweep(
            self.strategies, max(2, round(self.seeds * scale)), max(20, round(self.steps * scale)), self.bounds
        )


SWEEPS = (
    Sweep("subgradient,ste,smooth,rewrite", 16, 600, {128: 2.5, 32: 8.0}),
    Sweep("ste", 64, 6000, {128: 5.0, 32: 12.0}),
)
OVER_LIGHTNING = 12.0
WORKERS = len(os.sched_getaffinity(0))  # processes of one thread each, among which a sweep is divided


def main() -> None:
    """Prints a table of seconds and ratios."""
    from pairs import HEADER, compare

    parser = argparse.ArgumentParser(description="Throughput of sweeps.")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--width", type=int, nargs="+", default=[128, 32])
    parser.add_argument("--lightning", type=Path)
    given = parser.parse_args()
    sweeps = [sweep.scaled(given.scale) for sweep in SWEEPS]
    print("seconds a sweep; the bound is on stacked / other, the inverse of the ratio of throughputs\n")
    for width in given.width:
        for sweep in sweeps:
            print(f"{_words(sweep, width)}; matrix products alone {products(sweep, width):.3g} s")
    print(f"\n{HEADER}")
    with tempfile.TemporaryDirectory() as cache:
        for width in given.width:
            for sweep in sweeps:
                for state in ("cold", "warm"):  # compare() makes one run of each before the pairs, which warms it
                    if state == "cold":
                        seconds = own(sweep, width, "stacked", cache)()
                        print(f"| {_words(sweep, width)}, stacked, cold cache, once | {seconds:.3g} | | | | |")
                        continue
                    name = f"{_words(sweep, width)}, stacked / basic, warm cache"
                    pair = own(sweep, width, "stacked", cache), own(sweep, width, "basic", cache)
                    print(compare(name, *pair, 1 / sweep.bounds[width], pairs=given.pairs).row(), flush=True)
        if given.lightning:
            sweep = sweeps[0].__class__("ste", sweeps[1].seeds, sweeps[0].steps, {})
            pair = own(sweep, 128, "stacked", cache), lightning(sweep, given.lightning)
            name = f"{_words(sweep, 128)}, stacked / Lightning"
            print(compare(name, *pair, 1 / OVER_LIGHTNING, pairs=given.pairs).row())


def _words(sweep: Sweep, width: int) -> str:
    names = sweep.strategies.count(",") + 1
    size = f"{names} x {sweep.seeds} runs of {sweep.steps} steps"
    return f"width {width}, {size}, {sweep.seeds} replicas a group over all workers"


def own(sweep: Sweep, width: int, launcher: str, cache: str) -> Callable[[], float]:
    """Seconds of our command with a launcher."""
    line = [
        *(sys.executable, str(ROOT / "train.py"), "-m", f"strategy={sweep.strategies}", f"seed=range({sweep.seeds})"),
        *(f"hydra/launcher={launcher}", f"max_steps={sweep.steps}", f"model.width={width}"),
    ]
    return lambda: _seconds(line, {"PYTHONPATH": str(ROOT), "TORCHINDUCTOR_CACHE_DIR": cache})


def lightning(sweep: Sweep, python: Path) -> Callable[[], float]:
    """Seconds of the script that a user would otherwise write, width 128."""
    seeds = ",".join(str(seed) for seed in range(sweep.seeds))
    return lambda: _seconds([str(python), str(LIGHTNING), "-m", f"seed={seeds}", f"steps={sweep.steps}"], {})


def _seconds(line: list[str], environment: dict[str, str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        subprocess.run(line, cwd=folder, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began


def products(sweep: Sweep, width: int, repeats: int = 20) -> float:
    """Seconds of all matrix products of a sweep as batched ones over a group: 3 forward, 3 + 2 backward, a step."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    shapes = [(64, 64, width), (64, width, width), (64, width, 10)]
    backward = [(n, m, k) for m, n, k in shapes] + [(m, k, n) for m, n, k in shapes[1:]]
    pairs = [(torch.randn(sweep.seeds, m, n), torch.randn(sweep.seeds, n, k)) for m, n, k in shapes + backward]
    for a, b in pairs:
        torch.bmm(a, b)
    began = time.perf_counter()
    for _ in range(repeats):
        for a, b in pairs:
            torch.bmm(a, b)
    return (time.perf_counter() - began) / repeats * sweep.steps * (sweep.jobs // sweep.seeds) / WORKERS


if __name__ == "__main__":
    main()
