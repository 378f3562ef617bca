"""Progress and tables of a run: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from experiments.tracking.run_folder import RunFolder

WIDE = 100  # a terminal of at least so many columns also shows the time left


class Progress:
    """On a terminal a bar with loss, accuracy, gradient norm; elsewhere and in the log a line for each evaluation."""

    def __init__(self, title: str, total: int, done: int, folder: RunFolder) -> None:
        self.title, self.total, self._folder = title, total, folder
        self._bar: Any = None
        self._shown: dict[str, float] = {}
        folder.say(f"{title}, {total} steps")
        if not folder.quiet and sys.stdout is not None and sys.stdout.isatty():
            self._start_bar(done)

    def _start_bar(self, done: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        console = Console()
        count = 2 * len(str(self.total)) + 1
        columns: list[ProgressColumn] = [
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            BarColumn(bar_width=None),
            MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=count)),
            TextColumn("{task.fields[numbers]}", table_column=Column(no_wrap=True)),
        ]
        if console.width >= WIDE:
            columns.insert(3, TimeRemainingColumn(table_column=Column(no_wrap=True)))
        self._bar = Bar(*columns, console=console, transient=True)
        self._task = self._bar.add_task(self.title, total=self.total, completed=done, numbers="")
        self._bar.start()

    def update(self, step: int, values: Mapping[str, float]) -> None:
        """Shows a logged step."""
        self._shown.update(values)
        if self._bar is not None:
            self._bar.update(self._task, completed=step, numbers=self._numbers(("loss", "acc", "grad"), " "))
        if "accuracy/val" in values:
            line = f"step {step:>{len(str(self.total))}}/{self.total}  {self._numbers()}"
            self._folder.say(line, echo=self._bar is None)

    def _numbers(self, names: tuple[str, ...] = ("loss", "accuracy", "gradient"), gap: str = "  ") -> str:
        shown = zip(names, ("loss/train", "accuracy/val", "grad_norm/total"), strict=True)
        return gap.join(f"{name} {self._shown[tag]:.3g}" for name, tag in shown if tag in self._shown)

    def close(self) -> None:
        """Stops the bar."""
        if self._bar is not None:
            self._bar.stop()


def fold(text: str) -> str:
    """Wraps a paragraph at 80 characters and indents all lines except the first; a longer word stays whole."""
    return textwrap.fill(text, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def table(rows: list[tuple[str, str]], whole: Collection[str] = ()) -> str:
    """Aligns two columns and wraps cells at 80 characters, except the rows named in `whole`, which hold commands."""
    left = max(len(name) for name, _ in rows) + 2
    wrap = textwrap.TextWrapper(80 - left, break_long_words=False, break_on_hyphens=False).wrap
    lines = []
    for name, cell in rows:
        wrapped = [] if name in whole else wrap(cell)
        lines += [f"{name if i == 0 else '':<{left}}{part}".rstrip() for i, part in enumerate(wrapped or [cell])]
    return "\n".join(lines)


def short_path(path: Path) -> str:
    """A path as text, relative to the folder where the program was started if that is shorter."""
    from hydra.core.hydra_config import HydraConfig

    moved = HydraConfig.initialized() and HydraConfig.get().job.chdir
    relative = os.path.relpath(path, HydraConfig.get().runtime.cwd if moved else None)
    return relative if len(relative) < len(str(path)) else str(path)
