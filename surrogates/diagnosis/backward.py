"""Records a backward pass: which node of the graph turned the gradient into None, zero or NaN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node

from surrogates.diagnosis.numbers import all_finite, all_zero, is_finite, is_zero


@dataclass(frozen=True)
class EdgeGradient:
    """The gradients at one edge of the graph: the gradient given to a node and the gradient that it passed on."""

    node: Node
    following: Node
    given_zero: bool
    given_finite: bool
    passed: str  # none, zero, finite, not finite
    zero_times_infinity: bool  # an entry of zero became an entry that is not finite


@dataclass
class Backward:
    """The gradients of the parameters, or the error and the node that raised it; and all edges in their order."""

    gradients: list[Tensor | None]
    passages: list[EdgeGradient] = field(default_factory=list)
    error: Exception | None = None
    failed: Node | None = None


def differentiate(loss: Tensor, parameters: Sequence[Tensor]) -> Backward:
    """The derivatives of the loss by the parameters; changes no `.grad` and runs no accumulation hook."""
    record = Backward([None] * len(parameters))
    started: list[Node] = []
    nodes = [node for node in reachable(loss.grad_fn) if not hasattr(node, "variable")]
    handles = [handle for node in nodes for handle in _watch(node, record.passages, started)]
    try:
        record.gradients = list(torch.autograd.grad(loss, list(parameters), allow_unused=True))
    except Exception as error:
        record.error, record.failed = error, started[-1] if started else None
    finally:
        for handle in handles:  # a hook and its node refer to each other
            handle.remove()
    return record


def reachable(node: Node | None) -> list[Node]:
    """A node and all nodes of the graph behind it."""
    found: dict[Node, None] = {}
    pending = [node]
    while pending:
        node = pending.pop()
        if node is not None and node not in found:
            found[node] = None
            pending.extend(following for following, _ in node.next_functions)
    return list(found)


def masks(nodes: Sequence[Node], parameters: Sequence[Tensor]) -> dict[Node, int]:
    """For each node the parameters that the graph behind it reaches, as bits."""
    bits = {id(parameter): 1 << index for index, parameter in enumerate(parameters)}
    found: dict[Node, int] = {}
    pending = list(nodes)
    while pending:
        node = pending[-1]
        following = [n for n, _ in node.next_functions if n is not None]
        missing = [n for n in following if n not in found]
        if node in found or not missing:
            mask = bits.get(id(getattr(node, "variable", None)), 0)
            for n in following:
                mask |= found[n]
            found[pending.pop()] = mask
        else:
            pending.extend(missing)
    return found


def _watch(node: Node, passages: list[EdgeGradient], started: list[Node]) -> tuple[Any, Any]:
    def before(given: Sequence[Tensor | None]) -> None:
        started.append(node)

    def after(passed: Sequence[Tensor | None], given: Sequence[Tensor | None]) -> None:
        started.remove(node)
        zero, finite = all_zero(given), all_finite(given)
        for (following, _), gradient in zip(node.next_functions, passed, strict=False):
            if following is not None:
                passages.append(
                    EdgeGradient(node, following, zero, finite, _outcome(gradient), _of_zero(given, gradient))
                )

    prehook: Callable[..., Any] = node.register_prehook
    return prehook(before), node.register_hook(after)


def _outcome(gradient: Tensor | None) -> str:
    if gradient is None:
        return "none"
    if not is_finite(gradient):
        return "not finite"
    return "zero" if is_zero(gradient) else "finite"


def _of_zero(given: Sequence[Tensor | None], passed: Tensor | None) -> bool:
    if passed is None or given[0] is None or given[0].shape != passed.shape or is_finite(passed):
        return False
    return bool(((given[0] == 0) & ~torch.isfinite(passed)).any())
