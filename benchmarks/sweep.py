"""Throughput of whole sweeps: hydra/launcher=stacked against the basic launcher, and Lightning's script if asked.

Seconds a sweep, start-up included, of the digits MLP with quantized activations, batch 64, validation every 100 steps
and gradient norms every 10. The stacked sweep is run whole; the basic one is estimated from two seeds of each strategy
in the same pair, see `sweep_seconds.py`, as each row says. The limit is the sweep's batched matrix products and nothing
else, one thread, divided by the cores, as the workers of a sweep divide them.

Usage: python benchmarks/sweep.py [--quick] [--part short|long] [--pairs 15] [--width 32 ...] [--lightning PYTHON]
`--quick` is a trial of a minute or two that judges nothing; `--lightning` is the interpreter of an environment with
lightning 2.6.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
LIGHTNING = ROOT / "benchmarks" / "lightning" / "train.py"
WORKERS = len(os.sched_getaffinity(0))  # processes of one thread each, among which a sweep is divided
TWO = 2  # seeds of each strategy that the other side runs

from sweep_seconds import Size, one_by_one, seconds  # noqa: E402


@dataclass(frozen=True)
class Sweep:
    """`bounds` are the least ratios of throughput by width."""

    size: Size
    bounds: dict[int, float]


SWEEPS = {
    "short": Sweep(Size(("subgradient", "ste", "smooth", "rewrite"), 16, 600), {128: 2.5, 32: 8.0}),
    "long": Sweep(Size(("ste",), 64, 6000), {128: 5.0, 32: 12.0}),
}
QUICK = {
    "short": Sweep(Size(("ste", "smooth"), 16, 60), {128: 2.5, 32: 8.0}),
    "long": Sweep(Size(("ste",), 16, 600), {128: 5.0, 32: 12.0}),
}
AGAINST_LIGHTNING = Sweep(Size(("ste",), 64, 600), {128: 12.0})


def main() -> None:
    """Prints a table of seconds and ratios; what runs is said on stderr."""
    from pairs import HEADER, compare

    parser = argparse.ArgumentParser(description="Throughput of sweeps.")
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", choices=SWEEPS, help="one of the two sweeps instead of both")
    parser.add_argument("--width", type=int, nargs="+", default=[128, 32])
    parser.add_argument("--lightning", type=Path)
    given = parser.parse_args()
    pairs = given.pairs or (2 if given.quick else 15)
    print("seconds a sweep; the bound is on ours / theirs, the inverse of the ratio of throughputs\n")
    print(HEADER)
    for width in given.width:
        for part, sweep in (QUICK if given.quick else SWEEPS).items():
            if given.part not in (None, part):
                continue
            name, bound = _words(sweep, width), 1 / sweep.bounds[width]
            print(f"| {name}: matrix products alone | {products(sweep.size, width):.3g} | | | | |", flush=True)
            ours, theirs = stacked(sweep, width), basic(sweep, width)
            print(compare(f"{name}: stacked / basic", _told(ours), _told(theirs), bound, pairs).row(), flush=True)
    if given.lightning:
        sweep = AGAINST_LIGHTNING
        pair = _told(stacked(sweep, 128)), _told(lightning(sweep.size, given.lightning))
        print(compare(f"{_words(sweep, 128)}: ours / Lightning", *pair, 1 / sweep.bounds[128], pairs).row())


def _words(sweep: Sweep, width: int) -> str:
    replicas = -(-sweep.size.jobs // max(WORKERS, len(sweep.size.strategies)))
    return f"width {width}, {sweep.size.words}, {replicas} replicas a group, {TWO} seeds of the other side"


def _told(measure: Callable[[], float]) -> Callable[[], float]:
    """Says on stderr how long each took."""

    def measured() -> float:
        value = measure()
        print(f"  {time.strftime('%H:%M:%S')} {value:.3g} s", file=sys.stderr, flush=True)
        return value

    return measured


def command(size: Size, width: int, *more: str) -> list[str]:
    """Our command line for a sweep."""
    own = [f"strategy={','.join(size.strategies)}", f"seed=range({size.seeds})", f"max_steps={size.steps}"]
    return [sys.executable, str(ROOT / "train.py"), "-m", *own, f"model.width={width}", *more]


def stacked(sweep: Sweep, width: int) -> Callable[[], float]:
    """Seconds of our command with the stacked launcher."""
    line = command(sweep.size, width, "hydra/launcher=stacked")
    return lambda: seconds(line, {"PYTHONPATH": str(ROOT)}, lambda _, took: took)


def basic(sweep: Sweep, width: int) -> Callable[[], float]:
    """Seconds of our command with the basic launcher."""
    ran = dataclasses.replace(sweep.size, seeds=TWO)
    line = command(ran, width, "hydra/launcher=basic")
    return lambda: seconds(line, {"PYTHONPATH": str(ROOT)}, one_by_one(sweep.size, ran))


def lightning(size: Size, python: Path) -> Callable[[], float]:
    """Seconds of the script that a user would otherwise write, width 128."""
    line = [str(python), str(LIGHTNING), "-m", f"seed=range({TWO})", f"steps={size.steps}"]
    return lambda: seconds(line, {}, one_by_one(size, dataclasses.replace(size, seeds=TWO)))


def products(size: Size, width: int, repeats: int = 20) -> float:
    """Seconds of all matrix products of a sweep as batched ones over a group: 3 forward, 3 + 2 backward, a step."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    shapes = [(64, 64, width), (64, width, width), (64, width, 10)]
    backward = [(n, m, k) for m, n, k in shapes] + [(m, k, n) for m, n, k in shapes[1:]]
    pairs = [(torch.randn(size.seeds, m, n), torch.randn(size.seeds, n, k)) for m, n, k in shapes + backward]
    for a, b in pairs:
        torch.bmm(a, b)
    began = time.perf_counter()
    for _ in range(repeats):
        for a, b in pairs:
            torch.bmm(a, b)
    return (time.perf_counter() - began) / repeats * size.steps * len(size.strategies) / WORKERS


if __name__ == "__main__":
    main()
