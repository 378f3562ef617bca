"""What one measurement of `diagnostics` costs: seconds, training steps that take as long, and forward passes.

Usage: python benchmarks/diagnostics.py [OVERRIDE ...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
STEPS = 200
CASES = (
    ("component=quantized_activation", "strategy=ste"),
    ("component=binary", "strategy=smooth"),
    ("component=hard_gate", "strategy=gumbel"),
)


def main() -> None:
    print("| run | kind | seconds | training steps | forward passes |\n|---|---|---|---|---|")
    for case in CASES:
        trainer = _trained([*case, *sys.argv[1:]])
        began = time.perf_counter()
        for _ in range(STEPS):
            trainer.advance()
        step = (time.perf_counter() - began) / STEPS
        for kind in ("truth", "rivals"):
            seconds, passes = _measured(trainer, kind)
            words = " ".join(option.partition("=")[2] for option in case)
            print(f"| {words} | {kind} | {seconds:.2g} | {seconds / step:.0f} | {passes} |")


def _trained(overrides: list[str]):
    """A trainer after its first steps."""
    import torch
    from hydra import compose, initialize_config_dir

    from experiments.build import build_model
    from experiments.config import choose
    from experiments.data import load
    from experiments.naming import register_resolvers
    from experiments.trainer import Trainer
    from surrogates import calibrate

    register_resolvers()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        choices = choose(compose("config", [*overrides, "max_steps=1000"]))
    torch.set_num_threads(choices.settings.threads)
    trainer = Trainer(build_model(choices), choices.optimizer, choices.settings, load(choices.data))
    calibrate(trainer.model, trainer.batch(1)[0])
    for _ in range(20):
        trainer.advance()
    return trainer


def _measured(trainer, kind: str) -> tuple[float, int]:
    """Seconds of the second measurement, and the forward passes of the model in it."""
    from dataclasses import replace

    from experiments.diagnostics.diagnostics import Diagnostics

    passes = []
    hook = trainer.model.register_forward_pre_hook(_Count(passes))
    diagnostics = Diagnostics(replace(trainer.settings, diagnostics=kind))
    for _ in range(2):
        passes.clear()
        began = time.perf_counter()
        diagnostics.measure(trainer.model, trainer.batch(trainer.step + 1), trainer.step)
        seconds = time.perf_counter() - began
    hook.remove()
    return seconds, len(passes)


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
