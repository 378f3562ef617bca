"""The settings of a run: the keys of the configuration that belong to no group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from experiments.config.logger_names import require_logger

# These change how a run or a sweep is executed, not its results, its hash or its folder name.
LOOKING = ("diagnostics", "diagnostics_every")
CONDUCT = ("resume", "retry", "overwrite", "on_error", "dry_run", "workers", "engine", "loggers", *LOOKING)
DIAGNOSTICS = ("truth", "rivals")
GROUPS = ("component", "strategy", "model", "data", "optimizer")  # every run has one option of each


@dataclass(frozen=True)
class Settings:
    """The settings of one run; `conf/config.yaml` says what each is for.

    Raises ValueError if a number is out of range.
    """

    seed: int = 0
    max_steps: int = 1500
    batch_size: int = 64
    log_every: int = 10
    eval_every: int = 100
    threads: int = 1
    device: str = "cpu"
    precision: Literal["float32", "float64", "bfloat16", "float16"] = "float32"
    resume: Literal["auto", "never"] = "auto"
    retry: Literal["none", "failed"] = "none"
    overwrite: bool = False
    on_error: Literal["continue", "stop"] = "continue"
    dry_run: bool = False
    workers: int | None = None
    engine: Literal["auto", "single", "stacked"] = "auto"
    on_nonfinite: Literal["stop", "skip", "continue"] = "stop"
    overfit_batches: int | None = None
    diagnostics: str | list[str] | None = None
    diagnostics_every: int = 500
    detect_anomaly: bool = False
    loggers: str | list[str] | None = "tensorboard"

    def __post_init__(self) -> None:
        counts = ("max_steps", "batch_size", "log_every", "eval_every", "threads", "overfit_batches", "workers")
        for name in (*counts, "diagnostics_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
            if value is not None and value >= 2**63:
                raise ValueError(f"{name} must be below 2^63, got {value}")
        for kind in self.diagnostic_kinds:
            if kind not in DIAGNOSTICS:
                raise ValueError(f"diagnostics must be null, {', '.join(DIAGNOSTICS)} or a list of these, got {kind!r}")
        for name in self.logger_names:
            require_logger(name)
        if self.threads > 1024:
            raise ValueError(f"threads must be at most 1024, got {self.threads}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be between 0 and 2^63 - 1, got {self.seed}")

    @property
    def diagnostic_kinds(self) -> list[str]:
        """The kinds of diagnostics that are asked for."""
        return _names(self.diagnostics)

    @property
    def logger_names(self) -> list[str]:
        """The names of the loggers."""
        return _names(self.loggers)


def _names(asked: str | list[str] | None) -> list[str]:
    return [asked] if isinstance(asked, str) else asked or []
