"""A diagnosis: its fields, and its text in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from surrogates.diagnosis.place import Place
from surrogates.diagnosis.remedies import Remedy, Trial
from surrogates.naming.html import pre

WIDTH = 80
STATES = {
    "none": "no gradient (None)",
    "zero": "exactly zero",
    "nan": "NaN",
    "inf": "infinite",
    "unused": "not used by the loss",
    "frozen": "frozen",
    "unknown": "not known",
    "finite": "finite",
}
PROBLEMS = ("none", "zero", "nan", "inf")


@dataclass(frozen=True)
class Finding:
    """One operation that keeps gradients from parameters.

    `kind` is `cut` (the graph ends here), `flattened` (a graph, but a derivative of zero), `cancelled` (the gradients
    of several uses sum to exactly 0), `not finite` (NaN or infinity arises here) or `exception`. `tried` is the first
    remedy under which parameters got a gradient when it was tried on the model. Without it, `remedies` are ops for an
    edit by hand, which was not tried.
    """

    kind: str
    operation: str
    place: Place
    parameters: tuple[str, ...]
    reason: str
    remedies: tuple[Remedy, ...] = ()
    tried: Trial | None = None

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield _crop(f"{self.kind}: {self.operation}")
        if self.place.file:
            yield _crop(f"    {_short(self.place.file)}:{self.place.line}, in {self.place.function}")
            yield _crop(f"        {self.place.code}")
        yield from _wrap(self.place.owner)
        yield from _wrap(self.reason)
        if self.parameters:
            yield from _wrap("parameters: " + ", ".join(self.parameters))
        if self.tried:
            yield from _wrap(f"tried: {self.tried}")
        for index, remedy in enumerate(() if self.tried else self.remedies):
            yield from _wrap(("by hand, not tried: " if index == 0 else "or: ") + str(remedy))


@dataclass(frozen=True)
class Diagnosis:
    """Why gradients are missing, zero or not finite.

    `outcome` is the first that holds of `exception`, `no graph` (a parameter's gradient is None), `not finite`, `zero
    gradient`, `healthy`.
    `parameters` maps each parameter to its state: `finite`, `none`, `zero`, `nan`, `inf`, `frozen` (requires_grad is
    False), `unused` (the loss was not computed from it), or after an exception `unknown`.
    `loss` is its value, None if there is none. `error` is the exception. `together` is one block of `through` with the
    strategies of all findings, if they differ, and what it cured when it was tried.
    """

    outcome: str
    parameters: dict[str, str]
    findings: tuple[Finding, ...] = ()
    loss: float | None = None
    error: Exception | None = None
    together: Trial | None = None

    @property
    def wanted(self) -> tuple[str, ...]:
        """The parameters that lack a usable gradient, or whose gradient is not known."""
        return tuple(name for name, held in self.parameters.items() if held in (*PROBLEMS, "unknown"))

    @property
    def healthy(self) -> bool:
        """Whether every trained parameter that the loss uses has a finite gradient that is not zero."""
        return self.outcome == "healthy"

    def named(self, state: str) -> tuple[str, ...]:
        """The parameters in a state."""
        return tuple(name for name, held in self.parameters.items() if held == state)

    def __str__(self) -> str:
        lines = [*_wrap(self._headline(), indent=0), ""]
        for state, words in STATES.items():
            if names := self.named(state):
                which = ", ".join(names) if state != "finite" or len(names) < 4 else f"{len(names)} parameters"
                lines += textwrap.wrap(f"{words:<22}{which}", WIDTH, subsequent_indent=" " * 22)
        for index, finding in enumerate(self.findings, 1):
            lines += ["", f"{index}. {finding}"]
        return "\n".join([*lines, *self._advice()])

    def _advice(self) -> Iterator[str]:
        """How the ops and blocks that the findings name are used."""
        if self.together:
            yield from ("", *_wrap(f"All in one block, tried: {self.together}", indent=0))
        if any(f.tried and f.tried.by_op for f in self.findings):
            yield from ("", *_wrap("The block must contain the call of the model and the loss.", indent=0))
        if any(f.remedies and not f.tried for f in self.findings):
            yield from ("", "As a function: strategy()(op(), x).")
            yield "As a module: surrogates.HardLayer(op(), strategy())."

    def _repr_html_(self) -> str:
        return pre(str(self))

    def _headline(self) -> str:
        at = "" if self.loss is None else f" (loss {self.loss:.4g})"
        if self.healthy:
            return f"healthy: every trained parameter that the loss uses has a gradient{at}"
        if self.error is not None:
            return f"exception: {type(self.error).__name__}: {str(self.error).strip().splitlines()[0]}"
        bad = sum(state in PROBLEMS for state in self.parameters.values())
        return f"{self.outcome}: {bad} of {len(self.parameters)} parameters get no usable gradient{at}"


def _wrap(text: str, indent: int = 4) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_on_hyphens=False,
    )


def _short(file: str) -> str:
    """The path from the working directory, if the file lies below it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _crop(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."
