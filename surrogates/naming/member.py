"""What ops, strategies and schedules have in common: plain numbers and words, checked and shown in one way."""

from __future__ import annotations

import typing
from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, ClassVar

from surrogates.float32 import require_float32
from surrogates.naming.words import require_word


class Words(typing.NamedTuple):
    """What a field takes of strings: these words, any word (None), or none (empty); and whether it takes None."""

    known: tuple[str, ...] | None
    optional: bool


@dataclass(frozen=True)
class Member:
    """A frozen dataclass whose fields are checked when it is made, and whose repr shows the changed ones only.

    Raises ValueError for a string outside a field's `Literal`, or a float that float32 cannot hold, TypeError for a
    string where a field takes a number, or for anything else where a field takes words. A subclass with checks of its
    own calls these first.
    """

    words: ClassVar[dict[str, Words]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        hints = typing.get_type_hints(cls)  # here and not in every object, which compiled code makes too
        cls.words = {name: _words(hint) for name, hint in hints.items() if typing.get_origin(hint) is not ClassVar}
        if "__repr__" not in vars(cls):
            cls.__repr__ = Member.__repr__  # type: ignore[method-assign]  # dataclass would write one of all fields

    def __post_init__(self) -> None:
        for name, (known, optional) in self.words.items():
            value = getattr(self, name)
            if known == () and isinstance(value, str):
                raise TypeError(f"{name} must be a number, got the string {value!r}")
            if known and not (value is None and optional):
                require_word(name, value, known)
            if isinstance(value, float):
                require_float32(**{name: value})

    def __repr__(self) -> str:
        changed = (f.name for f in fields(self) if getattr(self, f.name) != f.default)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in changed)})"


def _words(hint: Any) -> Words:
    parts = (hint,) if typing.get_origin(hint) is typing.Literal else typing.get_args(hint) or (hint,)
    literals = [part for part in parts if typing.get_origin(part) is typing.Literal]
    known = None if str in parts else tuple(word for part in literals for word in typing.get_args(part))
    return Words(known, NoneType in parts)
