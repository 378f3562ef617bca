"""What two finished runs have in common: the bytes of what they logged and ended with, and every bit of their state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from experiments.tracking import checkpoint
from experiments.tracking.run_paths import RunPaths
from runs import read


def last(folder: Path) -> dict[str, Any]:
    """The final state of a run: weights, optimizer, step."""
    state: dict[str, Any] = checkpoint.load(RunPaths(folder).last_checkpoint)["trainer"]
    return state


def same(left: Any, right: Any) -> bool:
    """Equal bit for bit, in tensors, containers and numbers."""
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def assert_same_run(folder: Path, other: Path) -> None:
    """Both are done, with the same log, result, final state and best weights."""
    for name in ("metrics.jsonl", "result.json", "test_outcomes.json"):
        assert (folder / name).read_bytes() == (other / name).read_bytes(), folder / name
    assert same(last(folder), last(other)), folder
    assert same(*(checkpoint.load(RunPaths(path).best_checkpoint) for path in (folder, other))), folder
    assert read(folder / "status.json")["status"] == "DONE"
