"""Shows the progress of a running sweep: one live line on a terminal, elsewhere a line for each finished job."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from experiments.sweep.plan import Job
from experiments.sweep.variation import in_words, variation
from experiments.sweep.watch import SweepProgress, news_line
from experiments.terminal.console import short_path, table

EVERY = 0.5  # seconds between two updates; more if an update takes long
SHARE = 0.02  # largest share of the time for updates
HEARTBEAT = 30.0  # seconds without a finished job after which plain output shows the progress


@contextmanager
def show_progress(due: Sequence[Job], jobs: Sequence[Job]) -> Iterator[None]:
    """Shows the progress of the due jobs while the block runs; they are named by what varies between all `jobs`."""
    over = threading.Event()
    keys = variation(job.overrides for job in jobs)
    names = {job.number: in_words(job.overrides, keys) or short_path(job.folder) for job in due}
    progress, out = SweepProgress(due), sys.stdout
    terminal = out is not None and out.isatty()
    target = _live if terminal else _plain
    thread = threading.Thread(target=target, args=(progress, names, out, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _plain(progress: SweepProgress, names: dict[int, str], out: Any, over: threading.Event) -> None:
    width, told = len(str(len(progress.jobs))), time.monotonic()

    def show(news: list[str]) -> None:
        nonlocal told
        before, now = len(progress.ended) - len(news), time.monotonic()
        late = [progress.words()] if not news and now - told > HEARTBEAT else []
        for count, line in enumerate([*news, *late], before + bool(news)):
            print(table([(f"[{count:>{width}}/{len(progress.jobs)}]", line)]), file=out, flush=True)
            told = now

    _loop(progress, names, over, show)


def _live(progress: SweepProgress, names: dict[int, str], out: Any, over: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    console = Console(file=out)
    whole = Column(no_wrap=True)
    bar = Progress(
        TextColumn("{task.description}", table_column=whole),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[words]}", table_column=whole),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with bar:
        task = bar.add_task(f"0/{len(progress.jobs)}", total=len(progress.jobs), words="")

        def show(news: list[str]) -> None:
            for line in news:
                console.print(line, markup=False, highlight=False)
            counted = f"{len(progress.ended)}/{len(progress.jobs)}"
            bar.update(task, completed=progress.completed, description=counted, words=progress.words())

        _loop(progress, names, over, show)


def _loop(
    progress: SweepProgress, names: dict[int, str], over: threading.Event, show: Callable[[list[str]], None]
) -> None:
    last = False
    while True:
        began = time.monotonic()
        news = progress.look()
        try:
            show([news_line(job, status, names[job.number]) for job, status in news])
        except (OSError, ValueError):  # the output is closed; the jobs continue
            return
        if last:
            return
        last = over.wait(max(EVERY, (time.monotonic() - began) / SHARE))
