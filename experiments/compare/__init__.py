"""Compares the runs of strategies: which one is best, by how much, how sure that is, and why. See docs/compare.md."""

from experiments.compare.forms.frames import curves as curves
from experiments.compare.forms.frames import load as load
