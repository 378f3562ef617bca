"""One run without a command line: `run(Request(config, folder))`."""

from experiments.training.run import Outcome as Outcome
from experiments.training.run import Request as Request
from experiments.training.run import run as run
