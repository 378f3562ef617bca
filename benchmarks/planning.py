"""What a job of a stacked sweep costs beyond its training, against Hydra's own composition of the same jobs.

CPU milliseconds a job, all threads of one process counted; waiting for the disk is not. A sweep of `--jobs` runs of one
step less one of a few, so that what is paid once a sweep (imports, data, Hydra's start, the trial of the stack) falls
away. The parts: planning (compose, identify, arrange, request) until the stack begins, opening (claim, model, files)
until its first step, closing (the best weights tested, checkpoints, results, report) after its last.
The bound: 10 ms more than Hydra takes to compose a job.

Usage: python benchmarks/planning.py [--jobs 64] [--pairs 15]
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
FEW = 8  # jobs of the sweep that is subtracted, and jobs that Hydra composes
ALLOWED = 10.0  # milliseconds a job beyond Hydra's own
PARTS = ("planning", "opening", "closing")


def main() -> None:
    """Prints the ratio, then the parts."""
    from pairs import HEADER, compare

    parser = argparse.ArgumentParser(description="What a job costs beyond its training.")
    parser.add_argument("--jobs", type=int, default=64, help="among which the cost is divided")
    parser.add_argument("--pairs", type=int, default=15)
    given = parser.parse_args()
    measured: list[dict[str, float]] = []
    sweep = stacked()
    gc.freeze()  # else the collector scans all imported modules in one of the two sweeps

    def ours() -> float:
        few, many = sweep(FEW), sweep(FEW + given.jobs)
        measured.append({part: (many[part] - few[part]) / given.jobs for part in PARTS})
        return sum(measured[-1].values())

    print(f"CPU milliseconds a job\n\n{HEADER}")
    name = f"beyond training / Hydra's composition + {ALLOWED:g} ms"
    print(compare(name, ours, lambda: composed() + ALLOWED, 1.0, given.pairs).row())
    print("\n| part | median | range |\n|---|---|---|")
    for part in PARTS:
        values = sorted(one[part] for one in measured[1:])  # the first one was to warm up
        print(f"| {part} | {median(values):.3g} | {values[0]:.3g} to {values[-1]:.3g} |")


def composed() -> float:
    """What Hydra takes for a job's configuration."""
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.types import RunMode

    GlobalHydra.instance().clear()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        master = loader.load_configuration("config", ["hydra/launcher=stacked"], RunMode.MULTIRUN)
        began = time.process_time()
        for seed in range(FEW):
            loader.load_sweep_config(master, [f"seed={seed}"])
        return (time.process_time() - began) / FEW * 1e3


def stacked() -> Callable[[int], dict[str, float]]:
    """A measure of a sweep of so many jobs in this process: milliseconds by part."""
    from hydra.core.global_hydra import GlobalHydra

    from experiments.command.cli import main as train
    from experiments.stacked.session import StackedSession
    from experiments.sweep import launch

    marks: dict[str, float] = {}
    for owner, function in ((launch, "run_group"), (StackedSession, "_advance"), (StackedSession, "_finish")):
        setattr(owner, function, _marked(getattr(owner, function), function, marks))

    def measure(jobs: int) -> dict[str, float]:
        GlobalHydra.instance().clear()
        marks.clear()
        with tempfile.TemporaryDirectory() as folder:
            own = [f"seed=range({jobs})", "max_steps=1", "engine=stacked", "workers=1", f"hydra.sweep.dir={folder}"]
            sys.argv = ["train.py", "-m", "hydra/launcher=stacked", *own]
            began = time.process_time()
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
                train(ROOT / "conf")
            ended = time.process_time()
        if f"{jobs} DONE" not in said.getvalue():
            raise RuntimeError(said.getvalue())
        begins = (began, marks["run_group"], marks["_finish"])
        ends = (marks["run_group"], marks["_advance"], ended)
        return {part: (end - begin) * 1e3 for part, begin, end in zip(PARTS, begins, ends, strict=True)}

    return measure


def _marked(function: Any, name: str, marks: dict[str, float]) -> Any:
    """The function, which notes when it is first called."""

    def called(*arguments: Any, **more: Any) -> Any:
        marks.setdefault(name, time.process_time())
        return function(*arguments, **more)

    return called


if __name__ == "__main__":
    main()
