"""Run folders as the program leaves them, written in an instant instead of trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from experiments.compare.reading.run_record import RunRecord
from experiments.config.config_hash import config_hash
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.test_outcomes import Owner, write_test_outcomes

ENVIRONMENT: dict[str, Any] = {
    "versions": {"python": "3.11.7", "torch": "2.14.1"},
    "git": {"commit": "0" * 40, "dirty": False},
    "threads": 1,
    "device": "cpu",
    "data_hashes": {"train": "a", "val": "b", "test": "c"},
}


def config(component: str, strategy: str, seed: int, lr: float = 0.1, **root: Any) -> dict[str, Any]:
    """A resolved configuration; keys of `root` with `__` for a dot go into groups, `strategy__carrier="identity"`."""
    made: dict[str, Any] = {
        "component": {"_target_": f"surrogates.layers.{component}.Component", "_partial_": True},
        "strategy": {"_target_": f"surrogates.strategies.{strategy}.Strategy", "temperature": None, "kernel": None},
        "model": {"_target_": "experiments.models.mlp.MLP", "_partial_": True, "width": 8},
        "data": {"_target_": "experiments.data.digits.Digits", "root": None, "download": False},
        "optimizer": {"_target_": "experiments.optimizers.sgd.SGD", "lr": lr},
        "seed": seed,
        "max_steps": 20,
        "log_every": 5,
        "eval_every": 10,
        "threads": 1,
        "device": "cpu",
    }
    for key, value in root.items():
        group, within, name = key.partition("__")
        (made[group] if within else made)[name or key] = value
    return made


def write_run(
    folder: Path,
    strategy: str = "ste",
    seed: int = 0,
    accuracy: float = 0.5,
    *,
    component: str = "floor",
    validation: float | None = None,
    status: str = "DONE",
    error: str | None = None,
    environment: dict[str, Any] | None = None,
    seconds: float = 1.0,
    never_trained: tuple[str, ...] = (),
    engine: str = "single",
    argv: tuple[str, ...] = (),
    rows: list[dict[str, Any]] | None = None,
    facts: dict[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """Writes a run; returns its folder."""
    folder.mkdir(parents=True)
    made = config(component, strategy, seed, **settings)
    (folder / "config.yaml").write_text(yaml.safe_dump(made))
    digest = config_hash(made)
    started = {"config_hash": digest, "started": f"2026-01-01T00:00:{seed % 60:02}", "seconds": seconds}
    write(folder / "status.json", {"status": status, **started, "error": error})
    write(folder / "env.json", {**ENVIRONMENT, "argv": list(argv), **(environment or {})})
    value = accuracy if validation is None else validation
    rows = curves(value) if rows is None else rows
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if status == "DONE":
        best = {"step": 20, "accuracy/val": value, "accuracy/test": accuracy, "loss/val": 1.0}
        result = {"metrics": {**rows[-1], **best}, "best": best, "config_hash": digest, "engine": engine}
        more = {"never_trained": list(never_trained), "zero_gradient": [], "skipped_steps": 0}
        write(folder / "result.json", {**result, **more, **(facts or {})})
    return folder


def write_outcomes(folder: Path, right: NDArray[np.bool_]) -> None:
    """Writes which test samples the last and the best model of such a run classified right."""
    digest = json.loads((folder / "status.json").read_text())["config_hash"]
    owner = Owner(digest, ENVIRONMENT["data_hashes"]["test"])
    write_test_outcomes(RunPaths(folder), owner, {"last": right, "best": right})


def curves(accuracy: float) -> list[dict[str, Any]]:
    """The logged steps of such a run."""
    rows: list[dict[str, Any]] = []
    for step in (1, 5, 10, 15, 20):
        row = {"step": step, "loss/train": 2.0 / step, "grad_norm/total": 1.0, "grad_norm/readout.weight": 1.0}
        layer = {"grad_in_norm": 0.5, "grad_out_norm": 0.5, "zero_gradient_fraction": 0.1, "saturated_fraction": 0.1}
        row |= {f"op/blocks.0/{name}": value for name, value in layer.items()}
        if step % 10 == 0:
            row |= {"loss/val": 1.0, "accuracy/val": accuracy * step / 20, "op/blocks.0/flip_rate": 0.01}
        rows.append(row)
    return rows


def write(path: Path, content: Any) -> None:
    """Writes a JSON file."""
    path.write_text(json.dumps(content))


def record(strategy: str = "ste", seed: int = 0, accuracy: float | None = 0.5, **changes: Any) -> RunRecord:
    """A run as the comparison reads it; keys of `config` are `optimizer.lr` and so on."""
    options = {"component": "floor", "strategy": strategy, "model": "mlp", "data": "digits", "optimizer": "sgd"}
    scores = {} if accuracy is None else {"accuracy/val": accuracy, "accuracy/test": accuracy}
    known: dict[str, Any] = {
        "path": Path(strategy, str(seed)),
        "options": {**options, **changes.pop("options", {})},
        "config": {"max_steps": 20, **changes.pop("config", {})},
        "seed": seed,
        "config_hash": f"{strategy}{seed}",
        "outcome": "done",
        "reason": "",
        "started": "",
        "seconds": 1.0,
        "conditions": {"engine": "single"},
        "environment": {},
        "command": "",
        "best": scores,
        "last": scores,
        "never_trained": (),
        "skipped_steps": 0,
        "exact": None,
        "parameters": None,
        "deciding_layers": None,
    }
    return RunRecord(**{**known, **changes})
