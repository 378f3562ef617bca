"""Errors of claiming or writing to a run folder; each message says what the user can do."""

import errno
import os
import sys
from pathlib import Path


class FolderError(Exception):
    """Raised if the folder cannot be used as requested."""


class FolderInUse(FolderError):
    """Raised if a live run holds the folder."""


class ConfigDiffers(FolderError):
    """Raised if the folder holds a run of another configuration."""


class RunCutOff(FolderError):
    """Raised if the folder holds an interrupted run of this configuration, and resuming was not requested."""


class RunOver(FolderError):
    """Raised if the folder holds a run of this configuration that is over; `status` says how it ended."""

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.status = status


class LogChanged(FolderError):
    """Raised if the log of an interrupted run does not belong to its checkpoint."""

    def __init__(self, path: Path, fault: str, otherwise: str = "") -> None:
        self.path, self.fault = path, fault
        super().__init__(
            f"{path} {fault}; nothing was changed. Restore the file and the run resumes, or start again: "
            f"overwrite=true replaces the run, another hydra.run.dir keeps it{otherwise}"
        )


def reason(error: OSError) -> str:
    """Returns the system's words for an error with a file."""
    words = error.strerror or type(error).__name__
    return f"{words}; ulimit -n raises the limit" if error.errno == errno.EMFILE else words


def is_storage(error: BaseException) -> bool:
    """Whether a file could not be written; False if the reader of the output has closed it."""
    return isinstance(error, OSError) and not isinstance(error, BrokenPipeError)


def storage_fault(folder: Path, error: OSError) -> str:
    """Writes the message of a run that could not write a file, and says how to resume it."""
    where = error.filename if isinstance(error.filename, str | os.PathLike) else folder
    return (
        f"stopped: {os.fspath(where)} cannot be written ({reason(error)}). What was saved before is intact; "
        "once the place can be written to, the same command resumes the run"
    )


def refuse_other_encoding(path: Path) -> None:
    """Raises FolderError if the locale cannot encode the path."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise FolderError(
            f"{str(path)!a} has letters that this locale ({sys.getfilesystemencoding()}) cannot encode; "
            "set PYTHONUTF8=1, or choose another hydra.run.dir"
        ) from None
