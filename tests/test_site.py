"""The documentation site lists every page, public name and configuration key; `.ci/run` builds it."""

import re
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import hardgrad
from experiments.conf_folder import CONF
from experiments.config.keys import option_keys, options
from experiments.config.settings import GROUPS, Settings
from surrogates.functional.op_function import function_names

DOCS = Path(__file__).resolve().parents[1] / "docs"
ROOMS = ("layers", "ops", "strategies")
NAMES = {
    "hardgrad": [name for name in hardgrad.__all__ if name not in ROOMS],
    "functions": function_names(),
    **{room: [f"{room}.{name}" for name in getattr(hardgrad, room).__all__] for room in ROOMS},
}


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of a name in `docs/_ext`."""
    monkeypatch.syspath_prepend(DOCS / "_ext")
    yield import_module
    for name in ("docstrings", "generated"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("kind", NAMES)
def test_every_public_name_is_on_a_page_of_the_api(kind: str) -> None:
    text = "".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    documented = re.findall(r"^\.\. auto\w+:: hardgrad\.(\S+)$", text, re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert set(NAMES[kind]) <= set(documented)


def test_the_index_lists_and_describes_every_page() -> None:
    text = (DOCS / "index.md").read_text()
    listed = re.findall(r"^([\w/]+)$", "".join(re.findall(r"```{toctree}(.*?)```", text, re.DOTALL)), re.MULTILINE)
    described = re.findall(r"^- \[.+?\]\((.+?)\.md\): ", text, re.MULTILINE)
    assert sorted(listed) == sorted(described)
    assert set(listed) == {page.stem for page in DOCS.glob("*.md")} - {"index"} | {"api/index"}


def test_the_configuration_page_lists_every_key(extension: Any) -> None:
    page = extension("generated")
    settings = re.findall(r"^\| `(\w+)` \|", "\n".join(page.settings()), re.MULTILINE)
    assert settings == [field.name for field in fields(Settings)]
    keys = re.findall(r"^\| `(\w+\.\w+)` \|", "\n".join(page.groups()), re.MULTILINE)
    assert keys == [
        key for group in GROUPS for option in options(CONF, group) for key in option_keys(CONF, group, option)
    ]
    assert "| `optimizer.schedule` | `constant` | of the learning rate: constant, linear or" in "\n".join(page.groups())


def test_the_configuration_page_has_a_meaning_for_every_key(extension: Any) -> None:
    """It is the comment of the key's line in conf/."""
    page = extension("generated")
    rows = [row for row in (*page.settings(), *page.groups()) if row.startswith("| `")]
    assert len(rows) > 100
    assert [row for row in rows if not row.split(" | ")[-1].removesuffix("|").strip()] == []
    missing = list(page.keys("strategy", "temperature: 1.0 # scale of the noise\nkernel: null\n"))
    assert missing[-2:] == ["| `strategy.kernel` | `null` |  |", ""]


def test_docstrings_become_rest(extension: Any) -> None:
    text = """f(x) = a * x, |x| of `x_1` and x_.

Shape (...). Jumps at 0. proxy: x.
smooth: E[f]. Two forms:
- `a`, by
  name;
- `b`.
Raises ValueError for 0. The rest of this paragraph is so long that the next line could not begin earlier: it
goes on."""
    assert extension("docstrings").to_rst(text.splitlines()) == [
        r"f(x) = a \* x, \|x\| of ``x_1`` and x\_.", "",
        "Shape (...). Jumps at 0.", "", "proxy: x.", "", "smooth: E[f]. Two forms:", "",
        "- ``a``, by", "  name;", "", "- ``b``.", "",
        "Raises ValueError for 0. The rest of this paragraph is so long that the next line could not begin earlier: it",
        "goes on.",
    ]  # fmt: skip
