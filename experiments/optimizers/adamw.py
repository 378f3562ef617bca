"""Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv 1711.05101)."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from experiments.optimizers.adam import Adam


@dataclass(frozen=True)
class AdamW(Adam):
    """torch.optim.AdamW."""

    weight_decay: float = 0.01
    kind: ClassVar[type[torch.optim.Adam]] = torch.optim.AdamW
