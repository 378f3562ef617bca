"""Digits: the images that come with scikit-learn, the default data set."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from experiments.data.dataset import DataError, Dataset
from experiments.data.parts import Images, cut, standardise


@dataclass(frozen=True)
class Digits:
    """1797 handwritten digits of 8x8 pixels (Alpaydin and Kaynak 1998, UCI); parts of 1079/359/359, standardised.

    `root` and `download` are unused: the file comes with scikit-learn.
    """

    root: str | None = None  # unused
    download: bool = False  # unused

    classes: ClassVar[int] = 10
    input_shape: ClassVar[tuple[int, ...]] = (1, 8, 8)

    def load(self) -> Dataset:
        """Reads the file.

        Raises DataError if scikit-learn is not installed, or lacks the file.
        """
        images = read()
        held_out = len(images[0]) // 5
        return standardise("digits", 10, *cut(images, len(images[0]) - 2 * held_out, held_out, held_out))


def read() -> Images:
    """Reads all images (1797, 1, 8, 8), uint8 in 0..16, and labels, as sklearn.datasets.load_digits() returns them.

    It does not import sklearn, which takes about a second.
    """
    spec = find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        raise DataError("data set digits: its file comes with scikit-learn: pip install scikit-learn")
    path = Path(spec.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    try:
        table = np.loadtxt(path, delimiter=",", dtype=np.float32)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"data set digits: cannot read {path} ({error}); reinstall scikit-learn") from error
    if table.shape != (1797, 65):
        raise DataError(f"data set digits: {path} has shape {table.shape}, not (1797, 65); reinstall scikit-learn")
    numbers = torch.from_numpy(table)
    return numbers[:, :-1].reshape(-1, 1, 8, 8).to(torch.uint8), numbers[:, -1].long()
