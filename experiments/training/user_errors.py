"""Errors that a user can cause and correct; their messages are printed without a traceback."""

from experiments.config.values import ConfigError
from experiments.data.dataset import DataError
from experiments.tracking.checkpoint import CheckpointError
from experiments.tracking.run_errors import FolderError
from experiments.tracking.strict_json import DamagedFile

USER_ERRORS = (ConfigError, DataError, FolderError, CheckpointError, DamagedFile)
