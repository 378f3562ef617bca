"""Fashion-MNIST: articles of clothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from experiments.data.dataset import Dataset
from experiments.data.idx import load_idx


@dataclass(frozen=True)
class FashionMnist:
    """Fashion-MNIST (Xiao, Rasul, Vollgraf 2017, arXiv 1708.07747): 28x28 grey images; parts of 54000/6000/10000.

    `root` holds torchvision's `FashionMNIST/raw/`, or the four `.gz` files themselves, as Debian's package
    dataset-fashion-mnist puts them in /usr/share/datasets/fashion-mnist. Standardised.
    """

    root: str | None = None  # None: `data` in the folder where the program was started
    download: bool = False

    classes: ClassVar[int] = 10
    input_shape: ClassVar[tuple[int, ...]] = (1, 28, 28)

    def load(self) -> Dataset:
        """Reads the files.

        Raises DataError if they are absent or damaged, or cannot be downloaded.
        """
        return load_idx("fashion_mnist", "FashionMNIST", self.root, self.download)
