"""From `python train.py` to the end of the first optimizer step, against the imports that nobody can avoid.

The peer imports torch, hydra and torch.utils.tensorboard and makes one torch.optim.SGD step. Both are whole processes.
Usage: python benchmarks/startup.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PEER = """
import os, torch, hydra
from torch.utils.tensorboard import SummaryWriter
weight = torch.nn.Parameter(torch.zeros(2))
weight.grad = torch.ones(2)
torch.optim.SGD([weight], lr=0.1, momentum=0.9).step()
os._exit(0)
"""

# Runs train.py as it is and leaves at the first optimizer step's end.
OWN = """
import os, sys
sys.argv = ["train.py", *sys.argv[1:]]
from experiments.training import trainer
advance = trainer.Trainer.advance
def first(self):
    advance(self)
    os._exit(0)
trainer.Trainer.advance = first
exec(compile(open("train.py").read(), "train.py", "exec"), {"__name__": "__main__", "__file__": "train.py"})
"""


def main() -> None:
    from pairs import HEADER, compare

    print(f"seconds\n\n{HEADER}")
    with tempfile.TemporaryDirectory() as folder:
        runs = iter(range(10**6))

        def own() -> float:
            return _seconds(OWN, f"hydra.run.dir={folder}/{next(runs)}", "strategy=ste")

        print(compare("train.py to the first step / imports", own, lambda: _seconds(PEER), 1.3, pairs=15).row())


def _seconds(code: str, *arguments: str) -> float:
    start = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
