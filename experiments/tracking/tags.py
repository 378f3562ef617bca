"""Makes tags of curves: ASCII, `group/name`, the same in every run; any text can be encoded."""

import re
from urllib.parse import quote

_TAG = re.compile(r"[A-Za-z0-9_.~%-]+(/[A-Za-z0-9_.~%-]+)*")


def tag(*parts: str) -> str:
    """Joins parts to a tag, `op/<layer>/flip_rate`; all but letters, digits and `_.-~` becomes %XX.

    Raises ValueError if a part is empty, or if there are no parts.
    """
    if not parts or not all(parts):
        raise ValueError(f"tag{parts!r} has an empty part; a tag is group/name, for instance loss/train")
    return "/".join(quote(part, safe="", errors="surrogatepass") for part in parts)


def check_tag(name: str) -> str:
    """Returns `name`.

    Raises ValueError if `tag` could not have made it.
    """
    if not _TAG.fullmatch(name):
        raise ValueError(f"{name!r} is not a tag; make one with experiments.tracking.tags.tag(group, name)")
    return name
