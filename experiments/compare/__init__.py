"""From run folders to an answer: which strategy, by how much, how sure, and why. See docs/compare.md."""

from experiments.compare.forms.frames import curves as curves
from experiments.compare.forms.frames import load as load
