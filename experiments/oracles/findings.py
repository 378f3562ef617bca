"""`hardgrad oracles findings`: writes docs/findings.md from the answers to all questions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.oracles import answer
from experiments.oracles.presets import FOLDER, Preset, ask, presets
from experiments.tracking.outputs import check_folder, output_file, write_text

INTRODUCTION = """# Findings

This page answers questions about strategies by comparing their gradients with exact ones.
Each answer first states what the literature or a formula leads one to expect, then what was measured. A result that
differs from the expectation is marked **not as expected**.
"""

READING = """## How to read the answers

- The thresholds that decide whether an expectation holds were chosen after first results. So were some settings: the
  clipping of `ties`, the steps of `spurious_minimum`, the widths of `shape_or_width`, the rates of `hidden_scale`.
- These are small nets with a known truth and a few seeds. They give orders of magnitude and counterexamples. They are
  not a study of training.

| word | meaning |
|---|---|
| bias | distance of an estimator's mean from the true gradient, relative to the true gradient's norm |
| deviation | standard deviation of one sample, relative to the same norm |
| best scale | the factor that brings an estimator's mean nearest to the truth |
| descent | the share of samples whose inner product with the true gradient is positive |
| ST | straight-through |

`hardgrad oracles findings` makes this page and asks every question anew. The command under a question asks only that
one. `hardgrad oracles` makes the whole table: every strategy on every oracle.
"""


def write(page: Path, keep: bool) -> None:
    """Asks all questions, or with `keep` takes the answers that are there, and writes the page and its figures.

    Raises OutputRefused or OutputFailed.
    """
    check_folder(page.parent, page.name)
    found = presets()
    parts = []
    for number, preset in enumerate(found, 1):
        folder = FOLDER / preset.name
        if not keep:
            _say(f"[{'#' * (number - 1)}{'.' * (len(found) - number + 1)}] {number}/{len(found)} {preset.name}")
            ask(preset.name, folder)
        parts.append(_section(preset, folder, page))
    write_text(page, "\n\n".join(part.strip() for part in [INTRODUCTION, _overview(found), READING, *parts]) + "\n")
    print(f"written: {page}")


def _overview(found: Sequence[Preset]) -> str:
    """How many expectations hold, for each question that was asked."""
    rows = ["| question | as expected |", "|---|---:|"]
    for preset in found:
        if (FOLDER / preset.name / "answer.json").is_file():
            checks = answer.read(FOLDER / preset.name).checks
            rows.append(f"| {_title(preset)} | {sum(c.holds is True for c in checks)} of {len(checks)} |")
    return "\n".join(rows)


def _title(preset: Preset) -> str:
    return preset.question.partition("?")[0] + "?"


def _section(preset: Preset, folder: Path, page: Path) -> str:
    title, rest = _title(preset), preset.question.partition("? ")[2]
    command = f"`python train.py experiment={preset.name}`"
    text = [f"## {title}", " ".join(filter(None, [rest, command])), f"Expected: {preset.expected}"]
    if not (folder / "answer.json").is_file():
        return "\n\n".join([*text, "Not asked yet."])
    drawn = (folder / "figure.svg").read_bytes()
    with output_file(page.parent / page.stem / f"{preset.name}.svg") as file:
        file.write(drawn)
    text += [f"Earlier: {preset.earlier}"] if preset.earlier else []
    return "\n\n".join([*text, answer.markdown(answer.read(folder)), f"![{title}]({page.stem}/{preset.name}.svg)"])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
