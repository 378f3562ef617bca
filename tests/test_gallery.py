"""The gallery shows every op that there is, as it is."""

import inspect
import re
from pathlib import Path

from surrogates.members import ops

DOCS = Path(__file__).parents[1] / "docs"
DRAW = "draw it: python docs/gallery.py"


def test_every_op_is_in_the_gallery_with_its_equation() -> None:
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    assert len(ops()) >= 29
    for stem, cls in ops().items():
        section = re.search(rf"### {stem}\n\n(.*)\n\n!\[.*\]\((.*)\)", page)
        assert section, f"{stem} is not in docs/gallery.md; {DRAW}"
        equation = " ".join(inspect.getdoc(cls).split("\n\n")[0].split())
        assert section[1].startswith(equation), f"{stem} is stale in docs/gallery.md; {DRAW}"
        assert (DOCS / section[2]).read_bytes().startswith(b"\x89PNG")


def test_the_gallery_shows_no_op_that_is_gone() -> None:
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (\w+)$", page, re.MULTILINE) == list(ops())
    assert sorted(path.stem for path in (DOCS / "gallery").iterdir()) == sorted(ops())
