"""`python -m experiments.command` is `python train.py`."""

from experiments.command.start import main

if __name__ == "__main__":
    main()
