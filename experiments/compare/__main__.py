"""`hardgrad compare RUNS...`."""

import sys

from experiments.compare.command import main

if __name__ == "__main__":
    sys.exit(main())
