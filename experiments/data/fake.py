"""Fake: noise with random labels, for tests; no model beats chance on its test part."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from experiments.data.dataset import Dataset
from experiments.data.parts import cut, standardise


@dataclass(frozen=True)
class Fake:
    """torchvision's FakeData: `size` training samples, and a quarter of that for validation and for test each.

    It rounds noise to bytes in a way that C leaves undefined, so pixels may differ between kinds of processors.
    `root` and `download` are unused.
    """

    root: str | None = None  # unused
    download: bool = False  # unused
    size: int = 256  # training samples, at least 4
    classes: int = 10
    channels: int = 1  # 1 to 4
    side: int = 8  # height and width, in pixels

    def __post_init__(self) -> None:
        for name, least in (("size", 4), ("classes", 1), ("channels", 1), ("side", 1)):
            value = getattr(self, name)
            if not least <= value < 2**31:
                raise ValueError(f"data set fake: data.{name}={value} must be at least {least} and below 2^31")
        if self.channels > 4:
            raise ValueError(f"data set fake: data.channels={self.channels} must be at most 4, as in a picture")

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample, channels first."""
        return (self.channels, self.side, self.side)

    @property
    def samples(self) -> int:
        """Number of samples of all three parts."""
        return self.size + 2 * (self.size // 4)

    def load(self) -> Dataset:
        """Draws the samples."""
        from torchvision.datasets import FakeData
        from torchvision.transforms import PILToTensor

        quarter = self.size // 4
        # FakeData seeds the global generators of every device, and restores that of the CPU only.
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            samples = FakeData(self.samples, self.input_shape, self.classes, transform=PILToTensor())
            x, y = zip(*(samples[index] for index in range(self.samples)), strict=True)
        return standardise("fake", self.classes, *cut((torch.stack(x), torch.tensor(y)), self.size, quarter, quarter))
