"""The page of `--help`: examples, groups, settings. Its one-line texts are the comments in `conf/`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

PURPOSES = {
    "component": "the layer with the hard operation",
    "strategy": "how the hard operation is trained",
    "model": "the network around the component",
    "data": "the data set",
    "optimizer": "the optimizer",
    "experiment": "a prepared sweep, or a question about exact gradients",
    "debug": "short runs that find faults",
}
FLAGS = ("-h", "--help")
INDENT = 24  # columns before the text of a line

PAGE = """\
usage: {program} [-m] [GROUP=OPTION] [GROUP.KEY=VALUE] [SETTING=VALUE]

Train one model, or with -m a sweep.

Examples
  {program} component=floor strategy=smooth
      one run
  {program} -m strategy=ste,smooth 'seed=range(4)'
      a sweep of 2 x 4 runs
  {program} -m strategy=ste,smooth 'seed=range(4)' dry_run=true
      prints what the sweep would run, and runs nothing

Groups: GROUP=OPTION chooses an option. A star marks the default.

{groups}

Keys of an option: GROUP.KEY=VALUE, for example component.bits=2. List them with
  {program} component=floor --cfg job --package component

Settings: SETTING=VALUE

{settings}

More
  hydra/launcher=stacked  trains similar runs of a sweep as one model, faster
  hydra.run.dir=FOLDER    the folder of a run; hydra.sweep.dir=FOLDER of a sweep
  --cfg job               prints the configuration, and runs nothing
  --config-dir FOLDER     adds options of your own
  --hydra-help            explains all flags

Exit codes
  0  success                       3  other commands still run some of the jobs
  1  a run failed                  130, 143  stopped by Ctrl-C, by SIGTERM
  2  the command, configuration, data or folder is wrong, or the strategy does
     not apply to the component\
"""


def print_help(conf: Path) -> None:
    """Prints the page for the program that was called."""
    program = "python train.py" if Path(sys.argv[0]).name == "train.py" else "hardgrad train"
    print(help_page(conf, sys.argv[1:], program))


def help_page(conf: Path, arguments: Sequence[str], program: str) -> str:
    """The page; `arguments` may add a folder of options with `--config-dir`."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config-dir", "-cd", type=Path)
    added = parser.parse_known_args(list(arguments))[0].config_dir
    text = (conf / "config.yaml").read_text()
    defaults = dict(re.findall(r"^  - (\w+): (\w+)$", text, re.MULTILINE))
    folders = [conf] if added is None else [conf, added]
    groups = [_group(folders, group, defaults.get(group)) for group in PURPOSES]
    settings = [_line(f"  {key}={value}", words) for key, value, words in _settings(text)]
    return PAGE.format(program=program, groups="\n\n".join(groups), settings="\n".join(settings))


def _group(folders: Sequence[Path], group: str, default: str | None) -> str:
    files = sorted(file for folder in folders for file in (folder / group).glob("*.yaml"))
    lines = [_line(f"{'*' if file.stem == default else ' '} {file.stem}", _purpose(file)) for file in files]
    return "\n".join([f"{group}: {PURPOSES[group]}", *lines])


def _purpose(file: Path) -> str:
    """The first comment of an option's file."""
    found = re.search(r"^# (?!@package)(.+)$", file.read_text(), re.MULTILINE)
    return found[1] if found else ""


def _settings(text: str) -> list[tuple[str, str, str]]:
    """Key, default and comment of every setting in config.yaml."""
    return re.findall(r"^([a-z]\w*): (\S+) # (.+)$", text, re.MULTILINE)


def _line(name: str, words: str) -> str:
    return f"{name:<{INDENT}}  {words}".rstrip()
