"""The table that a run prints at its end."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.terminal.console import short_path, table


def closing_table(result: Mapping[str, Any], folder: Path) -> str:
    """Scores, gap, gradient norms, parameters that never trained, run folder, and the command that shows the curves."""
    metrics, best = result["metrics"], result["best"]
    rows = [("hard accuracy", _accuracies(metrics, ""))]
    if "accuracy/val_soft" in metrics:
        gap = metrics["accuracy/val_soft"] - metrics["accuracy/val"]
        rows.append(("soft accuracy", f"{metrics['accuracy/val_soft']:.4f} validation (soft - hard: {gap:+.4f})"))
    if "accuracy/val_recalibrated" in metrics:
        gap = metrics["accuracy/val_soft"] - metrics["accuracy/val_recalibrated"]
        text = f"{_accuracies(metrics, '_recalibrated')} (soft - hard: {gap:+.4f})"
        rows.append(("with recalibrated batch norm", text))
    rows.append(("best", f"{closing_line({'best': best})}, at step {best['step']}"))
    rows.append(("gradient norm", f"{metrics['grad_norm/total']:.3g} in all"))
    rows += [("", f"{norm:.3g} {name}") for name, norm in _first_norms(metrics)]
    if result["zero_gradient"]:
        rows.append(("never trained", f"gradient exactly 0 at every logged step: {', '.join(result['zero_gradient'])}"))
    if result["never_trained"]:
        rows.append(("never trained", f"no gradient at all: {', '.join(result['never_trained'])}"))
    if result["skipped_steps"]:
        rows.append(("skipped", f"{result['skipped_steps']} optimizer steps, whose gradient was not finite"))
    rows.append(("run folder", short_path(folder)))
    rows.append(("curves", f"tensorboard --logdir {shlex.quote(short_path(folder))}"))
    return table(rows, whole=("run folder", "curves"))


def closing_line(result: Mapping[str, Any]) -> str:
    """The best scores, and how many parameters never trained."""
    best = result["best"]
    dead = len(result.get("zero_gradient", ())) + len(result.get("never_trained", ()))
    scores = f"{best['accuracy/val']:.4f} validation, {best['accuracy/test']:.4f} test"
    return f"{scores}; {dead} parameters never trained" if dead else scores


def _accuracies(metrics: Mapping[str, float], suffix: str) -> str:
    return f"{metrics['accuracy/val' + suffix]:.4f} validation, {metrics['accuracy/test' + suffix]:.4f} test"


def _first_norms(metrics: Mapping[str, float], most: int = 8) -> list[tuple[str, float]]:
    norms = {tag.removeprefix("grad_norm/"): value for tag, value in metrics.items() if tag.startswith("grad_norm/")}
    norms.pop("total")
    return list(norms.items())[:most]
