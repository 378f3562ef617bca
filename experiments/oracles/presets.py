"""Presets of conf/experiment/ that ask the oracles a question: `python train.py experiment=NAME`.

Such a preset has the key `question`, the name of a module of `experiments.oracles.questions`. Its comment lines hold
the question; after "Expected: " what was expected; after "Known before: " which results were known when that was
written; and from "Earlier this page said " on, which may be absent, what has changed since an earlier answer.
"""

from __future__ import annotations

import importlib
import textwrap
from dataclasses import dataclass
from pathlib import Path

from omegaconf import OmegaConf

from experiments.conf_folder import CONF
from experiments.config.choices import ConfigError
from experiments.oracles import answer
from experiments.oracles.answer import Answer
from experiments.tracking.outputs import check_folder

EXPERIMENTS = CONF / "experiment"
FOLDER = Path("runs/questions")
EARLIER = " Earlier this page said "


@dataclass(frozen=True)
class Preset:
    """A preset's name and header.

    `known` says which results were known when the expectation was written, `earlier` what has changed since an earlier
    answer.
    """

    name: str
    question: str
    expected: str
    known: str
    earlier: str = ""


def presets() -> list[Preset]:
    """Lists all presets that ask a question, in the order of their names."""
    found = []
    for path in sorted(EXPERIMENTS.glob("*.yaml")):
        if "question" in OmegaConf.load(path):
            found.append(_preset(path.stem, path.read_text()))
    return found


def _preset(name: str, text: str) -> Preset:
    header = " ".join(line.removeprefix("# ") for line in text.splitlines()[1:] if line.startswith("# "))
    question, expects, rest = header.partition(" Expected: ")
    expected, knows, rest = rest.partition(" Known before: ")
    if not (expects and knows):
        raise ValueError(f"the header of {name}.yaml needs 'Expected: ' and then 'Known before: '")
    known, mark, rest = rest.partition(EARLIER)
    return Preset(name, question, expected, known, (mark + rest).strip())


def ask(name: str, folder: Path, dry: bool = False) -> None:
    """Measures the answer, prints it and writes it into `folder`; with `dry` only prints the question.

    Raises ConfigError if there is no such question.
    Raises OutputRefused, before measuring, if `folder` cannot be written to.
    Raises OutputFailed if a file cannot be written.
    """
    known = {preset.name: preset for preset in presets()}
    if name not in known:
        raise ConfigError(f"there is no question {name!r}; the questions are: {', '.join(known)}")
    print(f"{textwrap.fill(known[name].question, 80)}\n", flush=True)
    if dry:
        return
    check_folder(folder)
    module = importlib.import_module(f"experiments.oracles.questions.{name}")
    found: Answer = module.answer()
    found.write(folder)
    print(f"{answer.terminal(found)}\n\nwritten: {folder}", flush=True)
