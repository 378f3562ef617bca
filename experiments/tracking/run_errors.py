"""Why a run folder cannot be had; each message says what would be right."""


class FolderError(Exception):
    """The folder cannot be used as asked."""


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
