"""The size of a model, known from its options before it is built."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelSize:
    """How many numbers a model holds: its parameters, and the outputs of its `blocks` components for one sample."""

    parameters: int
    activations: int
    blocks: int
