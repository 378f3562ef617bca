"""What this torch does at kinks and ties. The command line of `surrogates.kinks`.

Usage: python -m surrogates.kinks [--markdown]
"""

from __future__ import annotations

import argparse
import sys

from surrogates.diagnosis.callable_module import make_callable
from surrogates.kink_probes.table import kinks


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; the exit code."""
    parser = argparse.ArgumentParser("python -m surrogates.kinks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--markdown", action="store_true", help="a Markdown table")
    table = kinks()
    print(table.markdown() if parser.parse_args(arguments).markdown else table)
    return 0


make_callable(__name__, kinks)

if __name__ == "__main__":
    sys.exit(main())
