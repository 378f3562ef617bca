"""A Sphinx extension that fills pages from the code: the configuration's keys, and the help of every command."""

from __future__ import annotations

import inspect
import io
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from experiments.config.settings import GROUPS, Settings
from hardgrad.__main__ import COMMANDS
from hardgrad.__main__ import main as hardgrad

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MARKS = re.compile(r"([*_<>|\[\]\\])")
CONF = Path(__file__).parents[2] / "conf"
FIELD = re.compile(r"^    (\w+): (.+?) = (.+)$", re.MULTILINE)  # of Settings
KEY = re.compile(r"^([a-z]\w*): (.+?)(?: # (.+))?$", re.MULTILINE)  # of a file in conf/: key, default, meaning
COMMENT = re.compile(r"^# (?!@package)(.+)$", re.MULTILINE)
YAML = {"None": "null", "True": "true", "False": "false"}


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the hook."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True}


def fill(app: Sphinx, page: str, source: list[str]) -> None:
    """Replaces the comments `<!-- generated: NAME -->` of a page."""
    for name, make in PARTS.items():
        marker = f"<!-- generated: {name} -->"
        if marker in source[0]:
            source[0] = source[0].replace(marker, "\n".join(make()))


def settings() -> Iterator[str]:
    """The root keys: types and defaults from the class that checks them, meanings from `config.yaml`."""
    yield from ("| key | default | values | meaning |", "|---|---|---|---|")
    meanings = {key: meaning for key, _, meaning in KEY.findall((CONF / "config.yaml").read_text())}
    for name, kind, default in FIELD.findall(inspect.getsource(Settings)):
        named = re.fullmatch(r"Literal\[(.+)\]", kind)
        values = ", ".join(f"`{value.strip(chr(34))}`" for value in named[1].split(", ")) if named else f"`{kind}`"
        shown = YAML.get(default, default.strip('"'))
        yield f"| `{name}` | `{shown}` | {in_cell(values)} | {in_cell(meanings[name])} |"


def groups() -> Iterator[str]:
    """Every option of every group with its keys."""
    for group in GROUPS:
        yield from (f"## {group}", "")
        for path in sorted((CONF / group).glob("*.yaml")):
            text = path.read_text()
            yield from (f"### {group}={path.stem}", "", description(text), "")
            yield from keys(group, text)


def keys(group: str, option: str) -> Iterator[str]:
    """The table of an option's keys, if it has any."""
    rows = [f"| `{group}.{key}` | `{value}` | {in_cell(meaning)} |" for key, value, meaning in KEY.findall(option)]
    if rows:
        yield from ("| key | default | meaning |", "|---|---|---|", *rows)
    yield ""


def presets(group: str) -> Callable[[], Iterator[str]]:
    """The options of `experiment` or `debug`: each with the first line of its comment."""

    def rows() -> Iterator[str]:
        yield from ("| option | what it does |", "|---|---|")
        for path in sorted((CONF / group).glob("*.yaml")):
            yield f"| `{group}={path.stem}` | {in_cell(COMMENT.findall(path.read_text())[0])} |"

    return rows


def commands() -> Iterator[str]:
    """Each command's purpose and its `--help`."""
    for name, (_, purpose) in COMMANDS.items():
        yield from (f"## hardgrad {name}", "", f"{purpose[0].upper()}{purpose[1:]}.", "")
        yield from ("```text", help_of(name), "```", "")


def help_of(command: str) -> str:
    """What `hardgrad COMMAND --help` prints in a terminal of 76 columns, without the default configuration."""
    out = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["hardgrad", command, "--help"]),
        mock.patch.object(sys, "path", list(sys.path)),
        mock.patch.dict("os.environ", COLUMNS="76"),
        redirect_stdout(out),
        suppress(SystemExit),
    ):
        hardgrad()
    return out.getvalue().partition("== Config ==")[0].strip()


def description(option: str) -> str:
    """The first sentences of the class that an option configures, and a link to its page, if it has one."""
    target = re.findall(r"^_target_: (.+)$", option, re.MULTILINE)[0]
    module, _, name = target.rpartition(".")
    first = (inspect.getdoc(getattr(import_module(module), name)) or "").split("\n\n")[0]
    room = module.split(".")[1]
    link = f" ({{py:class}}`~hardgrad.{room}.{name}`)" if module.startswith("surrogates.") else ""
    return f"{in_text(' '.join(first.split()))}{link}"


def in_text(text: str) -> str:
    """Plain text as Markdown: outside of code no character is a mark."""
    parts = text.split("`")
    return "`".join(part if index % 2 else MARKS.sub(r"\\\1", part) for index, part in enumerate(parts))


def in_cell(text: str) -> str:
    """Text in a cell of a table."""
    return text.replace("|", r"\|")


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "settings": settings,
    "groups": groups,
    "experiments": presets("experiment"),
    "debug": presets("debug"),
    "commands": commands,
}
