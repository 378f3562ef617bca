"""Finds in the two records the calls at which a parameter's gradient ends, and the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from torch import Tensor
from torch.autograd.graph import Node

from surrogates.diagnosis.backward import Backward, masks
from surrogates.diagnosis.trace import Operation, Trace, Value

PRODUCTS = ("Mul", "Mm", "Mv", "Addmm", "Addmv", "Bmm", "Baddbmm", "Dot", "Convolution", "Linear", "Div")  # nodes


@dataclass
class Cause:
    """A call that keeps parameters (bits) from a gradient; `source` is the value whose numbers cause it."""

    kind: str  # cut, flattened, cancelled, not finite, exception
    call: Operation
    parameters: int
    node: Node | None = None
    output: Value | None = None  # for a cut: the result without a graph
    source: Value | None = None
    given_to: Operation | None = None  # the first call that was given the source
    zero_times_infinity: bool = False
    uses: tuple[Operation, ...] = ()  # of a tensor whose gradients cancel


@dataclass
class Lineage:
    """Which values depend on which parameters (bits), by their numbers and by the graph."""

    trace: Trace
    parameters: list[Tensor]
    graph: dict[Node, int] = field(init=False)
    numbers: dict[Value, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = [value.node for call in self.trace.calls for value in (*call.inputs, *call.outputs) if value.node]
        self.graph = masks(nodes, self.parameters)
        self.bits = {id(parameter): 1 << index for index, parameter in enumerate(self.parameters)}
        for call in self.trace.calls:
            mask = union(self.by_numbers(value) for value in call.inputs)
            self.numbers.update(dict.fromkeys(call.outputs, mask))

    def by_graph(self, value: Value) -> int:
        """The parameters that a backward pass from this value reaches."""
        if value.node is None:
            return self.bits.get(id(value.tensor), 0)
        return self.graph.get(value.node, 0)

    def by_numbers(self, value: Value) -> int:
        """The parameters from which this value was computed, with a graph or without."""
        return self.numbers.get(value, 0) | self.by_graph(value)


def cuts(lineage: Lineage, loss: Value | None, missing: int) -> list[Cause]:
    """The calls that lost the graph of the missing parameters on the way to the loss, the latest on each way.

    The search goes from the loss backwards, along values that depend on a parameter by their numbers but not by the
    graph. It ends at the first call that was given a value with a graph to the parameter.
    """
    wanted: dict[Value, int] = {} if loss is None else {loss: missing}
    found: list[Cause] = []
    for call in reversed(lineage.trace.calls):
        for output in call.outputs:
            lost = wanted.get(output, 0) & ~lineage.by_graph(output)
            cut = lost & union(lineage.by_graph(value) for value in call.inputs)
            if cut:
                found.append(Cause("cut", call, cut, output=output))
            for value in call.inputs if lost else ():
                wanted[value] = wanted.get(value, 0) | lost
    return found[::-1]


def departures(lineage: Lineage, missing: int) -> list[Cause]:
    """The calls that passed numbers computed from the missing parameters to Python."""
    calls = [call for call in lineage.trace.calls if call.leaves]
    causes = [Cause("cut", c, missing & union(lineage.by_numbers(value) for value in c.inputs)) for c in calls]
    return [cause for cause in causes if cause.parameters]


def stops(lineage: Lineage, backward: Backward, graph: dict[Node, int], passed: str, affected: int) -> list[Cause]:
    """The nodes that got a gradient and passed `none` or `zero` on to the affected parameters."""
    found: dict[Node, Cause] = {}
    for passage in backward.passages:
        hit = affected & graph[passage.following]
        if hit and passage.passed == passed and not passage.given_zero:
            cause = _cause("flattened" if passed == "zero" else "cut", passage.node, hit, lineage, found)
            if passed == "zero" and passage.node.name().startswith(PRODUCTS):
                factors = [value for value in cause.call.inputs if value.zero]
                if factors:
                    cause.source, cause.given_to = origin(factors[0], cause.call, lambda value: value.zero)
    return list(found.values())


def explosions(lineage: Lineage, backward: Backward, graph: dict[Node, int], affected: int) -> list[Cause]:
    """The nodes that turned a finite gradient into NaN or infinity; for each parameter the first."""
    found: dict[Node, Cause] = {}
    for passage in backward.passages:
        hit = affected & graph[passage.following]
        if hit and passage.passed == "not finite" and passage.given_finite:
            affected &= ~hit
            cause = _cause("not finite", passage.node, hit, lineage, found)
            cause.zero_times_infinity = passage.zero_times_infinity
            broken = [value for value in cause.call.inputs if not value.finite]
            if broken:
                cause.source, cause.given_to = origin(broken[0], cause.call, lambda value: not value.finite)
    return list(found.values())


def first_not_finite(trace: Trace) -> Cause | None:
    """The first call on the way to the last one whose result is not finite; before an exception of plain Python."""
    wanted = set(trace.calls[-1].inputs) if trace.calls else set()
    found: Cause | None = None
    for call in reversed(trace.calls):
        if wanted.isdisjoint(call.outputs):
            continue
        wanted.update(call.inputs)
        broken = next((value for value in call.outputs if not value.finite), None)
        if broken:
            found = Cause("not finite", call, 0, source=broken, given_to=trace.calls[-1])
    return found


def origin(value: Value, given_to: Operation, has: Callable[[Value], bool]) -> tuple[Value, Operation]:
    """The earliest value on a way back along values that all have a property, and the call that was given it."""
    while (maker := value.call) is not None:
        earlier = next((given for given in maker.inputs if has(given) and given is not value), None)
        if earlier is None:
            break
        value, given_to = earlier, maker
    return value, given_to


def names_of(bits: int, parameters: Iterable[str]) -> tuple[str, ...]:
    """The names of the parameters whose bits are set."""
    return tuple(name for index, name in enumerate(parameters) if bits >> index & 1)


def union(bits: Iterable[int]) -> int:
    """The union of sets of bits."""
    total = 0
    for mask in bits:
        total |= mask
    return total


def _cause(kind: str, node: Node, hit: int, lineage: Lineage, found: dict[Node, Cause]) -> Cause:
    if node not in found:
        call = lineage.trace.owner(node)
        found[node] = Cause(kind, call, 0, node=node)
    found[node].parameters |= hit
    return found[node]
