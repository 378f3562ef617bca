"""HTML for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape


def pre(text: str) -> str:
    """The text as it is, in a font of one width."""
    return f"<pre>{escape(text)}</pre>"


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table, one row a line."""
    head = "".join(f"<th>{escape(title)}</th>" for title in header)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>\n<caption>{escape(caption)}</caption>\n<tr>{head}</tr>\n{body}\n</table>"
