"""Finds the tensors whose gradients from several uses sum to exactly 0."""

from __future__ import annotations

from torch.autograd.graph import Node

from surrogates.diagnosis.backward import Backward
from surrogates.diagnosis.causes import Cause, Lineage
from surrogates.diagnosis.trace import Operation


def cancellations(lineage: Lineage, backward: Backward, graph: dict[Node, int], affected: int) -> list[Cause]:
    """The tensors that got several gradients other than 0, whose sum is exactly 0.

    Such a tensor belongs to a node that received only zeros, or to a parameter, though several edges to it carried
    gradients other than 0.
    """
    arrived: dict[Node, list[Operation]] = {}
    for passage in backward.passages:
        if passage.passed == "finite" and affected & graph[passage.following]:
            arrived.setdefault(passage.following, []).append(lineage.trace.owner(passage.node))
    summed = {passage.node for passage in backward.passages if passage.given_zero}
    return [
        Cause("cancelled", lineage.trace.owner(node), affected & graph[node], node, uses=tuple(dict.fromkeys(uses)))
        for node, uses in arrived.items()
        if len(uses) > 1 and (node in summed or hasattr(node, "variable"))
    ]
