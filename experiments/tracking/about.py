"""The text about a log folder in TensorBoard's text dashboard: tables, and how to colour the runs by strategy."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from experiments.tracking.hparams import column

NAME = "about"  # a folder beside those of the runs, and so a run in TensorBoard


def varied_and_common(rows: Iterable[Mapping[str, object]]) -> tuple[list[str], dict[str, object]]:
    """Returns the keys whose values differ between rows, and the value of each other key, in the order of the columns.

    A value None does not count.
    """
    found: dict[str, dict[str, object]] = {}
    for row in rows:
        for key, value in row.items():
            if value is not None:
                found.setdefault(key, {})[str(value)] = value
    ordered = sorted(found, key=column)
    common = {key: next(iter(found[key].values())) for key in ordered if len(found[key]) == 1}
    return [key for key in ordered if key not in common], common


def key_table(values: Mapping[str, object]) -> str:
    """Returns keys and values as a table in Markdown."""
    return "\n".join(["| key | value |", "|---|---|", *(f"| {key} | {value} |" for key, value in values.items())])


def colour_query(pattern: str) -> str:
    """Returns the part of TensorBoard's address that gives all runs one colour whose names have the same groups."""
    return f"runColorGroup=regex%3A{quote(pattern, safe='')}"


def colouring(pattern: str) -> str:
    """Returns how to colour the runs by strategy, in Markdown; the regular expression has a group for the strategy."""
    link = f"[Colour the runs by strategy](?{colour_query(pattern)}#timeseries)"
    return f"{link}, or paste this regular expression under Time Series, Color runs by, Regex:\n\n    {pattern}"


def text_summary(tag: str, words: str) -> Any:
    """Returns a text for the text dashboard, in Markdown."""
    from torch.utils.tensorboard import summary

    untyped: Any = summary
    return untyped.text(tag, words)
