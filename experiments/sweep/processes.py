"""Worker processes for the units of a sweep; they end with the process that started them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import connection
from typing import Any, TypeVar

from experiments.sweep.ending import NotStarted
from experiments.sweep.worker import CODE, follow, hold_process
from experiments.training.interruption import Interrupted, Stop, stop_signals

Unit = TypeVar("Unit")
Result = TypeVar("Result")


class WorkerDied(Exception):
    """A worker process died before it finished its unit; the message says how."""


def work(run: Callable[[Unit], Result], units: Sequence[Unit], workers: int) -> list[Result | WorkerDied]:
    """run(unit) for every unit, in their order; in this process if one is enough.

    Each forked process takes the next unit when it has finished one. A signal is passed on to them, and this process
    waits until they have saved; at a second signal they do not finish their step. The unit of a process that dies
    gives WorkerDied; the others do the rest.
    """
    if workers == 1 or "fork" not in multiprocessing.get_all_start_methods():
        return [run(unit) for unit in units]
    return _Crew(run, units, workers).results()


class _Crew:
    """Processes, and the results that they have sent."""

    def __init__(self, run: Callable[[Any], Any], units: Sequence[Any], workers: int) -> None:
        self.context: Any = multiprocessing.get_context("fork")
        self.run, self.units, self.workers = run, units, workers
        self.next = self.context.Value("i", 0)
        self.done: dict[int, Any] = {}
        self.pipes: dict[Any, Any] = {}

    def _start(self) -> None:
        """Starts all of them; a signal waits until then, so that every started process is known."""
        with stop_signals(patient=True) as stop:
            for _ in range(self.workers):
                receiving, sending = self.context.Pipe(duplex=False)
                process = self.context.Process(target=self._labour, args=(sending, stop))
                process.start()
                sending.close()
                self.pipes[receiving] = process
        if stop.signum is not None:
            raise Interrupted(stop.signum)

    def _labour(self, sending: Any, stop: Stop) -> None:
        """A worker's work; `stop` holds a signal that came before it could handle one."""
        os.setpgid(0, 0)  # Ctrl-C reaches the parent alone, which passes it on
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, _stop)
        parent = multiprocessing.parent_process()
        assert parent is not None
        follow(parent.is_alive)
        try:
            if stop.signum is not None:
                raise Interrupted(stop.signum)
            while (number := self._take()) is not None:
                with hold_process():
                    result = self.run(self.units[number])
                sending.send((number, result))
        except (KeyboardInterrupt, NotStarted, BrokenPipeError):
            os._exit(CODE)

    def _take(self) -> int | None:
        with self.next.get_lock():
            number = int(self.next.value)
            self.next.value = number + 1
        return number if number < len(self.units) else None

    def results(self) -> list[Any]:
        """Waits for all results."""
        died = "a worker process ended early"
        try:
            self._start()
            while self.pipes:
                for pipe in connection.wait(list(self.pipes)):
                    died = self._receive(pipe) or died
        except BaseException:
            self._dismiss()
            raise
        return [self.done.get(number, WorkerDied(died)) for number in range(len(self.units))]

    def _receive(self, pipe: Any) -> str:
        """Keeps one result; gives how a worker died that had not finished."""
        try:
            number, result = pipe.recv()
            self.done[number] = result
        except EOFError:
            process = self.pipes.pop(pipe)
            process.join()
            if process.exitcode:
                return f"a worker process ended with code {process.exitcode}; run the same command to resume"
        return ""

    def _dismiss(self) -> None:
        """Asks all to stop, and waits for their checkpoints."""
        processes = list(self.pipes.values())
        while any(process.is_alive() for process in processes):
            with suppress(KeyboardInterrupt):  # another signal: all are asked again
                for process in processes:
                    process.terminate()
                for process in processes:
                    process.join()


def _stop(signum: int, _: Any) -> None:
    raise Interrupted(signum)
