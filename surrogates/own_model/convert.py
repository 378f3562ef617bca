"""`convert` puts a model's own activations, pooling and fake-quant layers under a strategy; `revert` undoes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from torch import nn

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.hard_layer import HardLayer
from surrogates.own_model.choice import NotReplaced, StrategyByOp
from surrogates.own_model.converted import Converted, convert_module
from surrogates.own_model.modules import is_hard, kind_of
from surrogates.own_model.replacements import Occurrence, Replacements
from surrogates.own_model.sources import hard_calls


def convert(
    model: nn.Module,
    strategy: Strategy | str | None,
    /,
    *,
    types: type[nn.Module] | tuple[type[nn.Module], ...] = nn.Module,
    names: str | Sequence[str] = "*",
    filter: Callable[[str, nn.Module], bool] = lambda name, module: True,
    empty: str = "leave",
    **by_op: Strategy | str | None,
) -> Replacements:
    """Puts the ops of a model's activations, max pooling and fake-quant layers into hard layers, in place.

    `convert(model, Smooth(), types=nn.ReLU, names="encoder.*", max=None)` selects modules of these `types`, with a name
    that fits a pattern of `names` (`*`, `?`, `[...]`), for which `filter(name, module)` is true. `strategy` is for
    every op except those named; an op whose strategy is None is not converted. As in `surrogates.through`,
    straight-through leaves clips, relu and maxima their derivative unless they are named.
    A module in several places is converted once. A selected module that was converted before gets the new strategy; a
    converted module that is not selected keeps its own.
    Afterwards `surrogates.mode`, `anneal` and `key_noise` act on the model. In evaluation it computes what it computed
    before.

    Returns a report of the hard modules that were converted and of those that were not. Calls inside a forward are not
    converted; `surrogates.through` replaces those. A module whose own forward makes hard calls is reported with these
    calls, as far as they can be read from the source: by the names of torch's functions and Tensor methods, in forward
    and in what forward calls in the same package. Operators, calls through variables and compiled code are not seen.
    `empty` is as in `through`; EmptyCell leaves the model unchanged.
    Raises ValueError if the model itself is such a module, has no modules inside, or none of them fits `types`, `names`
    and `filter`.
    """
    choice = StrategyByOp(strategy, by_op, empty)
    if kind_of(model):
        raise ValueError(f"{type(model).__name__} has no parent to be replaced in; convert nn.Sequential(model)")
    patterns = [names] if isinstance(names, str) else names

    def is_selected(name: str, module: nn.Module) -> bool:
        return isinstance(module, types) and any(fnmatchcase(name, p) for p in patterns) and filter(name, module)

    places = list(_places(model, ""))
    if not places:
        raise ValueError(f"{type(model).__name__} has no modules inside; surrogates.through replaces its calls")
    if not any(is_selected(place.name, place.module) for place in places):
        raise ValueError(f"no module is of the given types, fits names={names!r} and passes the filter")
    report, made = Replacements(), {}
    _report_forward(model, "the model itself", report)
    for place in places:
        if place.module not in made:
            made[place.module] = _convert(place, is_selected(place.name, place.module), choice, report)
    for place in places:
        if replacement := made[place.module]:
            place.parent._modules[place.key] = replacement
    return report


def revert(model: nn.Module) -> None:
    """Puts the original module objects back, in the mode (train or eval) that the model is in now."""
    for place in _places(model, ""):
        place.parent._modules[place.key] = place.module


class Position(NamedTuple):
    """Where a module is: its parent, the parent's name for it, and its name in the model.

    Of a converted module, `module` is the original.
    """

    parent: nn.Module
    key: str
    name: str
    module: nn.Module


def _places(parent: nn.Module, prefix: str) -> Iterator[Position]:
    """The positions of all modules, except those inside this library's own modules and inside hard modules."""
    for key, module in parent._modules.items():
        if module is not None:
            yield Position(parent, key, prefix + key, module.original if isinstance(module, Converted) else module)
            if not isinstance(module, (HardLayer, Component, Converted)) and kind_of(module) is None:
                yield from _places(module, f"{prefix}{key}.")


def _convert(place: Position, selected: bool, choice: StrategyByOp, report: Replacements) -> Converted | None:
    """The converted module, or None; reports a hard module."""
    kind, call = kind_of(place.module), type(place.module).__name__
    try:
        if kind is None and not is_hard(place.module):
            _report_forward(place.module, place.name, report)
            return None
        if kind is None:
            raise NotReplaced("not supported")
        if not selected:
            raise NotReplaced("not selected")
        module = convert_module(place.module, kind, choice)
    except NotReplaced as reason:
        report.not_replaced[Occurrence(call, str(reason), place.name)] += 1
        return None
    fate = "; ".join(f"{layer.op} by {layer.strategy}" for layer in module.layers)
    report.replaced[Occurrence(call, fate, place.name)] += 1
    return module


def _report_forward(module: nn.Module, name: str, report: Replacements) -> None:
    """Reports a module as not replaced if its own forward makes hard calls.

    This library's modules make their own. torch's observers make theirs on detached tensors.
    """
    kind: type[Any] = type(module)
    if kind.__module__.startswith(("surrogates.", "torch.ao.quantization.observer")):
        return
    if calls := hard_calls(kind):  # type: ignore[arg-type]
        reason = f"its forward calls {', '.join(calls)}; surrogates.through replaces calls"
        report.not_replaced[Occurrence(kind.__name__, reason, name)] += 1
