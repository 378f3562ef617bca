"""The base of ops, strategies and schedules: numbers and words as fields, checked and printed in one way."""

from __future__ import annotations

import typing
from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, ClassVar

from surrogates.float32 import require_float32
from surrogates.naming.words import require_word


class Words(typing.NamedTuple):
    """The strings that a field accepts: these words, any (None) or none (empty); and whether it accepts None."""

    known: tuple[str, ...] | None
    optional: bool


@dataclass(frozen=True)
class Member:
    """A frozen dataclass that checks its fields when it is made; its repr shows only the changed ones.

    A subclass with checks of its own calls these first.
    Raises ValueError if a string is outside a field's `Literal`, or float32 cannot hold a float.
    Raises TypeError if a field for numbers gets a string, or a field for words anything else.
    """

    words: ClassVar[dict[str, Words]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        hints = typing.get_type_hints(cls)  # not in __post_init__, which compiled code runs too
        cls.words = {name: _words(hint) for name, hint in hints.items() if typing.get_origin(hint) is not ClassVar}
        if "__repr__" not in vars(cls):
            cls.__repr__ = Member.__repr__  # type: ignore[method-assign]  # the dataclass's own would show all fields

    def __post_init__(self) -> None:
        for name, (known, optional) in self.words.items():
            value = getattr(self, name)
            if known == () and isinstance(value, str):
                raise TypeError(f"{name} must be a number, got the string {value!r}{self._other_field(value)}")
            if known and not (value is None and optional):
                require_word(name, value, known)
            if isinstance(value, float):
                require_float32(**{name: value})

    def _other_field(self, word: str) -> str:
        """A question with the fields that take this word; empty if none does."""
        taking = [f"{name}={word!r}" for name, (known, _) in self.words.items() if known and word in known]
        return f"; did you mean {' or '.join(taking)}?" if taking else ""

    def __repr__(self) -> str:
        changed = (f.name for f in fields(self) if getattr(self, f.name) != f.default)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in changed)})"


def _words(hint: Any) -> Words:
    parts = (hint,) if typing.get_origin(hint) is typing.Literal else typing.get_args(hint) or (hint,)
    literals = [part for part in parts if typing.get_origin(part) is typing.Literal]
    known = None if str in parts else tuple(word for part in literals for word in typing.get_args(part))
    return Words(known, NoneType in parts)
