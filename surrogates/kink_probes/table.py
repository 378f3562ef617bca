"""The table of derivatives at kinks and ties: documented by PyTorch, observed, and of this library."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from surrogates.kink_probes import edges, elementwise, reductions
from surrogates.kink_probes.probe import Outcome, Probe
from surrogates.naming.html import table

GROUPS = {
    "Kinks": elementwise.KINKS,
    "Jumps": elementwise.JUMPS,
    "Ties": reductions.TIES,
    "Norms and products": reductions.TIPS,
    "Edges of domains": edges.DOMAINS,
    "Results without a graph, choices, random draws": edges.WITHOUT_GRAPH,
    "Conversions": edges.CONVERSIONS,
    "NaN": edges.NOT_A_NUMBER,
}
HEADER = ("operation", "at", "rule", "documented", "observed", "ours", "deviates")
WIDTHS = (23, 12, 4, 11, 11, 11, 2)
SHORT = {
    "differentiable": "1",
    "minimum norm": "2,3",
    "continuity": "4",
    "undefined": "5",
    "random": "6",
    "composition": "all",
    "op's page": "page",
    "integers": "int",
}
LEGEND = """\
Each number is a derivative of the sum of the outputs; ";" separates inputs.
rule, from PyTorch's notes on autograd: 1 the derivative; 2,3 the sub- or
supergradient of smallest norm; 4 a limit of derivatives nearby; 5 undefined,
so anything; 6 random, so an error. Our additions: page, the operation's own
page states it; int, integers or booleans, which cannot have a graph; all, the
derivative of the whole expression (torch applies its rules to each operation).
observed: measured now. ours: this library's subgradient, rule minimum_norm.
Marks: ! observed differs from the rule; * observed differs from ours."""


@dataclass(frozen=True)
class Row:
    """One point, its outcomes as text.

    `documented` is empty if the rule allows anything, `ours` if the library has no such op.
    """

    group: str
    operation: str
    point: str
    rule: str
    documented: str
    observed: str
    ours: str
    deviates_from_rule: bool
    deviates_from_ours: bool

    @property
    def cells(self) -> tuple[str, ...]:
        """The text of all columns except the marks."""
        return self.operation, self.point, self.rule, self.documented or "any", self.observed, self.ours or "-"


@dataclass(frozen=True)
class KinkTable:
    """The rows in order, and the version of torch that was measured. Printed, it is 80 columns wide."""

    version: str
    rows: tuple[Row, ...]

    @property
    def deviations(self) -> tuple[Row, ...]:
        """The rows where the observed outcome differs from the documented one or from this library's."""
        return tuple(row for row in self.rows if row.deviates_from_rule or row.deviates_from_ours)

    def markdown(self) -> str:
        """One Markdown table."""
        lines = [f"| {' | '.join(HEADER)} |", "|" + "---|" * len(HEADER)]
        for row in self.rows:
            marks = ["**rule**"] * row.deviates_from_rule + ["**ours**"] * row.deviates_from_ours
            lines.append(f"| `{row.operation}` | {' | '.join([*row.cells[1:], ', '.join(marks)])} |")
        return "\n".join(lines)

    def __str__(self) -> str:
        return "\n".join([f"torch {self.version}", "", *self._lines(), "", LEGEND])

    def _repr_html_(self) -> str:
        rows = [(*row.cells, "rule" * row.deviates_from_rule, "ours" * row.deviates_from_ours) for row in self.rows]
        return table(f"torch {self.version}", (*HEADER, ""), rows)

    def _lines(self) -> Iterator[str]:
        yield from _fold((*HEADER[:-1], ""))
        group = None
        for row in self.rows:
            if row.group != group:
                group = row.group
                yield f"-- {group} ".ljust(80, "-")
            marks = "!" * row.deviates_from_rule + "*" * row.deviates_from_ours
            cells = row.cells
            yield from _fold((*cells[:2], SHORT[row.rule], *cells[3:], marks))


def kinks() -> KinkTable:
    """Measures what the installed torch does at kinks and ties, beside PyTorch's rules and this library's derivatives.

    The call measures the columns `observed` and `ours`, on the CPU in float32. It does not change the global generator
    of random numbers.
    """
    with torch.random.fork_rng(devices=[]):
        rows = tuple(_row(group, probe) for group, probes in GROUPS.items() for probe in probes)
    return KinkTable(torch.__version__.partition("+")[0], rows)


def _row(group: str, probe: Probe) -> Row:
    observed, ours = probe.observed(), probe.convention()
    return Row(
        group,
        probe.operation,
        probe.point,
        probe.rule,
        " or ".join(map(_words, probe.documented)),
        _words(observed),
        "" if ours is None else _words(ours),
        bool(probe.documented) and not any(_same(observed, outcome) for outcome in probe.documented),
        ours is not None and not _same(observed, ours),
    )


def _words(outcome: Outcome) -> str:
    if isinstance(outcome, str):
        return outcome
    return "; ".join(", ".join(f"{number:.4g}" for number in numbers) for numbers in outcome)


def _same(a: Outcome, b: Outcome) -> bool:
    """Whether two outcomes are equal up to float32's rounding; NaN equals NaN."""
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    pairs = [(x, y) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True)]
    return all(math.isclose(x, y, rel_tol=1e-6) or (math.isnan(x) and math.isnan(y)) for x, y in pairs)


def _fold(cells: tuple[str, ...]) -> list[str]:
    """The lines of a row in columns; a long cell takes several lines."""
    columns = [textwrap.wrap(cell, width) or [""] for cell, width in zip(cells, WIDTHS, strict=True)]
    height = max(map(len, columns))
    parts = [[*column, *[""] * (height - len(column))] for column in columns]
    return [
        " ".join(f"{part[i]:<{width}}" for part, width in zip(parts, WIDTHS, strict=True)).rstrip()
        for i in range(height)
    ]
