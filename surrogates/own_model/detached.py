"""Recognises x + (q - x).detach(), where q is a replaced call of x, and all other orders of this sum.

Such a sum has the value of q and, without the new strategy, the derivative of x. The block gives it the derivative of
its value: it computes the same sum with nothing detached, in which x cancels.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.autograd.graph import Node, get_gradient_edge

from surrogates.own_model.calls import functions
from surrogates.own_model.effect import effects_before, is_hard_function
from surrogates.own_model.tracking import on_graph
from surrogates.torch_private import adds_once

REMEMBERED = 4  # detached tensors and sums; each keeps a graph alive
DEPTH = 8  # of a nested sum
SUMMING = ("add", "sub", "subtract", "rsub", "neg", "negative", "__add__", "__radd__", "__sub__", "__rsub__", "__neg__")
SUMS = {function for name in SUMMING for function, inplace in functions(name) if not inplace}
SIGNS = {"AddBackward0": (1, 1), "SubBackward0": (1, -1), "RsubBackward0": (-1, 1), "NegBackward0": (-1,)}
DETACHING: dict[Any, str] = {function: ".detach()" for function, _ in functions("detach")}
DETACHING[Tensor.data.__get__] = ".data"  # type: ignore[attr-defined]
Edge = tuple[Node, int]


@dataclass(eq=False)
class Discard:
    """A place that throws away the derivatives of all replaced calls before a node, unless it is `recognised`."""

    node: Node
    by: str
    recognised: bool = False

    def report(self) -> None:
        """Reports those calls as not replaced."""
        if not self.recognised:
            for effect in effects_before(self.node):
                effect.throw_away(self.by)


@dataclass
class Twin:
    """A tensor with detached parts, and the same numbers with nothing detached.

    `summands` are the parts of the sum that are not detached.
    """

    tensor: weakref.ref[Tensor]
    version: int
    undetached: Tensor
    summands: tuple[Edge, ...]
    discards: tuple[Discard, ...]


@dataclass
class Detached:
    """The last detached tensors of a block, and the sums that contain them."""

    twins: list[Twin] = field(default_factory=list)

    def detach(self, function: Callable[[Tensor], Tensor], x: Tensor, by: str) -> Tensor:
        """The detached x."""
        node = on_graph(x).grad_fn
        discards = () if node is None else (Discard(node, by),)  # a leaf depends on no call
        result = function(x)
        if result is not x:
            self._put(Twin(weakref.ref(result), result._version, x, (), discards))
        else:
            for discard in discards:
                discard.report()
        return result

    def sum(self, function: Callable[..., Tensor], args: tuple[Any, ...]) -> Tensor:
        """A sum or difference; with nothing detached if it is recognised."""
        twins = {id(x): twin for x in args if isinstance(x, Tensor) and (twin := self._get(x))}
        if not twins:
            return function(*args)
        undetached = function(*(twins[id(x)].undetached if id(x) in twins else x for x in args))
        plain = [x for x in args if isinstance(x, Tensor) and id(x) not in twins]
        summands = tuple(edge for x in plain if on_graph(x).requires_grad for edge in _summands(_edge(x), DEPTH))
        summands += tuple(summand for twin in twins.values() for summand in twin.summands)
        discards = tuple(discard for twin in twins.values() for discard in twin.discards)
        if any(_is_replaced(undetached, summand) for summand in summands):
            for discard in discards:
                discard.recognised = True
            return undetached
        result = function(*args)
        if all(on_graph(x).requires_grad for x in plain):
            self._put(Twin(weakref.ref(result), result._version, undetached, summands, discards))
        return result

    def keep(self, twins: list[Twin]) -> None:
        """Forgets all other tensors, and reports what they threw away."""
        kept = [discard for twin in twins for discard in twin.discards]
        for discard in (discard for twin in self.twins for discard in twin.discards):
            if discard not in kept:
                discard.report()
        self.twins = twins

    def _put(self, twin: Twin) -> None:
        self.twins.append(twin)
        self.keep([twin for twin in self.twins if twin.tensor() is not None][-REMEMBERED:])

    def _get(self, x: Tensor) -> Twin | None:
        return next((twin for twin in self.twins if twin.tensor() is x and twin.version == x._version), None)


def _is_replaced(total: Tensor, summand: Edge) -> bool:
    """Whether a summand cancels in a sum, and the result of a replaced call of this summand remains."""
    edge = _edge(total)
    return _count(edge, summand, DEPTH) == 0 and is_hard_function(edge[0], summand[0])


def _count(total: Edge, summand: Edge, depth: int) -> int:
    """How often a summand is added in a sum, less how often it is subtracted."""
    if total == summand:
        return 1
    return sum(sign * _count(part, summand, depth - 1) for sign, part in _parts(total, depth))


def _summands(total: Edge, depth: int) -> Iterator[Edge]:
    """A sum and all sums and summands in it."""
    yield total
    for _, part in _parts(total, depth):
        yield from _summands(part, depth - 1)


def _parts(total: Edge, depth: int) -> list[tuple[int, Edge]]:
    """The two operands of a sum or difference, each with its sign; none at depth 0."""
    node = total[0]
    signs = SIGNS.get(node.name(), ()) if depth and adds_once(node) else ()
    return [(sign, (part, i)) for sign, (part, i) in zip(signs, node.next_functions, strict=False) if part is not None]


def _edge(x: Tensor) -> Edge:
    node, output, *_ = get_gradient_edge(on_graph(x))
    return node, output
