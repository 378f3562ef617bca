"""MNIST: handwritten digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from experiments.data.dataset import Dataset
from experiments.data.idx import load_idx


@dataclass(frozen=True)
class Mnist:
    """MNIST (LeCun, Cortes, Burges 1998): 28x28 grey images; parts of 54000/6000/10000, standardised.

    `root` holds torchvision's `MNIST/raw/`, or the four `.gz` files themselves.
    """

    root: str | None = None  # None: `data` in the folder where the program was started
    download: bool = False

    classes: ClassVar[int] = 10
    input_shape: ClassVar[tuple[int, ...]] = (1, 28, 28)

    def load(self) -> Dataset:
        """Reads the files.

        Raises DataError if they are absent or damaged, or cannot be downloaded.
        """
        return load_idx("mnist", "MNIST", self.root, self.download)
