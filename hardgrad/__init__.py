"""The public API under one name: `import hardgrad as hg`. A name is imported at its first use."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from experiments import ConfigError as ConfigError
    from experiments import Run as Run
    from experiments import RunFailed as RunFailed
    from experiments import SweepRuns as SweepRuns
    from experiments import load as load
    from experiments import options as options
    from experiments import train as train
    from experiments.command.in_python import sweep as sweep
    from experiments.compare.forms.answer import Comparison as Comparison
    from experiments.compare.forms.answer import compare as compare
    from experiments.monitoring.monitor import Monitor as Monitor
    from surrogates import *  # noqa: F403
    from surrogates.functional.op_function import OpFunction

    def __getattr__(name: str) -> OpFunction: ...

else:
    _COMPARISON = "experiments.compare.forms.answer"
    _EXPERIMENTS = {
        "Comparison": _COMPARISON,
        "ConfigError": "experiments",
        "Monitor": "experiments.monitoring.monitor",
        "Run": "experiments",
        "RunFailed": "experiments",
        "SweepRuns": "experiments",
        "compare": _COMPARISON,
        "load": "experiments",
        "options": "experiments",
        "sweep": "experiments.command.in_python",
        "train": "experiments",
    }

    def __getattr__(name):
        """The names of `surrogates`, and those that train, load and compare runs."""
        if name in _EXPERIMENTS:
            return getattr(import_module(_EXPERIMENTS[name]), name)
        if name == "__all__":
            return sorted([*import_module("surrogates").__all__, *_EXPERIMENTS])
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(import_module("surrogates"), name)
        except AttributeError as error:
            raise AttributeError(str(error).replace("'surrogates'", f"{__name__!r}")) from None

    def __dir__():
        return sorted([*dir(import_module("surrogates")), "__version__", *_EXPERIMENTS])
