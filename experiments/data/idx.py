"""Reads the family of MNIST: four idx files, with the same names in every member."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor

from experiments.data.dataset import DataError, Dataset
from experiments.data.files import obtain, root_folder
from experiments.data.parts import Images, with_validation

COUNTS = {"train": 60_000, "t10k": 10_000}  # samples of the official parts, by prefix of their files
FILES = [f"{part}-{kind}" for part in COUNTS for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]
FIRST_LABELS = {"MNIST": (5, 0, 4, 1, 9, 2, 1, 3, 1, 4), "FashionMNIST": (9, 0, 0, 3, 0, 2, 7, 2, 5, 5)}
DAMAGE = (OSError, EOFError, zlib.error, AssertionError, KeyError, TypeError, ValueError, RuntimeError)


def load_idx(name: str, member: str, root: str | None, download: bool) -> Dataset:
    """Loads `member`, a class of torchvision.datasets (28x28 grey images, 10 classes), as the data set `name`.

    `root` holds torchvision's layout, `<member>/raw/`, or the four files `*-ubyte.gz` themselves. Only a download
    writes there.
    Raises DataError if files are absent or damaged, or cannot be downloaded.
    """
    import torchvision.datasets

    cls = getattr(torchvision.datasets, member)
    folder = root_folder(root)
    train, test = obtain(
        lambda: _read(name, member, folder),
        lambda staging: cls(str(staging), download=True),
        folder,
        source=f"{', '.join(FILES)} (.gz each) from {' or '.join(cls.mirrors)}",
        download=download,
    )
    return with_validation(name, 10, train, test)


def _read(name: str, member: str, root: Path) -> tuple[Images, Images]:
    paths = _find(name, root / member / "raw", root)
    train, test = (_part(name, paths, prefix) for prefix in COUNTS)
    first = tuple(train[1][:10].tolist())
    for other, labels in FIRST_LABELS.items():
        if other != member and first == labels:
            folder = next(iter(paths.values())).parent
            raise DataError(f"data set {name}: the files in {folder} are those of {other}; set data.root to {member}'s")
    return train, test


def _find(name: str, raw: Path, root: Path) -> dict[str, Path]:
    """Finds the four paths by file name, all in one folder."""
    for folder, suffix in ((raw, ""), (raw, ".gz"), (root, ".gz")):
        paths = {file: folder / f"{file}{suffix}" for file in FILES}
        if all(os.path.isfile(path) for path in paths.values()):
            return paths
    found = {folder: sorted(path.name for path in folder.glob("*-ubyte*")) for folder in (raw, root)}
    seen = "; ".join(f"in {folder}: {', '.join(names) or 'none of them'}" for folder, names in found.items())
    raise DataError(
        f"data set {name}: it needs the files {', '.join(FILES)}; found {seen}. "
        f"Set data.download=true, or put all four, with suffix .gz, into {root}, or set data.root to their folder."
    )


def _part(name: str, paths: dict[str, Path], prefix: str) -> Images:
    n = COUNTS[prefix]
    images = _tensor(name, paths[f"{prefix}-images-idx3-ubyte"], (n, 28, 28))
    labels = _tensor(name, paths[f"{prefix}-labels-idx1-ubyte"], (n,))
    return images.unsqueeze(1), labels


def _tensor(name: str, path: Path, shape: tuple[int, ...]) -> Tensor:
    from torchvision.datasets.mnist import read_image_file, read_label_file

    found = "an empty file"
    try:
        with _unpack(path) as plain:
            if plain.stat().st_size:
                tensor: Tensor = (read_label_file if len(shape) == 1 else read_image_file)(str(plain))
                if tensor.shape == shape:
                    return tensor
                found = f"shape {tuple(tensor.shape)}"
    except DAMAGE as error:
        found = f"an unreadable file ({type(error).__name__}: {error})"
    raise DataError(
        f"data set {name}: {path.name} in {path.parent} must hold shape {shape}, found {found}. "
        "Set data.download=true to download it again, or replace the file by hand."
    )


@contextmanager
def _unpack(path: Path) -> Iterator[Path]:
    """Yields the file, or an unpacked copy in a temporary folder, because torchvision's reader does not unpack."""
    if path.suffix != ".gz":
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / path.stem
        with gzip.open(path) as packed, plain.open("wb") as out:
            shutil.copyfileobj(packed, out)
        yield plain
