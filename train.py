"""Trains one model, or with -m a sweep: `python train.py strategy=ste`. All choices: `python train.py --help`."""

import gc
from pathlib import Path

from experiments.cli import main

if __name__ == "__main__":
    gc.freeze()  # what was imported stays, and no collection needs to look through it
    main(Path(__file__).resolve().parent / "conf")
