"""From run folders to an answer: which strategy, by how much, how sure, and why. See docs/compare.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def load(*runs: str | Path) -> pd.DataFrame:
    """One row a run and metric of all runs under the folders `runs`; see `experiments.compare.forms.frames.load`."""
    from experiments.compare.forms.frames import load

    return load(*runs)


def curves(*runs: str | Path) -> pd.DataFrame:
    """One row a run, logged step and tag; see `experiments.compare.forms.frames.curves`."""
    from experiments.compare.forms.frames import curves

    return curves(*runs)
