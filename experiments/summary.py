"""The closing table of a run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.console import table


def closing_table(result: Mapping[str, Any], folder: Path) -> str:
    """Scores, gap, gradient norms, what never trained, where the run is, and the command that shows its curves."""
    metrics, best = result["metrics"], result["best"]
    rows = [("hard accuracy", _accuracies(metrics, ""))]
    if "accuracy/val_soft" in metrics:
        gap = metrics["accuracy/val_soft"] - metrics["accuracy/val"]
        rows.append(("soft accuracy", f"{metrics['accuracy/val_soft']:.4f} validation (soft - hard: {gap:+.4f})"))
    if "accuracy/val_recalibrated" in metrics:
        gap = metrics["accuracy/val_soft"] - metrics["accuracy/val_recalibrated"]
        text = f"{_accuracies(metrics, '_recalibrated')} (soft - hard: {gap:+.4f})"
        rows.append(("with recalibrated batch norm", text))
    rows.append(("best", f"{best['accuracy/val']:.4f} validation, {best['accuracy/test']:.4f} test, at step {best['step']}"))
    rows.append(("gradient norm", f"{metrics['grad_norm/total']:.3g} in all"))
    rows += [("", f"{norm:.3g} {name}") for name, norm in _largest(metrics)]
    if result["zero_gradient"]:
        rows.append(("gradient exactly 0", ", ".join(result["zero_gradient"]) + ": these never trained"))
    if result["never_trained"]:
        rows.append(("no gradient at all", ", ".join(result["never_trained"])))
    rows.append(("run folder", shown(folder)))
    rows.append(("curves", f"tensorboard --logdir {shlex.quote(shown(folder))}"))
    return table(rows)


def _accuracies(metrics: Mapping[str, float], suffix: str) -> str:
    return f"{metrics['accuracy/val' + suffix]:.4f} validation, {metrics['accuracy/test' + suffix]:.4f} test"


def _largest(metrics: Mapping[str, float], most: int = 8) -> list[tuple[str, float]]:
    prefix = "grad_norm/"
    norms = {tag.removeprefix(prefix): v for tag, v in metrics.items() if tag.startswith(prefix) and tag != prefix + "total"}
    return list(norms.items())[:most]


def shown(folder: Path) -> str:
    """A path as short as it can be written from here."""
    relative = os.path.relpath(folder)
    return relative if len(relative) < len(str(folder)) else str(folder)
