"""How large a model will be, from its options alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelSize:
    """Numbers that a model holds: its parameters, and the outputs of its `blocks` components for one sample."""

    parameters: int
    activations: int
    blocks: int
