"""Trains one model, or with -m a sweep: `python train.py strategy=ste`. All choices: `python train.py --help`."""

from experiments.command.start import main

if __name__ == "__main__":
    main()
