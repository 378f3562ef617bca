"""The fenced blocks of the pages of the documentation, and the commands in them."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\S+/\S+\.(?:py|yaml))\n")


@dataclass(frozen=True)
class Block:
    """A fenced block, and the line of its page on which it starts."""

    language: str
    text: str
    page: Path
    line: int

    @property
    def where(self) -> str:
        return f"{self.page.name}, line {self.line}"

    @property
    def file(self) -> str | None:
        match = FILE.match(self.text)
        return match[1] if match else None

    @property
    def printed(self) -> list[str]:
        return [line[2:].removeprefix(" ") for line in self.text.splitlines() if line.startswith("#>")]


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    assert text.count("\n```") % 2 == 0, f"{page.name} has an open fence"
    return [Block(m[1], m[2], page, text.count("\n", 0, m.start()) + 1) for m in FENCE.finditer(text)]


def words_of_commands(page: Path) -> list[list[str]]:
    """The words of each command of a page; a backslash at the end of a line joins the next line to it."""
    texts = [block.text.replace("\\\n", " ") for block in blocks(page) if block.language == "bash"]
    return [shlex.split(line) for text in texts for line in text.splitlines()]
