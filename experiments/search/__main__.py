"""`python -m experiments.search`."""

import sys

from experiments.search.command import main

if __name__ == "__main__":
    sys.exit(main())
