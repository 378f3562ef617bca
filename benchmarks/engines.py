"""The constants of `experiments/sweep/arrange.py`: CPU milliseconds a training step by engine, and what fits them.

Digits MLP with quantized activations (ste), batch 64, gradient norms every 10 steps: one run alone, and stacks of 8 and
64, eager and compiled, at widths 32 and 128. Medians over rounds in which the engines follow each other. A step of R
replicas takes STACK + R (PASSES work / FLOPS + ROW), alone about SINGLE: at these widths its arithmetic hardly shows.

Usage: python benchmarks/engines.py [--rounds 7] [--steps 100] [--quick]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
WIDTHS, REPLICAS = (32, 128), (8, 64)


def main() -> None:
    """Prints the milliseconds, then the constants."""
    import torch

    parser = argparse.ArgumentParser(description="What a step costs by engine.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    rounds, steps = (2, 20) if given.quick else (given.rounds, given.steps)
    torch.set_num_threads(1)
    cases = {("single", 1, width): single(width) for width in WIDTHS}
    for engine in ("stacked", "compiled"):
        cases |= {(engine, R, width): stacked(R, width, engine == "compiled") for R in REPLICAS for width in WIDTHS}
    times: dict[Any, list[float]] = {case: [] for case in cases}
    cold = {case: _milliseconds(advance, 12) * 12 for case, advance in cases.items()}  # which compiles, once a shape
    for _ in range(rounds):
        for case, advance in cases.items():
            times[case].append(_milliseconds(advance, steps))
    taken = {case: median(values) for case, values in times.items()}
    print("| engine | replicas | width | ms a step | ms of its first 12 steps |\n|---|---|---|---|---|")
    for (engine, R, width), value in taken.items():
        print(f"| {engine} | {R} | {width} | {value:.3g} | {cold[engine, R, width]:.3g} |")
    print()
    from experiments.sweep import arrange

    present = {**vars(arrange), "FLOPS / PASSES": arrange.FLOPS / arrange.PASSES}
    for name, value in constants(taken).items():
        print(f"{name} measured {value:.3g}, in arrange.py {present[name]:.3g}")


def constants(taken: dict[Any, float]) -> dict[str, float]:
    """From the times at both widths and numbers of replicas, the arithmetic counted as `arrange` counts it."""
    weights = {width: 64 * width + width * width + width * 10 + 2 * width + 10 for width in WIDTHS}
    work = {width: 6.0 * 64 * count for width, count in weights.items()}  # multiplications and additions
    (small, large), (few, many) = WIDTHS, REPLICAS
    each = {w: (taken["stacked", many, w] - taken["stacked", few, w]) / (many - few) for w in WIDTHS}
    per_operation = (each[large] - each[small]) / (work[large] - work[small])
    return {
        "SINGLE": taken["single", 1, small],
        "STACK": taken["stacked", few, small] - few * each[small],
        "FLOPS / PASSES": 1 / per_operation,
        "ROW": each[small] - per_operation * work[small],
        "COMPILED": median(taken["compiled", R, w] / taken["stacked", R, w] for R in REPLICAS for w in WIDTHS),
    }


def single(width: int) -> Callable[[], Any]:
    """A step of one run."""
    from experiments.training.build import build_model
    from experiments.training.trainer import Trainer

    choices, data = _choices(width)
    return Trainer(build_model(choices), choices.optimizer, choices.settings, data).advance


def stacked(replicas: int, width: int, compiled: bool) -> Callable[[], Any]:
    """A step of a stack."""
    import dataclasses

    from experiments.stacked.trainer import StackedTrainer
    from experiments.training.build import build_model

    choices, data = _choices(width)
    members = [
        dataclasses.replace(choices, settings=dataclasses.replace(choices.settings, seed=seed))
        for seed in range(replicas)
    ]
    return StackedTrainer([build_model(member) for member in members], members, data, compiled).advance


def _choices(width: int) -> tuple[Any, Any]:
    from hydra import compose, initialize_config_dir

    from experiments.config.choices import choose
    from experiments.config.folder_names import register_resolvers
    from experiments.data import load

    register_resolvers()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = compose("config", ["strategy=ste", f"model.width={width}", "max_steps=1000000"])
    choices = choose(config)
    return choices, load(choices.data)


def _milliseconds(advance: Callable[[], Any], steps: int) -> float:
    began = time.process_time()
    for _ in range(steps):
        advance()
    return (time.process_time() - began) / steps * 1e3


if __name__ == "__main__":
    main()
