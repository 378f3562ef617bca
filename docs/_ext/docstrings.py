"""A Sphinx extension that renders plain docstrings and the functions made from ops.

The docstrings are plain text: code in single backticks, lists with hyphens, one fact a line. As reStructuredText the
lines would be joined, and `*`, `|` and `_` would be marks.
"""

from __future__ import annotations

import re
from dataclasses import fields
from itertools import cycle
from typing import TYPE_CHECKING, Any

from surrogates.functional.op_function import OpFunction

if TYPE_CHECKING:
    from sphinx.application import Sphinx

WIDTH = 112  # of a docstring's lines inside a class or function
CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
MARKS = re.compile(r"([*|\\]|(?<=\w)_(?!\w))")
ITEM = re.compile(r" *- ")
PART = re.compile(r"(?:proxy|smooth|rewrite): |Raises ")  # of an op's docstring: its own paragraph
BEFORE_PART = re.compile(rf"(?<=[.;]) (?={PART.pattern})")


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the two hooks."""
    app.connect("autodoc-process-docstring", docstring)
    app.connect("autodoc-process-signature", signature)
    return {"parallel_read_safe": True}


def docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Replaces a docstring's lines by reStructuredText; a function of an op keeps its first sentence, and a link."""
    if isinstance(obj, OpFunction):
        op = obj.op.__name__
        lines[:] = [*to_rst(first_paragraph(lines)), "", f"The op is :class:`~hardgrad.ops.{op}`.", ""]
    else:
        lines[:] = to_rst(lines)


def signature(app: Sphinx, what: str, name: str, obj: Any, options: Any, arguments: str, result: str) -> Any:
    """The signature of a function of an op: its tensors, the strategy, the op's constants."""
    if not isinstance(obj, OpFunction):
        return None
    constants = [f"{field.name}={field.default!r}" for field in fields(obj.op) if field.name not in obj.constants]
    return f"({', '.join([*obj.inputs, 'strategy', '*', *constants, 'T=None', 'noise=None'])})", "Tensor"


def first_paragraph(lines: list[str]) -> list[str]:
    """The lines up to the first empty one."""
    return lines[: lines.index("")] if "" in lines else lines


def to_rst(lines: list[str]) -> list[str]:
    """Plain text as reStructuredText: list items, an op's readings and lines that end early begin paragraphs."""
    made: list[str] = []
    lines = [part for line in lines for part in BEFORE_PART.split(line)]
    for before, line in zip(["", *lines], lines, strict=False):
        if before.strip() and line.strip() and (is_apart(before, line) or ends_early(before, line)):
            made.append("")
        made.append(line)
    return escape("\n".join(made)).splitlines()


def is_apart(before: str, line: str) -> bool:
    """Whether a list item or a part begins here, or a list has ended."""
    begins = ITEM.match(line) or (PART.match(line) and before.endswith((".", ";")))
    return bool(begins) or (before.startswith(("- ", " ")) and not line.startswith(" "))


def ends_early(before: str, line: str) -> bool:
    """Whether `before` ends a sentence, and had room for the next line's first word."""
    return before.rstrip().endswith((".", ":", ";")) and len(before) + len(line.split(maxsplit=1)[0]) < WIDTH


def escape(text: str) -> str:
    """Code in double backticks; outside of code no character is a mark."""
    parts = CODE.split(text)  # text, backticks, code, text, ...
    return "".join(
        f"``{part}``" if kind == 2 else MARKS.sub(r"\\\1", part)
        for kind, part in zip(cycle(range(3)), parts, strict=False)
        if kind != 1
    )
