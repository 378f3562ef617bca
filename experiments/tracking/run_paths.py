"""The files of a run folder."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from experiments.tracking.atomic_file import temporary

STATUS = "status.json"
LAST, PREVIOUS, BEST = "last.pt", "previous.pt", "best.pt"


class RunPaths:
    """Paths of a run's files, for readers that need not claim the folder; `path` is made absolute."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self.config = self.path / "config.yaml"  # the resolved configuration
        self.hydra = self.path / ".hydra"  # the folder of the files that Hydra would write
        self.status = self.path / STATUS  # the state of the run, and wall-clock times
        self.env = self.path / "env.json"  # what else the result depends on
        self.metrics = self.path / "metrics.jsonl"  # all logged steps
        self.diagnostics = self.path / "diagnostics.jsonl"  # the measurements of `diagnostics`, at its own steps
        self.loggers = self.path / "loggers.json"  # the ids by which loggers find the run again
        self.log = self.path / "train.log"  # the run's messages, and how it failed
        self.result = self.path / "result.json"
        self.test_outcomes = self.path / "test_outcomes.json"  # which test samples were classified right
        self.checkpoints = self.path / "checkpoints"
        self.last_checkpoint = self.checkpoints / LAST
        self.best_checkpoint = self.checkpoints / BEST  # the best validation accuracy
        self.lock = self.path / ".lock"  # locked while the run is alive

    def written(self) -> Iterator[Path]:
        """Lists the existing files that this program writes, except status and lock; checkpoints come first."""
        yield from (file for file in self.places() if file.is_file() or file.is_symlink())
        yield from sorted(self.path.glob("events.out.tfevents.*"))

    def places(self) -> Iterator[Path]:
        """Lists the paths of all files with a fixed name, and of their temporary files, except status and lock."""
        yield from _with_temporary(self.checkpoints / name for name in (LAST, PREVIOUS, BEST))
        yield from _with_temporary([self.metrics, self.diagnostics, self.result, self.test_outcomes])
        yield from _with_temporary([self.env, self.config, self.loggers, self.log])
        yield from _with_temporary(self.hydra / name for name in ("config.yaml", "overrides.yaml", "hydra.yaml"))


def _with_temporary(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        yield from (path, temporary(path))
