"""Why a run folder cannot be claimed or written to; each message says what would be right."""

import errno
import os
import sys
from pathlib import Path


class FolderError(Exception):
    """The folder cannot be used as requested."""


class FolderInUse(FolderError):
    """A live run holds the folder."""


class ConfigDiffers(FolderError):
    """The folder holds a run of another configuration."""


class RunCutOff(FolderError):
    """The folder holds a run of this configuration that could be resumed."""


class RunOver(FolderError):
    """The folder holds a run of this configuration that is over; `status` says how."""

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.status = status


class LogChanged(FolderError):
    """The log of an interrupted run is not the one that its checkpoint belongs to."""

    def __init__(self, path: Path, fault: str, otherwise: str = "") -> None:
        self.path, self.fault = path, fault
        super().__init__(
            f"{path} {fault}; nothing was changed. Put the file back as it was and the run goes on, or make the run "
            f"anew: overwrite=true replaces it, another hydra.run.dir leaves it alone{otherwise}"
        )


def reason(error: OSError) -> str:
    """The system's words for what went wrong with a file."""
    words = error.strerror or type(error).__name__
    return f"{words}; ulimit -n raises the limit" if error.errno == errno.EMFILE else words


def is_storage(error: BaseException) -> bool:
    """Whether a file could not be written, rather than that the reader of the output has closed it."""
    return isinstance(error, OSError) and not isinstance(error, BrokenPipeError)


def storage_fault(folder: Path, error: OSError) -> str:
    """The message of a run that could not write one of its files, with how to resume it."""
    where = error.filename if isinstance(error.filename, str | os.PathLike) else folder
    return (
        f"stopped: {os.fspath(where)} cannot be written ({reason(error)}). What was saved before is intact; "
        "once that is mended, the same command goes on from there"
    )


def refuse_other_encoding(path: Path) -> None:
    """Raises FolderError for a path that the locale cannot decode."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise FolderError(
            f"{str(path)!a} has letters that this locale ({sys.getfilesystemencoding()}) does not know; "
            "set PYTHONUTF8=1, or choose another hydra.run.dir"
        ) from None
