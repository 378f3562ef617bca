"""The gallery shows every op that there is, as it is."""

import inspect
import re
from pathlib import Path

import pytest

from surrogates.members import ops

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "gallery.md").read_text()


@pytest.mark.parametrize("stem", ops())
def test_an_op_is_in_the_gallery_with_its_equation(stem: str) -> None:
    section = re.search(rf"### {stem}\n\n(.*)\n\n!\[.*\]\((.*)\)", PAGE)
    assert section, f"{stem} is not in docs/gallery.md; draw it: python docs/gallery.py"
    equation = " ".join(inspect.getdoc(ops()[stem]).split("\n\n")[0].split())
    assert section[1].startswith(equation), f"{stem} is stale in docs/gallery.md; draw it: python docs/gallery.py"
    assert (DOCS / section[2]).read_bytes().startswith(b"\x89PNG")


def test_the_gallery_shows_no_op_that_is_gone() -> None:
    assert re.findall(r"^### (\w+)$", PAGE, re.MULTILINE) == list(ops())
    assert sorted(path.stem for path in (DOCS / "gallery").iterdir()) == sorted(ops())
