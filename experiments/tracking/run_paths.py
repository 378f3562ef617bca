"""The files of a run folder."""

from collections.abc import Iterator
from pathlib import Path

from experiments.tracking.atomic_file import temporary

LAST, PREVIOUS, BEST = "last.pt", "previous.pt", "best.pt"


class RunPaths:
    """Where a run's files are, for readers that need not claim the folder; `path` is made absolute."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()

    @property
    def config(self) -> Path:
        """The resolved configuration, YAML."""
        return self.path / "config.yaml"

    @property
    def hydra(self) -> Path:
        """The folder of what Hydra would write."""
        return self.path / ".hydra"

    @property
    def status(self) -> Path:
        """How far the run is, and the wall-clock times."""
        return self.path / "status.json"

    @property
    def env(self) -> Path:
        """What else the result depends on."""
        return self.path / "env.json"

    @property
    def metrics(self) -> Path:
        """All logged steps."""
        return self.path / "metrics.jsonl"

    @property
    def diagnostics(self) -> Path:
        """What was found by `diagnostics`, at its own steps."""
        return self.path / "diagnostics.jsonl"

    @property
    def log(self) -> Path:
        """What the run said, and how it failed."""
        return self.path / "train.log"

    @property
    def result(self) -> Path:
        """What came out."""
        return self.path / "result.json"

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def last_checkpoint(self) -> Path:
        """The newest checkpoint."""
        return self.checkpoints / LAST

    @property
    def best_checkpoint(self) -> Path:
        """The checkpoint with the best validation accuracy."""
        return self.checkpoints / BEST

    @property
    def lock(self) -> Path:
        """Locked while the run is alive."""
        return self.path / ".lock"

    def written(self) -> Iterator[Path]:
        """The files there that this program writes, but for status and lock; the checkpoints come first."""
        yield from _present(self.checkpoints / name for name in (LAST, PREVIOUS, BEST))
        yield from _present([self.metrics, self.diagnostics, self.result, self.env, self.config, self.log])
        yield from _present(self.hydra / name for name in ("config.yaml", "overrides.yaml", "hydra.yaml"))
        yield from sorted(self.path.glob("events.out.tfevents.*"))


def _present(paths: Iterator[Path] | list[Path]) -> Iterator[Path]:
    for path in paths:
        yield from (file for file in (path, temporary(path)) if file.is_file() or file.is_symlink())
