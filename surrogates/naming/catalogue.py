"""The members of a package, one a file, by the name of the file or of the class."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from surrogates.naming.words import did_you_mean

Member = TypeVar("Member")


@dataclass(frozen=True)
class Catalogue(Generic[Member]):
    """The classes of `package` that derive from `base` and for which `is_member` is true; at most one a file.

    `word` is the word for a member in messages. `functions` gives the names of the functions of a member.
    """

    word: str
    package: str
    base: type[Member]
    is_member: Callable[[Any], bool] = lambda cls: True
    functions: Callable[[Any], Iterable[str]] = lambda cls: ()

    @cached_property
    def stems(self) -> list[str]:
        """The names of the package's files, without suffix."""
        return [module.name for module in pkgutil.iter_modules(importlib.import_module(self.package).__path__)]

    @cached_property
    def classes(self) -> dict[str, type[Member]]:
        """All members by the name of their file. Imports every file."""
        found = {stem: self._class_of(stem) for stem in self.stems}
        return {stem: cls for stem, cls in found.items() if cls is not None}

    def make(self, value: Member | str) -> Member:
        """The member itself, or for the name of a file its member with default values.

        Raises ValueError if the name is unknown.
        Raises TypeError if the value is neither a member nor a name.
        """
        if isinstance(value, self.base):
            return value
        if isinstance(value, str):
            return self.find(value)()
        if inspect.isclass(value) and issubclass(value, self.base):
            raise TypeError(f"{value.__name__} is a class; give an object, {value.__name__}()")
        name = getattr(value, "__name__", None)
        hint = f"; write {name!r}" if name in self.stems else ""
        raise TypeError(f"expected an object of class {self.base.__name__}, or a name; got {value!r}{hint}")

    def find(self, stem: str) -> type[Member]:
        """The class in the file of this name.

        Raises ValueError if there is none.
        """
        cls = self._class_of(stem) if stem in self.stems else None
        if cls is None:
            known = list(self.classes)
            owners = [owner for owner, member in self.classes.items() if stem in self.functions(member)]
            hint = f"; did you mean {owners[0]!r}, the {self.word} of the function {stem}?" if owners else ""
            hint = hint or did_you_mean(stem, known)
            raise ValueError(f"there is no {self.word} {stem!r}{hint}; {self.word} names: {', '.join(known)}")
        return cls

    def attribute(self, name: str) -> Any:
        """The class of a name, for the package's `__getattr__`; `__all__` is the names of all classes.

        Imports the file whose name is the class's in small letters first, and the others only if it does not have the
        class.
        Raises AttributeError if there is no such class.
        """
        if name == "__all__":
            return self.names()
        if name[:1].isupper():
            for stem in sorted(self.stems, key=lambda stem: stem.replace("_", "") != name.lower()):
                cls = self._class_of(stem)
                if cls is not None and cls.__name__ == name:
                    return cls
        hint = did_you_mean(name, self.names()) if not name.startswith("_") else ""
        raise AttributeError(f"module {self.package!r} has no attribute {name!r}{hint}")

    def names(self) -> list[str]:
        """The names of all classes, for the package's `__dir__`."""
        return sorted(cls.__name__ for cls in self.classes.values())

    def _class_of(self, stem: str) -> type[Member] | None:
        module = importlib.import_module(f"{self.package}.{stem}")
        for cls in vars(module).values():
            own = inspect.isclass(cls) and cls.__module__ == module.__name__ and issubclass(cls, self.base)
            if own and self.is_member(cls):
                found: type[Member] = cls
                return found
        return None
