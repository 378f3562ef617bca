"""Questions that need torch, answered in a process of their own, since its half gigabyte would stay in this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def classes(target: str) -> int | None:
    """The number of classes of a data set by its configured class, None for a class that is not there."""
    found = _answers("classes", (target,))[0]
    return found if isinstance(found, int) else None


def decision_layers(runs: Sequence[Path]) -> list[set[str] | None]:
    """Of every run the layers whose outputs are decisions, None where this program cannot make the run's model."""
    return [None if found is None else set(found) for found in _answers("decisions", tuple(map(str, runs)))]


@cache
def _answers(question: str, about: tuple[str, ...]) -> list[Any]:
    if not about:
        return []
    if "torch" in sys.modules:
        return answer(question, about)
    command = [sys.executable, "-m", __name__, question, *about]
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    return list(json.loads(done.stdout.splitlines()[-1])) if done.returncode == 0 else [None] * len(about)


def answer(question: str, about: Sequence[str]) -> list[Any]:
    """The answers, one each, None for what cannot be answered."""
    return [_each(_QUESTIONS[question], one) for one in about]


def _each(function: Callable[[str], Any], about: str) -> Any:
    try:
        return function(about)
    except Exception:  # of another version, or another program: whatever is wrong with it
        return None


def _classes(target: str) -> int | None:
    module, _, name = target.rpartition(".")
    return int(getattr(import_module(module), name).classes) if module.startswith("experiments.data.") else None


def _decisions(run: str) -> list[str]:
    from experiments.compare.reading.decisions import decisions

    return decisions(Path(run))


_QUESTIONS: dict[str, Callable[[str], Any]] = {"classes": _classes, "decisions": _decisions}


if __name__ == "__main__":
    print(json.dumps(answer(sys.argv[1], sys.argv[2:])))
