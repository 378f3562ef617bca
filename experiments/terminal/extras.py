"""Names the command that installs a package of an extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def install(extra: str) -> str:
    """The command that installs an extra of pyproject.toml, for a package and for a checkout."""
    return f"pip install 'hardgrad[{extra}]' brings it (in a checkout: pip install -e '.[{extra}]')"


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Names the extra in a ModuleNotFoundError of the block."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error.name} is not installed; {install(extra)}", name=error.name) from None
