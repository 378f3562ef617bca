"""`python -m experiments.oracles findings`: docs/findings.md, made of the answers to all questions."""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.oracles import answer
from experiments.oracles.presets import FOLDER, Preset, ask, presets
from experiments.tracking.outputs import check_folder, output_file, write_text

INTRODUCTION = """# Findings

What exact gradients say. Made by `python -m experiments.oracles findings`, which asks each question below anew; one
alone is asked by its own command. What the literature or a formula leads one to expect stands first; the numbers that
decide whether it holds, and some settings (clipping of `ties`, steps of `spurious_minimum`, widths of
`shape_or_width`, rates of `hidden_scale`), were chosen after first results. What is not as expected is said to be so.
These are small nets with a known truth, a few seeds: orders of magnitude and counterexamples, not a study of training.
Bias and deviation are relative to the norm of the true gradient; the best scale is the factor that brings an
estimator's mean nearest to the truth. The whole table, every strategy on every oracle: `python -m experiments.oracles`.
"""


def write(page: Path, keep: bool) -> None:
    """Asks all questions, or with `keep` takes the answers that are there, and writes the page and its figures.

    Raises OutputRefused or OutputFailed.
    """
    check_folder(page.parent, page.name)
    found = presets()
    parts = [INTRODUCTION]
    for number, preset in enumerate(found, 1):
        folder = FOLDER / preset.name
        if not keep:
            _say(f"[{'#' * (number - 1)}{'.' * (len(found) - number + 1)}] {number}/{len(found)} {preset.name}")
            ask(preset.name, folder)
        parts.append(_section(preset, folder, page))
    write_text(page, "\n\n".join(part.strip() for part in parts) + "\n")
    print(f"written: {page}")


def _section(preset: Preset, folder: Path, page: Path) -> str:
    title, _, rest = preset.question.partition("? ")
    command = f"`python train.py experiment={preset.name}`"
    text = [f"## {title.rstrip('?')}?", " ".join(filter(None, [rest, command])), f"Expected: {preset.expected}"]
    if not (folder / "answer.json").is_file():
        return "\n\n".join([*text, "Not asked yet."])
    drawn = (folder / "figure.svg").read_bytes()
    with output_file(page.parent / page.stem / f"{preset.name}.svg") as file:
        file.write(drawn)
    return "\n\n".join([*text, answer.markdown(answer.read(folder)), f"![{title}?]({page.stem}/{preset.name}.svg)"])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
