"""The check that the values of an op lie on an evenly spaced grid."""

from surrogates.core import EmptyCell, Op


def check_staircase(op: Op, name: str) -> None:
    """Raises EmptyCell if the op's values do not lie on an evenly spaced grid."""
    if op.grid is None:
        raise EmptyCell(f"{name} needs values on a grid, as of round, floor, quantize; {type(op).__name__} has none")
    op.reading("proxy")
