"""One run, from a composed configuration to its result; needs no command line."""

from __future__ import annotations

import dataclasses
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn

from experiments.config import NOT_HASHED, Choices, ConfigError, choose, config_hash, resolve
from experiments.data import load as load_data
from experiments.data.dataset import Dataset
from experiments.initialise import initialise
from experiments.nonfinite import Diverged
from experiments.session import Interrupted, Session, to_device
from experiments.tracking import checkpoint
from experiments.tracking.environment import environment
from experiments.tracking.metrics import MetricsLog
from experiments.tracking.run_folder import RunFolder, find_cut_off
from experiments.tracking.run_status import DONE, FAILED, INTERRUPTED, NOT_APPLICABLE
from experiments.tracking.strict_json import write_json
from experiments.tracking.tensorboard import CurveWriter
from experiments.trainer import Trainer
from surrogates import EmptyCell, calibrate, hard_layers

SHOWN_METRICS = ("accuracy/val", "accuracy/test", "accuracy/val_soft", "loss/val", "loss/train", "grad_norm/total")
# Written into the run folder as Hydra would write them, so that its own tools find them.
HydraFiles = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Request:
    """What to run and where; `search` is the folder under which a cut-off run may be continued instead."""

    config: DictConfig
    folder: Path
    search: Path | None = None
    argv: Sequence[str] = ()
    overrides: Sequence[str] = ()
    columns: Sequence[str] = ()
    hydra: HydraFiles = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended: its folder, its status, its result if it has one, and why it has none."""

    folder: Path
    status: str
    result: Mapping[str, Any] | None = None
    reason: str | None = None


def build_model(choices: Choices) -> nn.Module:
    """The chosen model with the chosen component, its weights drawn from the seed; no global generator moves."""
    component = partial(choices.component, strategy=choices.strategy)
    data, settings = choices.data, choices.settings
    try:
        with torch.random.fork_rng(devices=[]):
            model: nn.Module = choices.model(input_shape=data.input_shape, classes=data.classes, component=component)
    except EmptyCell:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if settings.batch_size == 1 and any(isinstance(m, nn.BatchNorm1d) for m in model.modules()):
        raise ConfigError("batch_size=1 is too small for model.batch_norm=true, which needs two samples")
    initialise(model, settings.seed)
    dtype = torch.float64 if settings.precision == "float64" else torch.float32
    return model.to(settings.device, dtype)


def drop_unused_knobs(plain: dict[str, Any], model: nn.Module, overrides: Iterable[str]) -> list[str]:
    """Sets knobs to None that this strategy does not use on this op; says so of those that were set on purpose."""
    used = {knob for layer in hard_layers(model).values() for knob in layer.strategy.uses(layer.op)}
    notes = []
    dependent = {"temperature": ("temperature", "schedule", "final_temperature"), "kernel": ("kernel",)}
    for knob, keys in dependent.items():
        if knob in used:
            continue
        for key in keys:
            if plain["strategy"].get(key) is not None:
                plain["strategy"][key] = None
                if any(o.lstrip("+").startswith(f"strategy.{key}=") for o in overrides):
                    notes.append(f"strategy.{key} has no effect here and is left out")
    return notes


def run(request: Request) -> Outcome:
    """Runs what a configuration asks for; raises ConfigError, DataError or FolderError before any work is done.

    A run that diverges, fails or is not applicable is an outcome with its reason, written to `status.json`.
    """
    choices = choose(request.config)
    settings = choices.settings
    plain = resolve(request.config)
    prepare(settings.threads, settings.device)
    try:
        model = build_model(choices)
    except EmptyCell as error:
        return _not_applicable(request, plain, str(error))
    for note in drop_unused_knobs(plain, model, request.overrides):
        print(f"note: {note}")
    data = load_data(choices.data)
    digest = config_hash(plain)
    path = request.folder
    if settings.resume == "auto" and request.search is not None and request.search.is_dir():
        path = find_cut_off(request.search, digest) or path
    resume = settings.resume == "auto"
    with RunFolder.claim(path, digest, resume, settings.overwrite, plain, NOT_HASHED) as folder:
        try:
            session = _session(request, folder, plain, choices, model, data)
            title = f"{_stem(plain['component'])} {_stem(plain['strategy'])}"
            with torch.autograd.set_detect_anomaly(settings.detect_anomaly):
                result = session.train(title)
            session.curves.close(success=True)
        except Interrupted:
            session.curves.close(success=None)
            folder.write_status(INTERRUPTED)
            raise
        except Diverged as error:
            session.curves.close(success=False)
            folder.write_status(FAILED, str(error))
            return Outcome(folder.path, FAILED, reason=str(error))
        except Exception:
            folder.write_status(FAILED, traceback.format_exc())
            raise
        finally:
            if "session" in locals():
                session.log.close()
        folder.write_status(DONE)
        return Outcome(folder.path, DONE, result)


def prepare(threads: int, device: str) -> None:
    """Threads and determinism of this process; raises ConfigError for a device that is not there."""
    torch.set_num_threads(threads)
    try:
        torch.zeros((), device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device={device} cannot be used: {str(error).splitlines()[0]}") from None
    if torch.device(device).type == "cuda":
        torch.use_deterministic_algorithms(True, warn_only=True)


def _session(
    request: Request, folder: RunFolder, plain: dict[str, Any], choices: Choices, model: nn.Module, data: Dataset
) -> Session:
    settings = choices.settings
    write_json(folder.env, environment(request.argv, settings.threads, settings.device, data.hashes()))
    OmegaConf.save(OmegaConf.create(plain), folder.config)
    folder.hydra.mkdir(exist_ok=True)
    for name, content in request.hydra.items():
        OmegaConf.save(content, folder.hydra / name)
    state = checkpoint.load_latest(folder.checkpoints) if folder.resumed else None
    dtype = torch.float64 if settings.precision == "float64" else torch.float32
    parts = {name: to_device(getattr(data, name), settings.device, dtype) for name in ("train", "val", "test")}
    trainer = Trainer(model, choices.optimizer, settings, dataclasses.replace(data, **parts))
    if state is None:
        calibrate(model, trainer.batch(1)[0])
    if trainer.batches.note:
        print(f"note: {trainer.batches.note}")
    step = state["trainer"]["step"] if state else None
    hashed = {key: value for key, value in plain.items() if key not in NOT_HASHED and key != "seed"}
    curves = CurveWriter(
        folder.path, hashed, SHOWN_METRICS, config_hash(plain, (*NOT_HASHED, "seed")),
        purge_step=None if step is None else step + 1, columns=request.columns,
    )  # fmt: skip
    session = Session(trainer, folder, curves, MetricsLog(folder.metrics, step))
    if state is not None:
        session.restore(state)
        print(f"continuing {folder.path} from step {step}")
    return session


def _not_applicable(request: Request, plain: dict[str, Any], reason: str) -> Outcome:
    with RunFolder.claim(request.folder, config_hash(plain), True, True, plain, NOT_HASHED) as folder:
        OmegaConf.save(OmegaConf.create(plain), folder.config)
        folder.write_status(NOT_APPLICABLE, reason)
    return Outcome(folder.path, NOT_APPLICABLE, reason=reason)


def _stem(node: Mapping[str, Any]) -> str:
    return str(node["_target_"]).split(".")[-2]


def warn(text: str) -> None:
    """One line to standard error."""
    print(text, file=sys.stderr, flush=True)
