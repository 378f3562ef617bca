"""HTML for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape


def pre(text: str) -> str:
    """The text unchanged, in a monospaced font."""
    return f"<pre>{escape(text)}</pre>"


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table with a caption and a header."""
    head = "".join(f"<th>{escape(title)}</th>" for title in header)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>\n<caption>{escape(caption)}</caption>\n<tr>{head}</tr>\n{body}\n</table>"
