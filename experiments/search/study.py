"""An optuna study in which each trial is a run. A trial with low validation accuracy is pruned while it trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock, Timeout
from omegaconf import DictConfig
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from experiments.config.folder_names import job_folder
from experiments.config.values import ConfigError
from experiments.sweep.ending import objective
from experiments.sweep.manifest import record
from experiments.sweep.plan import REFUSED, make_job
from experiments.sweep.requests import chosen_options
from experiments.tracking.run_paths import RunPaths
from experiments.tracking.run_status import DONE
from experiments.tracking.strict_json import read_json
from experiments.training.interruption import Pruned
from experiments.training.run import Request, run

OVER = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


def search(
    root: Path,
    spaces: dict[str, Any],
    shared: Sequence[str],
    trials: int,
    seed: int,
    compose: Callable[[Sequence[str]], DictConfig],
) -> str | None:
    """Runs trials until the study in `root` has `trials` of them.

    Returns the best one as text; None if none was completed.
    """
    with _study(root) as study:
        for trial in _interrupted_trials(study):
            study.enqueue_trial(trial.params)
            study.tell(trial.number, state=TrialState.FAIL)
        while (done := _over(study)) < trials:
            study.sampler = optuna.samplers.TPESampler(seed=seed + done)  # as without interruptions
            study.pruner = optuna.pruners.MedianPruner(n_startup_trials=4)
            trial = study.ask()
            own = [*shared, *(f"{key}={_suggest(trial, key, space)}" for key, space in spaces.items())]
            state, value, words = _run_trial(root, shared, own, trial, compose)
            study.tell(trial, value, state=state)
            print(f"[{done + 1}/{trials}] {' '.join(own)}: {words}", flush=True)
        if not any(trial.state == TrialState.COMPLETE for trial in study.trials):
            return None
        best = study.best_trial
        return f"best {best.value:.4f}: {' '.join(f'{key}={value}' for key, value in best.params.items())}"


@contextmanager
def _study(root: Path) -> Iterator[optuna.Study]:
    """Opens the study in a folder.

    Raises ConfigError while another process has it open.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    root.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(root / ".study.lock", timeout=0).acquire()
    except Timeout:
        raise ConfigError(f"another search runs in {root}; wait, or choose another --root") from None
    with held:
        yield optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(root / "study.journal"))),
            study_name=root.name,
            load_if_exists=True,
        )


def _interrupted_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Trials of a killed command. They are proposed again, and their runs resume from their checkpoints."""
    return [trial for trial in study.trials if trial.state == TrialState.RUNNING]


def _over(study: optuna.Study) -> int:
    """How many trials ended. Interrupted trials are proposed again and do not count."""
    return sum(trial.state in OVER and "made" in trial.user_attrs for trial in study.trials)


def _suggest(trial: optuna.Trial, key: str, space: Any) -> Any:
    if isinstance(space, list):
        return trial.suggest_categorical(key, space)
    low, high, logarithmic = space
    return trial.suggest_float(key, low, high, log=logarithmic)


def _run_trial(
    root: Path,
    shared: Sequence[str],
    overrides: list[str],
    trial: optuna.Trial,
    compose: Callable[[Sequence[str]], DictConfig],
) -> tuple[TrialState, float | None, str]:
    """Runs a trial; returns its state, its objective, and a text for the user."""
    config, folder = compose(overrides), (root / job_folder(overrides)).absolute()
    job = make_job(trial.number, overrides, folder, config)
    record(root.absolute(), [job], shared)
    if job.state == REFUSED or job.reason:
        trial.set_user_attr("made", False)
        return TrialState.FAIL, None, job.reason
    options = chosen_options(config.hydra)
    result, words = _result(
        Request(config, folder, overrides=overrides, quiet=True, watch=partial(_watch, trial), options=options)
    )
    trial.set_user_attr("made", True)
    value = objective(result)
    if value is not None:
        return TrialState.COMPLETE, value, f"{value:.4f}"
    return (TrialState.PRUNED if words == "pruned" else TrialState.FAIL), None, words


def _result(request: Request) -> tuple[Any, str]:
    """Trains the run, unless its folder has a result; returns the result and a text for the user."""
    paths = RunPaths(request.folder)
    if paths.result.exists():
        return read_json(paths.result), DONE
    try:
        outcome = run(request)
    except Pruned:
        return None, "pruned"
    except Exception as error:  # the run's log has the traceback; the search continues
        return None, f"{type(error).__name__}: {error}"
    return outcome.result, outcome.reason or outcome.status


def _watch(trial: optuna.Trial, step: int, values: Mapping[str, float]) -> None:
    """Reports a validation accuracy to optuna.

    Raises Pruned if the trial should stop.
    """
    if "accuracy/val" in values:
        trial.report(1.0 - values["accuracy/val"], step)
        if trial.should_prune():
            raise Pruned(f"pruned at step {step}: worse than the median of the other trials")
