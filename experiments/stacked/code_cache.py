"""Compiled training steps kept on disk between sweeps, found again without the compiler.

A step is compiled ahead of time to a shared library. Loading one takes milliseconds; importing torch's compiler to ask
whether it has something in its own cache takes seconds, as long as a sweep of small models does.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from filelock import FileLock
from torch import Tensor, fx

import experiments
import surrogates
from experiments.config.choices import STACKABLE, config_hash
from experiments.tracking.flat_config import flatten

COMPILES = ("component", "strategy", "model", "data", "optimizer", "batch_size", "precision", "device", "threads")
KEPT = 256  # libraries, of 2 MB each
Code = Callable[[list[Tensor]], list[Tensor]]
_log = logging.getLogger(__name__)


def steps_of(plains: Sequence[Mapping[str, Any]]) -> Path:
    """The folder of the compiled steps of a stack of these configurations.

    It is named after all that their code follows from, but for what changes within a run: the sources, the machine,
    what is configured, and of stackable keys whether the runs share a value and whether it is 0.
    """
    kept = {key: plains[0][key] for key in COMPILES}
    flat = [flatten(dict(plain)) for plain in plains]
    values = {key: {own.get(key) for own in flat} for key in STACKABLE if key != "seed"}
    shared = {key: sorted(map(str, own & {0.0, None})) if len(own) == 1 else "own" for key, own in values.items()}
    facts = [config_hash(kept, STACKABLE), shared, len(plains), _sources(), *_machine(plains[0]["device"])]
    return _root() / _digest(facts)


def is_warm(plains: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a compiled step of such a stack is there."""
    return any(steps_of(plains).glob("*.pt2"))


def kept(folder: Path, facts: Sequence[Any], trace: Callable[[], fx.GraphModule], inputs: Sequence[Tensor]) -> Code:
    """The code of a graph over these inputs, which it may write into: loaded, or compiled if it is not there.

    `facts` are what else it follows from than what names the folder. Of several processes one compiles.
    """
    file = folder / f"{_digest(facts)}.pt2"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_suffix(".lock")):
        if file.exists():
            try:
                return _load(file)
            except RuntimeError as error:
                _log.warning("%s cannot be read and is compiled again: %s", file, str(error).partition("\n")[0])
        _compile(file, trace(), inputs)
        _prune(_root())
        return _load(file)


def _load(file: Path) -> Code:
    """As `torch._inductor.aoti_load_package`, the import of which takes a second."""
    os.utime(file)
    loader: Any = torch._C._aoti.AOTIModelPackageLoader(str(file), "model", False, 1, -1)
    code: Code = loader.run
    return code


def _compile(file: Path, graph: fx.GraphModule, inputs: Sequence[Tensor]) -> None:
    from torch._inductor import aoti_compile_and_package

    with TemporaryDirectory(dir=file.parent) as folder:
        unfinished = Path(folder) / file.name
        aoti_compile_and_package(torch.export.export(graph, tuple(inputs)), package_path=str(unfinished))
        unfinished.replace(file)


def _prune(root: Path) -> None:
    """Deletes those that were not used for longest."""
    files = sorted(root.glob("*/*.pt2"), key=lambda file: file.stat().st_mtime)
    for file in files[:-KEPT]:
        file.unlink(missing_ok=True)


def _root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "hardgrad" / "steps"


@cache
def _sources() -> str:
    """A digest of all code that a configuration can name."""
    digest = hashlib.sha256()
    for package in (surrogates, experiments):
        for file in sorted(Path(str(package.__file__)).parent.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


@cache
def _machine(device: str) -> list[str]:
    """What compiled code runs on: it uses every instruction that the processor has."""
    facts = [torch.__version__, platform.machine(), torch.backends.cpu.get_cpu_capability()]
    processor = Path("/proc/cpuinfo")
    if processor.exists():
        facts += sorted(
            {line for line in processor.read_text().splitlines() if line.startswith(("flags", "model name"))}
        )
    if device != "cpu":
        facts += [torch.cuda.get_device_name(device), str(torch.cuda.get_device_capability(device))]
    return facts


def _digest(facts: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]
