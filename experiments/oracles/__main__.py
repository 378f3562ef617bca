"""`hardgrad oracles`."""

import sys

from experiments.oracles.command import main

if __name__ == "__main__":
    sys.exit(main())
