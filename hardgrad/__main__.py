"""The command `hardgrad`: its first word chooses what runs, the rest is handed over."""

import os
import runpy
import sys

COMMANDS = {  # the module that runs, and what for
    "train": ("experiments.command", "train one model, or with -m a sweep"),
    "compare": ("experiments.compare", "which strategy is best, by how much, and how sure that is"),
    "evaluate": ("experiments.evaluate", "score a finished run again"),
    "search": ("experiments.search", "search for a learning rate, a temperature or another key"),
    "oracles": ("experiments.oracles", "score the strategies against exact gradients"),
    "dashboard": ("experiments.dashboard", "TensorBoard on the means and bands of runs"),
    "diagnose": ("surrogates.diagnose", "why a gradient is None, zero or NaN"),
    "kinks": ("surrogates.kinks", "what torch does at kinks and ties"),
}
HELP = ("-h", "--help")


def main() -> None:
    """Runs a command as `python -m MODULE` would; exits with 2 for an unknown one."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name == "--version":
        from hardgrad import __version__

        print(f"hardgrad {__version__}")
    elif name in HELP:
        print(usage())
    elif name in COMMANDS:
        sys.path.insert(0, os.getcwd())  # the user's own modules, as with python -m
        sys.argv = [sys.argv[0], *sys.argv[2:]]
        runpy.run_module(COMMANDS[name][0], run_name="__main__", alter_sys=True)
    else:
        print(f"error: there is no command {name!r}\n{usage()}", file=sys.stderr)
        sys.exit(2)


def usage() -> str:
    """The commands, one a line."""
    lines = [f"  {name:<10} {purpose}" for name, (_, purpose) in COMMANDS.items()]
    return "\n".join(["usage: hardgrad COMMAND ...", "", *lines, "", "hardgrad COMMAND --help says more."])


if __name__ == "__main__":
    main()
