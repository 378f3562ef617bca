"""Times `python train.py` up to the first optimizer step, against importing torch, hydra and tensorboard.

The peer also makes one torch.optim.SGD step. Both are whole processes. Usage: python benchmarks/startup.py [--pairs 15]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from pairs import HEADER, compare

ROOT = Path(__file__).resolve().parents[1]

PEER = """
import os, torch, hydra
from torch.utils.tensorboard import SummaryWriter
weight = torch.nn.Parameter(torch.zeros(2))
weight.grad = torch.ones(2)
torch.optim.SGD([weight], lr=0.1, momentum=0.9).step()
os._exit(0)
"""

# Runs train.py and exits at the end of the first optimizer step.
OURS = """
import os, runpy, sys
sys.path.insert(0, os.getcwd())
from experiments.training.trainer import Trainer
advance = Trainer.advance
def first(self):
    advance(self)
    os._exit(0)
Trainer.advance = first
sys.argv[0] = "train.py"
runpy.run_path("train.py", run_name="__main__")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Time to the first optimizer step.")
    parser.add_argument("--pairs", type=int, default=15)
    pairs = parser.parse_args().pairs
    print(f"seconds\n\n{HEADER}")
    with tempfile.TemporaryDirectory() as folder:
        runs = (f"hydra.run.dir={folder}/{index}" for index in count())
        row = compare("train.py to the first step / imports", lambda: _seconds(OURS, next(runs)), _peer, 1.3, pairs)
        print(row.row())


def _peer() -> float:
    return _seconds(PEER)


def _seconds(code: str, *arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
