"""The command `hardgrad`: its first word chooses the module that runs, which gets the other words."""

import os
import runpy
import sys

COMMANDS = {  # the module that runs, and its purpose
    "train": ("experiments.command", "train one model, or with -m a sweep"),
    "study": ("experiments.study", "answer a question: choose on validation data, report, compare"),
    "compare": ("experiments.compare", "tell which strategy is best, by how much, and how sure that is"),
    "evaluate": ("experiments.evaluate", "score a finished run again"),
    "search": ("experiments.search", "search for a learning rate, a temperature or another key"),
    "oracles": ("experiments.oracles", "score the strategies against exact gradients"),
    "dashboard": ("experiments.dashboard", "show the means and bands of runs in TensorBoard"),
    "diagnose": ("surrogates.diagnose", "find out why a gradient is None, zero or NaN"),
    "kinks": ("surrogates.kinks", "list what torch does at kinks and ties"),
}
HELP = ("-h", "--help")


def main() -> None:
    """Runs a command as `python -m MODULE` does; exits with 2 if the command is unknown."""
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
    return "\n".join(["usage: hardgrad COMMAND ...", "", *lines, "", "hardgrad COMMAND --help lists its options."])


if __name__ == "__main__":
    main()
