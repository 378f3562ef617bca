"""Times a training step with default logging against a bare PyTorch loop of the same model, data and batch.

The bare loop logs nothing. Each runs in its own process: 600 steps after 20 that are not timed, one thread, no
evaluation in the timed part.
Model 64-128-128-10 MLP, 4-bit straight-through activations, SGD with momentum, batch 64, scikit-learn digits.
Usage: python benchmarks/step.py [--pairs 15]
"""

from __future__ import annotations

import argparse
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPS, WARM = 600, 20


def main() -> None:
    from pairs import HEADER, compare

    parser = argparse.ArgumentParser(description="Milliseconds a training step.")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--side", choices=SIDES, help="print the milliseconds of one side")
    given = parser.parse_args()
    if given.side:
        print(SIDES[given.side]())
        return
    print(f"milliseconds a step\n\n{HEADER}")
    print(compare("training step / bare loop", _process("ours"), _process("bare"), 1.25, given.pairs).row())


def _process(side: str) -> Callable[[], float]:
    command = [sys.executable, __file__, "--side", side]
    return lambda: float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def ours() -> float:
    """Returns milliseconds from the start of a step of train.py to the start of the next, with all default logging."""
    sys.path.insert(0, str(ROOT))
    from experiments.training.trainer import Trainer

    starts: list[float] = []
    advance = Trainer.advance

    def timed(trainer: Trainer):
        starts.append(time.perf_counter())
        return advance(trainer)

    Trainer.advance = timed
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["train.py", f"max_steps={WARM + STEPS + 1}", "eval_every=100000", f"hydra.run.dir={folder}/run"]
        try:
            runpy.run_path(str(ROOT / "train.py"), run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise
    return (starts[WARM + STEPS] - starts[WARM]) / STEPS * 1e3


def bare() -> float:
    """Returns milliseconds for one step of the bare loop."""
    import torch
    from sklearn.datasets import load_digits
    from torch import nn

    class Quantize(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.clamp(0, 1) * 15
            return (x + (x.round() - x).detach()) / 15

    torch.set_num_threads(1)
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    model = nn.Sequential(nn.Linear(64, 128), Quantize(), nn.Linear(128, 128), Quantize(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    start = 0.0
    for step in range(WARM + STEPS):
        if step == WARM:
            start = time.perf_counter()
        index = torch.randint(0, 1437, (64,))
        loss = nn.functional.cross_entropy(model(x[index]), y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (time.perf_counter() - start) / STEPS * 1e3


SIDES = {"ours": ours, "bare": bare}

if __name__ == "__main__":
    main()
