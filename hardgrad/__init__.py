"""The public API under one name: `import hardgrad as hg`. A name is imported at its first use."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from experiments import load as load
    from surrogates import *  # noqa: F403
    from surrogates.functional.op_function import OpFunction

    def __getattr__(name: str) -> OpFunction: ...

else:

    def __getattr__(name):
        """The names of `surrogates`, and `load`, which returns a finished run's model."""
        if name == "load":
            return import_module("experiments").load
        if name == "__all__":
            return sorted([*import_module("surrogates").__all__, "load"])
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("surrogates"), name)


def __dir__() -> list[str]:
    return sorted([*dir(import_module("surrogates")), "__version__", "load"])
