"""Print what the installed torch does at kinks, ties and jumps.

Usage: hardgrad kinks [--markdown]
"""

from __future__ import annotations

import argparse
import sys

from surrogates.diagnosis.callable_module import make_callable
from surrogates.kink_probes.table import kinks


def main(arguments: list[str] | None = None) -> int:
    """Prints the table and returns the exit code."""
    parser = argparse.ArgumentParser("hardgrad kinks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    table = kinks()
    print(table.markdown() if parser.parse_args(arguments).markdown else table)
    return 0


make_callable(__name__, kinks)

if __name__ == "__main__":
    sys.exit(main())
