"""Whether the derivative of a replaced call is in effect, by autograd's graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.autograd.graph import Node

from surrogates.own_model.replacements import Occurrence, Replacements
from surrogates.own_model.tracking import on_graph

KEY = "surrogates"  # in a node's metadata
SHIFTS = ("Add", "Sub", "Where", "Clamp", "ClampMin", "ClampMax", "Maximum", "Minimum", "Expand", "View", "ToCopy")


class Effect:
    """The derivative of a replaced call, as a hook of the call's node in autograd's graph.

    A call whose derivative is thrown away counts as not replaced until a backward pass reaches its node.
    """

    def __init__(self, report: Replacements, row: Occurrence, soft: bool) -> None:
        self.report, self.row, self.soft = report, row, soft
        self.thrown_away: Occurrence | None = None
        self.reached = False

    def follow(self, value: Tensor) -> None:
        """Attaches itself to the node that computed `value`."""
        if node := on_graph(value).grad_fn:
            _metadata(node)[KEY] = self
            node.register_prehook(self)

    def __call__(self, gradients: object) -> None:
        """Called by autograd in the backward pass."""
        self.reached = True
        if self.thrown_away is not None:
            self.report.move(self.thrown_away, self.report.not_replaced, self.row, self.report.replaced)
            self.thrown_away = None

    def throw_away(self, by: str) -> None:
        """Counts the call as not replaced, unless a backward pass has reached it."""
        if self.reached or self.thrown_away:
            return
        value = "its value is soft, and " if self.soft else ""
        fate = f"{value}its derivative is thrown away by {by}; no backward pass has reached it"
        self.thrown_away = self.row._replace(fate=fate)
        self.report.move(self.row, self.report.replaced, self.thrown_away, self.report.not_replaced)


def nodes_before(nodes: Iterable[Node], end: Node | None = None) -> Iterator[Node]:
    """These nodes and all on which their values depend; none before `end`."""
    seen, waiting = set(), list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            yield node
            if node is not end:
                waiting += [before for before, _ in node.next_functions if before is not None]


def effects_before(node: Node) -> Iterator[Effect]:
    """The effects of the replaced calls on which a node's value depends."""
    return (effect for one in nodes_before([node]) if (effect := _metadata(one).get(KEY)))


def is_hard_function(node: Node, of: Node) -> bool:
    """Whether a replaced call lies on a way from `of` to `node`."""
    hard = [one for one in nodes_before([node], of) if one is not of and KEY in _metadata(one)]
    return any(one is of for one in nodes_before(hard, of))


def first_of(node: Node, known: Mapping[str, str]) -> str | None:
    """The entry of the nearest node whose name is known, before sums, clips and views; None if there is none."""
    waiting = [node]
    for one in waiting:
        if found := known.get(one.name()):
            return found
        if one.name().rstrip("0123456789").removesuffix("Backward") in SHIFTS:
            waiting += [before for before, _ in one.next_functions if before is not None and before not in waiting]
    return None


def _metadata(node: Node) -> dict[Any, Any]:
    metadata: Any = node.metadata  # a dictionary, in torch's types a method
    return metadata  # type: ignore[no-any-return]
