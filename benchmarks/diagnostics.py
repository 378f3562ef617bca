"""What one measurement of `diagnostics` costs: training steps that take as long, and forward passes.

CPU seconds, in interleaved pairs of one measurement and many steps.

Usage: python benchmarks/diagnostics.py [OVERRIDE ...]
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
STEPS, PAIRS = 100, 15
RATE = 1e-6  # all measurements are at about the same weights
CASES = (
    ("component=quantized_activation", "strategy=ste"),
    ("component=binary", "strategy=smooth"),
    ("component=hard_gate", "strategy=gumbel"),
)


def main() -> None:
    from pairs import compare

    print("| run | kind | forward passes | CPU seconds | training steps [95 %] |\n|---|---|---|---|---|")
    for case in CASES:
        trainer = _trained([*case, *sys.argv[1:]])
        words = " ".join(option.partition("=")[2] for option in case)
        for kind in ("truth", "rivals"):
            passes = _passes(trainer, kind)
            found = compare(kind, partial(_measurement, trainer, kind), partial(_step, trainer), float("inf"), PAIRS)
            ratio = f"{found.ratio:.0f} [{found.low:.0f}, {found.high:.0f}]"
            print(f"| {words} | {kind} | {passes} | {found.ours:.2g} | {ratio} |", flush=True)


def _trained(overrides: list[str]):
    """A trainer after its first steps."""
    import torch
    from hydra import compose, initialize_config_dir

    from experiments.config.choices import choose
    from experiments.config.folder_names import register_resolvers
    from experiments.data import load
    from experiments.training.build import build_model
    from experiments.training.trainer import Trainer
    from surrogates import calibrate

    register_resolvers()
    steps = 20 + 2 * (PAIRS + 1) * STEPS
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        choices = choose(compose("config", [*overrides, f"max_steps={steps}", f"optimizer.lr={RATE}"]))
    torch.set_num_threads(choices.settings.threads)
    trainer = Trainer(build_model(choices), choices.optimizer, choices.settings, load(choices.data))
    calibrate(trainer.model, trainer.batch(1)[0])
    for _ in range(20):
        trainer.advance()
    return trainer


def _step(trainer) -> float:
    """CPU seconds of a training step."""
    began = time.process_time()
    for _ in range(STEPS):
        trainer.advance()
    return (time.process_time() - began) / STEPS


def _measurement(trainer, kind: str) -> float:
    """CPU seconds of one measurement."""
    from experiments.diagnostics.diagnostics import Diagnostics

    diagnostics = Diagnostics(replace(trainer.settings, diagnostics=kind))
    began = time.process_time()
    diagnostics.measure(trainer.model, trainer.batch(trainer.step + 1), trainer.step)
    return time.process_time() - began


def _passes(trainer, kind: str) -> int:
    """Forward passes of the model in one measurement."""
    passes = []
    hook = trainer.model.register_forward_pre_hook(_Count(passes))
    _measurement(trainer, kind)
    hook.remove()
    return len(passes)


class _Count:
    """A hook that a copy of the model shares."""

    def __init__(self, passes: list[None]) -> None:
        self.passes = passes

    def __call__(self, module, inputs) -> None:
        self.passes.append(None)

    def __deepcopy__(self, memo) -> _Count:
        return self


if __name__ == "__main__":
    main()
