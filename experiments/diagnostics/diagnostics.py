"""Makes the measurements that the key `diagnostics` requests, at its steps, and records their cost."""

from __future__ import annotations

import time

from torch import Tensor, nn

from experiments.config.settings import Settings


class Diagnostics:
    """Measures a copy of a model in training, with its own random generators."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.kinds = settings, settings.diagnostic_kinds
        self.times, self.seconds, self._since = 0, 0.0, time.monotonic()

    def due(self, step: int) -> bool:
        """Whether a measurement is due after this many steps."""
        last = step == self.settings.max_steps
        return bool(self.kinds) and (step % self.settings.diagnostics_every == 0 or step == 1 or last)

    def measure(self, model: nn.Module, batch: tuple[Tensor, Tensor], step: int) -> dict[str, float]:
        """Returns the tags after `step` steps, on the batch of the next step."""
        from experiments.diagnostics.descent import descent_tags
        from experiments.diagnostics.finite_differences import difference_tags
        from experiments.diagnostics.per_sample import per_sample_tags
        from experiments.diagnostics.point import Point
        from experiments.diagnostics.rivals import rival_tags

        began = time.monotonic()
        point = Point(model, *batch, self.settings.seed, step)
        gradient = point.gradient()
        values: dict[str, float] = {}
        if "truth" in self.kinds:
            found = {"gradient_norm": float(gradient.norm()), **descent_tags(point, gradient)}
            found |= difference_tags(point, gradient) | per_sample_tags(point)
            values |= {f"truth/{name}": value for name, value in found.items()}
        if "rivals" in self.kinds:  # last, because it changes the strategy of the copy
            values |= {f"rivals/{name}": value for name, value in rival_tags(point, gradient).items()}
        self.times, self.seconds = self.times + 1, self.seconds + time.monotonic() - began
        return values

    def cost(self) -> str:
        """Writes the cost in words."""
        each, share = self.seconds / max(1, self.times), self.seconds / max(1e-9, time.monotonic() - self._since)
        return f"diagnostics    {self.times} times, {each:.2g} s each, {share:.0%} of the time"
