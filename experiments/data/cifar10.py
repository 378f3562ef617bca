"""CIFAR-10: small colour photographs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from experiments.data.dataset import DataError, Dataset
from experiments.data.files import obtain, root_folder
from experiments.data.parts import Images, with_validation

COUNTS = {True: 50_000, False: 10_000}  # samples of the official parts: training, test


@dataclass(frozen=True)
class Cifar10:
    """CIFAR-10 (Krizhevsky 2009): 32x32 colour images; parts of 45000/5000/10000, standardised per channel.

    `root` holds the folder `cifar-10-batches-py` of the official archive. The parts take 740 MB.
    """

    root: str | None = None  # None: `data` in the folder where the program was started
    download: bool = False

    classes: ClassVar[int] = 10
    input_shape: ClassVar[tuple[int, ...]] = (3, 32, 32)

    def load(self) -> Dataset:
        """Reads the files.

        Raises DataError if they are absent or damaged, or cannot be downloaded.
        """
        from torchvision.datasets import CIFAR10

        root = root_folder(self.root)
        train, test = obtain(
            lambda: (_part(CIFAR10, root, train=True), _part(CIFAR10, root, train=False)),
            lambda staging: CIFAR10(str(staging), download=True),
            root,
            source=f"{CIFAR10.url} (unpacked: {CIFAR10.base_folder})",
            download=self.download,
        )
        return with_validation("cifar10", 10, train, test)


def _part(cls: Any, root: Path, train: bool) -> Images:
    try:
        part = cls(str(root), train=train)
    except OSError as error:
        raise DataError(f"data set cifar10: cannot read the files in {root / cls.base_folder}: {error}") from error
    except RuntimeError as error:  # torchvision compares the checksums, but does not say which file is wrong
        raise DataError(_damage(cls, root)) from error
    x = torch.from_numpy(part.data).permute(0, 3, 1, 2).contiguous()
    if len(x) != COUNTS[train]:
        raise DataError(f"data set cifar10: {root / cls.base_folder} holds {len(x)} samples, not {COUNTS[train]}")
    return x, torch.tensor(part.targets)


def _damage(cls: Any, root: Path) -> str:
    from torchvision.datasets.utils import check_integrity

    folder = root / cls.base_folder
    files = [*cls.train_list, *cls.test_list, [cls.meta["filename"], cls.meta["md5"]]]
    bad = [
        f"{file} ({'wrong checksum' if (folder / file).is_file() else 'absent'})"
        for file, md5 in files
        if not check_integrity(str(folder / file), md5)
    ]
    return (
        f"data set cifar10: files in {folder} are absent or damaged: {', '.join(bad)}. Set data.download=true, or "
        f"unpack {cls.url} in {root}, or set data.root to the folder that holds {cls.base_folder}."
    )
