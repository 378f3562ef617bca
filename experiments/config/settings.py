"""The settings of a run that belong to no group: the root keys of the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# How a run or a sweep is conducted: neither its numbers nor its name depend on these.
LOOKING = ("diagnostics", "diagnostics_every")
CONDUCT = ("resume", "retry", "overwrite", "on_error", "dry_run", "workers", "engine", *LOOKING)
DIAGNOSTICS = ("truth", "rivals")
GROUPS = ("component", "strategy", "model", "data", "optimizer")  # of conf/; every run chooses one option of each


@dataclass(frozen=True)
class Settings:
    """How long, how often, where and how exactly a run trains; raises ValueError for a number out of range."""

    seed: int = 0  # of initial weights, batch order and noise; 0 is as good as any
    max_steps: int = 1500  # optimizer steps
    batch_size: int = 64  # samples
    log_every: int = 10  # optimizer steps
    eval_every: int = 100  # optimizer steps; evaluations also write a checkpoint
    threads: int = 1  # of one operation; small models are slower with more
    device: str = "cpu"  # cpu, cuda, cuda:0, ...
    precision: Literal["float32", "float64", "bfloat16", "float16"] = "float32"  # the 16-bit ones by autocast
    resume: Literal["auto", "never"] = "auto"  # continue an interrupted run of the same configuration, or start anew
    retry: Literal["none", "failed"] = "none"  # make a run that failed anew
    overwrite: bool = False  # replace a finished run in the same folder
    on_error: Literal["continue", "stop"] = "continue"  # after a job of a sweep has failed
    dry_run: bool = False  # say what would run, and run nothing
    workers: int | None = None  # processes of a sweep at a time; as many as there are cores for their threads
    engine: Literal["auto", "single", "stacked"] = "auto"  # other launchers stack only with engine=stacked
    on_nonfinite: Literal["stop", "skip", "continue"] = "stop"  # a loss, gradient or parameter that is NaN or infinite
    overfit_batches: int | None = None  # train on the first batches only, again and again
    diagnostics: str | list[str] | None = None  # truth, rivals or both: what the gradient is worth; slow
    diagnostics_every: int = 500  # optimizer steps
    detect_anomaly: bool = False  # torch's anomaly detection: slow, names the forward line of a NaN gradient

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
        if self.threads > 1024:
            raise ValueError(f"threads must be at most 1024, got {self.threads}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be between 0 and 2^63 - 1, got {self.seed}")

    @property
    def diagnostic_kinds(self) -> list[str]:
        """The kinds of diagnostics that are asked for."""
        asked = self.diagnostics or []
        return [asked] if isinstance(asked, str) else asked
