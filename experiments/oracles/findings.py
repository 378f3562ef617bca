"""`hardgrad oracles findings`: writes docs/findings.md from the answers to all questions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import torch

from experiments.oracles import answer
from experiments.oracles.presets import FOLDER, Preset, ask, presets
from experiments.tracking.environment import environment
from experiments.tracking.outputs import check_folder, output_file, write_text

INTRODUCTION = """# Findings

This page answers questions about strategies by comparing their gradients with exact ones.
Each answer first states what the literature or a formula leads one to expect, then what was measured. A result that
differs from the expectation is marked **not as expected**, a result that leaves it open **undecided**.
"""

READING = """## How to read the answers

- A number in the form 0.63 (0.57 to 0.69) is an estimate with its 95 % confidence interval. Means over nets, teachers
  or instances have Student's t interval. Shares have the exact interval of Clopper and Pearson.
- An expectation about several numbers holds only if it holds for each. Their intervals are wider, so that all of them
  together miss the truth in at most 5 % of repetitions (Bonferroni). In tables each interval stands alone.
- "As expected": every interval lies on the expected side. "Not as expected": one lies wholly on the other side.
  "Undecided": neither.
- Two numbers count as equal only if the interval of their difference lies inside a margin. The expectation names it.
- Formulas, enumerations and quadratures have no sampling error and no interval.
- Expectations, margins and settings were written when earlier answers were known, most of them on 29 November 2026.
  "Known before" says for each question which results were known, and whether its nets, losses or seeds are new.
- "Earlier this page said" names what has changed.
- These are small nets with a known truth. They give orders of magnitude and counterexamples. They are not a study of
  training.

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
    head = [INTRODUCTION, _overview(found), READING, _machine_line()]
    write_text(page, "\n\n".join(part.strip() for part in [*head, *parts]) + "\n")
    print(f"written: {page}")


def _overview(found: Sequence[Preset]) -> str:
    """How many expectations hold, for each question that was asked."""
    rows = ["| question | as expected | not as expected | undecided |", "|---|---:|---:|---:|"]
    for preset in found:
        if (FOLDER / preset.name / "answer.json").is_file():
            verdicts = [check.holds for check in answer.read(FOLDER / preset.name).checks]
            rows.append(
                f"| {_title(preset)} | " + " | ".join(str(verdicts.count(v)) for v in (True, False, None)) + " |"
            )
    return "\n".join(rows)


def _title(preset: Preset) -> str:
    return preset.question.partition("?")[0] + "?"


def _section(preset: Preset, folder: Path, page: Path) -> str:
    title, rest = _title(preset), preset.question.partition("? ")[2]
    command = f"`python train.py experiment={preset.name}`"
    text = [f"## {title}", " ".join(filter(None, [rest, command]))]
    text += [f"Expected: {preset.expected}", f"Known before: {preset.known}"]
    if not (folder / "answer.json").is_file():
        return "\n\n".join([*text, "Not asked yet."])
    drawn = (folder / "figure.svg").read_bytes()
    with output_file(page.parent / page.stem / f"{preset.name}.svg") as file:
        file.write(drawn)
    text += [preset.earlier] if preset.earlier else []
    return "\n\n".join([*text, answer.markdown(answer.read(folder)), f"![{title}]({page.stem}/{preset.name}.svg)"])


def _machine_line() -> str:
    """The versions and the machine, in one line."""
    facts = environment([], torch.get_num_threads(), "cpu", {})
    cpu = facts["cpu"]
    return (
        f"Made with torch {torch.__version__} and scipy {metadata.version('scipy')} on {cpu['cores']} cores of an "
        f"{cpu['model']}. The seeds are under each answer."
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
