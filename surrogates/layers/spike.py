"""Spiking activations."""

from typing import Literal, get_args

import torch
from torch import Tensor

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.float32 import require_count, require_float32
from surrogates.hard_layer import HardLayer
from surrogates.naming.words import require_word
from surrogates.ops.heaviside import Heaviside

Reset = Literal["subtract", "zero"]


class Spike(Component):
    """Leaky integrate-and-fire units, driven by a constant current (`layer(x)`) or by a current over time.

    From v = 0, at each step v = decay v + x; s = heaviside(v - threshold); then v = v - threshold s (`reset=subtract`)
    or v = v (1 - s) (`zero`).
    - `layer(x)` has no time axis: (batch, width, ...) to the same. x is the current at each of `steps` time steps, the
      output the firing rate, the mean of s, a multiple of 1 / steps.
    - `layer.over_time(x)` has the time axis first, as in snntorch and spikingjelly: currents or spikes (time, batch,
      width, ...) to the spikes s of the same shape.
    At v = threshold, s is 1. The strategy's derivative passes through the reset and through the spikes of the output.
    With `detach_reset` the s of the reset is a constant, as in Zenke and Vogels 2021 (Neural Computation 33).
    Raises ValueError if steps is below 1, decay outside [0, 1], threshold not positive, or reset unknown.
    Raises ValueError in `over_time` if the input has fewer than three dimensions or no time step.
    """

    shown = ("steps", "decay", "threshold", "reset", "detach_reset")

    def __init__(
        self,
        strategy: Strategy | str,
        steps: int = 8,
        decay: float = 0.9,
        threshold: float = 1.0,
        reset: Reset = "subtract",
        detach_reset: bool = False,
    ) -> None:
        super().__init__()
        require_count(steps=steps)
        if not 0 <= decay <= 1:
            raise ValueError(f"decay must be between 0 (no memory) and 1 (no leak), got {decay}")
        if not 0 < threshold < float("inf"):
            raise ValueError(f"threshold must be positive and finite, got {threshold}")
        require_float32(decay=decay, threshold=threshold)
        require_word("reset", reset, get_args(Reset))
        self.steps, self.decay, self.threshold = steps, decay, threshold
        self.reset, self.detach_reset = reset, detach_reset
        self.fire = HardLayer(Heaviside(), strategy)

    @property
    def repeats(self) -> int:
        """The number of time steps."""
        return self.steps

    def forward(self, x: Tensor) -> Tensor:
        """The firing rate, between 0 and 1."""
        v = spikes = torch.zeros_like(x)
        for _ in range(self.steps):
            v, fired = self._step(v, x)
            spikes = spikes + fired
        return spikes / self.steps

    def over_time(self, x: Tensor) -> Tensor:
        """The spikes at each time step, for the input of that step; every call starts from v = 0."""
        if x.dim() < 3 or not len(x):
            raise ValueError(f"over_time takes (time, batch, width, ...), got the shape {tuple(x.shape)}")
        v, spikes = torch.zeros_like(x[0]), []
        for current in x:
            v, fired = self._step(v, current)
            spikes.append(fired)
        return torch.stack(spikes)

    def _step(self, v: Tensor, current: Tensor) -> tuple[Tensor, Tensor]:
        """The membrane potential after one time step, and the spikes of that step."""
        v = self.decay * v + current
        fired: Tensor = self.fire(v - self.threshold)
        s = fired.detach() if self.detach_reset else fired
        return v - self.threshold * s if self.reset == "subtract" else v * (1 - s), fired
