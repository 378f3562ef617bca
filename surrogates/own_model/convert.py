"""`convert`: a model's own activations, pooling and fake-quant layers under a strategy; `revert` undoes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from torch import nn

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.hard_layer import HardLayer
from surrogates.own_model.choice import Choice, Left
from surrogates.own_model.converted import Converted, converted
from surrogates.own_model.modules import is_hard, kind_of
from surrogates.own_model.report import Report, Row, brief


def convert(
    model: nn.Module,
    strategy: Strategy | None,
    /,
    *,
    types: type[nn.Module] | tuple[type[nn.Module], ...] = nn.Module,
    names: str | Sequence[str] = "*",
    filter: Callable[[str, nn.Module], bool] = lambda name, module: True,
    empty: str = "leave",
    **by_op: Strategy | None,
) -> Report:
    """Puts the ops of a model's activations, max pooling and fake-quant layers into hard layers, in place.

    `convert(model, StraightThrough(), types=nn.ReLU, names="encoder.*", max=None)`: only modules of these `types`, with
    a name that fits a pattern of `names` (`*`, `?`, `[...]`), for which `filter(name, module)` is true; `strategy` for
    every op except those named, None leaves an op alone. A module in several places is converted once. Afterwards
    `surrogates.mode`, `anneal` and `key_noise` act on the model, and in evaluation it is what it was before.

    Returns a report of what was converted and which hard modules were left alone. Calls inside a forward are not seen;
    `surrogates.through` takes those. `empty`: a pair of op and strategy that does not exist is left alone (`leave`), or
    raises EmptyCell (`raise`), the model then being what it was.
    Raises ValueError if the model itself is such a module, or if no module is left by `types`, `names` and `filter`.
    """
    choice = Choice(strategy, by_op, empty)
    if kind_of(model):
        raise ValueError(f"{type(model).__name__} has no parent to be replaced in; convert nn.Sequential(model)")
    patterns = [names] if isinstance(names, str) else names

    def selected(name: str, module: nn.Module) -> bool:
        return isinstance(module, types) and any(fnmatchcase(name, p) for p in patterns) and filter(name, module)

    places = list(_places(model, ""))
    if not any(selected(place.name, place.module) for place in places):
        raise ValueError(f"no module has one of these types, fits names={names!r} and passes the filter")
    report, made = Report(), {}
    for place in places:
        if place.module not in made:
            made[place.module] = _convert(place, selected(place.name, place.module), choice, report)
    for place in places:
        if replacement := made[place.module]:
            place.parent._modules[place.key] = replacement
    return report


def revert(model: nn.Module) -> None:
    """Puts the original modules back, the very same objects, in the mode (train or eval) that the model is in now."""
    for place in list(_places(model, "")):
        if isinstance(place.module, Converted):
            place.parent._modules[place.key] = place.module.original


class Place(NamedTuple):
    """Where a module hangs: its parent, the parent's name for it, and its name in the model."""

    parent: nn.Module
    key: str
    name: str
    module: nn.Module


def _places(parent: nn.Module, prefix: str) -> Iterator[Place]:
    """All places but those inside this library's own modules."""
    for key, module in parent._modules.items():
        if module is not None:
            yield Place(parent, key, prefix + key, module)
            if not isinstance(module, (HardLayer, Component, Converted)):
                yield from _places(module, f"{prefix}{key}.")


def _convert(place: Place, selected: bool, choice: Choice, report: Report) -> Converted | None:
    """The module converted, or None; what is hard about it is reported."""
    kind, call = kind_of(place.module), type(place.module).__name__
    try:
        if kind is None and not is_hard(place.module):
            return None
        if kind is None:
            raise Left("not supported")
        if not selected:
            raise Left("not selected")
        module = converted(place.module, kind, choice)
    except Left as reason:
        report.left[Row(call, str(reason), place.name)] += 1
        return None
    fate = "; ".join(f"{brief(layer.op)} by {brief(layer.strategy)}" for layer in module.layers)
    report.taken[Row(call, fate, place.name)] += 1
    return module
