"""Trains one model, or with -m a sweep: `python train.py strategy=ste`. All choices: `python train.py --help`."""

import gc
from pathlib import Path

gc.disable()  # what is imported stays, and is not worth looking through again and again
from experiments.cli import main  # noqa: E402

gc.freeze()
gc.enable()

if __name__ == "__main__":
    main(Path(__file__).resolve().parent / "conf")
