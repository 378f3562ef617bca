"""What all tests of runs share."""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runs import train


def pytest_configure() -> None:
    """Ctrl-C interrupts the tests' runs, even if a shell runs pytest in the background, where it is ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What tests have measured, by `record_property`; `docs/reliability.md` has these figures."""
    passed = terminalreporter.stats.get("passed", [])
    said = [(report.nodeid, name, value) for report in passed for name, value in report.user_properties]
    if said:
        terminalreporter.section("measured")
        for test, name, value in said:
            terminalreporter.write_line(f"{test.partition('::')[2]}: {name} {value}")


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Two test workers on two cores: torch's own threads would only be in each other's way."""
    import torch  # here, so that the process that only hands out the tests does without

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _no_hydra_left() -> Iterator[None]:
    """A command line run inside a test leaves Hydra's configuration, and with it a starting folder, to the next one."""
    yield
    if module := sys.modules.get("hydra.core.hydra_config"):
        module.HydraConfig.instance().cfg = None


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of a finished run of these overrides, made once a test session; not to be written to."""
    made: dict[tuple[str, ...], Path] = {}

    def folder(*overrides: str) -> Path:
        if overrides not in made:
            made[overrides] = tmp_path_factory.mktemp("run")
            assert train(made[overrides], *overrides).status == "DONE"
        return made[overrides]

    return folder
