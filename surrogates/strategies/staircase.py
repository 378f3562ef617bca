"""The check that an op is an evenly spaced staircase."""

from surrogates.core import EmptyCell, Op


def check_staircase(op: Op, name: str) -> None:
    """Raises EmptyCell for an op that is no staircase of one distance between neighbouring values."""
    if op.grid is None:
        raise EmptyCell(f"{name} needs values on a grid, as of round, floor or quantize, not {type(op).__name__}")
    op.reading("proxy")
