"""`python -m experiments.study`."""

import sys

from experiments.study.command import main

if __name__ == "__main__":
    sys.exit(main())
