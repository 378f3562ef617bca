"""Laws of torch.compile: one graph, equal to eager in value and derivatives, and none anew along a schedule."""

from collections import Counter
from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor

from products import (
    OP_CLASSES,
    OPS,
    STRATEGY_CLASSES,
    Cell,
    Part,
    arity,
    cells,
    gradients,
    law,
    parts,
    rowwise_noise,
    sample,
)
from surrogates.core import Op
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough

torch.set_num_threads(1)
T = 0.3
Function = Callable[..., tuple[Tensor, ...]]


def readings(cell: Cell, x: list[Tensor]) -> dict[str, Function]:
    """What is compiled of a cell: value, gradient, per-sample gradient and, where there is one, second order."""
    places = tuple(range(arity(cell.op)))
    rows = [torch.stack([t, t.flip(0)]) for t in x]
    rows += rowwise_noise(cell, rows)
    temperature = torch.tensor(T)

    def value(*inputs: Tensor) -> Tensor:
        return cell(*inputs[: len(x)], T=temperature, noise=inputs[len(x)] if len(inputs) > len(x) else None)

    def gradient(*inputs: Tensor) -> tuple[Tensor, ...]:
        return torch.func.grad(lambda *i: value(*i).sin().sum(), argnums=places)(*inputs)

    def bent(*inputs: Tensor) -> Tensor:
        return sum(g.sin().sum() for g in gradient(*inputs))

    found: dict[str, Function] = {
        "value": lambda *inputs: (value(*inputs),),
        "gradient": gradient,
        "per-sample gradient": lambda *_: torch.func.vmap(gradient)(*rows),
    }
    if not cell.strategy.estimates:  # an estimate may have no second derivative
        found["second order"] = torch.func.grad(bent, argnums=places)
    return found


def inputs_of(cell: Cell) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs, and the noise if the cell needs any."""
    x = sample(cell.op, (3, 4), torch.float32)
    noise = cell.noise(*x)
    return x, [] if noise is None else [noise]


def compiled(function: Callable[..., object], backend: object = "aot_eager") -> Callable[..., object]:
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend=backend)


def agree(found: Iterable[Tensor], expected: Iterable[Tensor], name: str) -> None:
    for got, right in zip(found, expected, strict=True):
        torch.testing.assert_close(got, right, atol=1e-5, rtol=1e-4, msg=lambda m: f"{name}: {m}")
        assert (got != 0).any() or (right == 0).all(), f"{name}: silent zeros"


def each_reading_agrees(cell: Cell, backend: str) -> None:
    """Each reading compiled by itself, and backward through the compiled value."""
    x, noise = inputs_of(cell)
    for name, function in readings(cell, x).items():
        agree(compiled(function, backend)(*x, *noise), function(*x, *noise), f"{cell}, {name}")
    value = readings(cell, x)["value"]
    leaves = [t.clone().requires_grad_() for t in x]
    (y,) = compiled(value, backend)(*leaves, *noise)
    assert not cell.hard_valued or torch.equal(y, cell.op.hard(*x)), cell
    backward = torch.autograd.grad(y.sin().sum(), leaves)
    agree(backward, gradients(lambda *i: value(*i, *noise)[0].sin(), x), f"{cell}, backward")


def three_cells_an_op() -> list[list[Cell]]:
    """For each op straight-through, and one cell each of the two strategies that were chosen least often before."""
    counts: Counter[type] = Counter()
    chosen = []
    for part in (parts(op)[0] for op in OPS):
        first = {type(cell.strategy): cell for cell in reversed(part.cells)}
        names = sorted(first, key=lambda cls: (cls is not StraightThrough, counts[cls]))[:3]
        counts.update(names)
        chosen.append([first[name] for name in names])
    return [three for three in chosen if three]


@pytest.mark.parametrize("three", three_cells_an_op(), ids=lambda three: repr(three[0].op))
def test_three_cells_of_every_op_compiled_are_eager(three: list[Cell]) -> None:
    """Value, gradient and per-sample gradient of three cells in one graph."""
    chosen = [(readings(cell, x), x, noise) for cell in three for x, noise in [inputs_of(cell)]]

    def together() -> list[tuple[Tensor, ...]]:
        return [f(*x, *noise) for found, x, noise in chosen for name, f in found.items() if name != "second order"]

    found, expected = compiled(together)(), together()
    assert len(found) == len(expected) == 3 * 3
    for got, right in zip(found, expected, strict=True):
        agree(got, right, str(three))


def test_every_op_and_strategy_is_compiled() -> None:
    found = [cell for three in three_cells_an_op() for cell in three]
    assert {type(cell.op) for cell in found} == set(OP_CLASSES.values())
    assert {type(cell.strategy) for cell in found} == set(STRATEGY_CLASSES.values())


@pytest.mark.nightly
@law()
def test_compiled_is_eager_in_every_cell(part: Part) -> None:
    ran = 0
    for cell in part.cells:
        each_reading_agrees(cell, "aot_eager")
        ran += 1
    assert ran == len(part.cells)


def dozen() -> list[Cell]:
    """Every way to build a carrier, every kind of op: what is compiled to machine code."""
    wanted = [
        ("Round()", "Subgradient", ""),
        ("Round()", "StraightThrough", "own"),
        ("Round()", "Smooth", ""),
        ("Round()", "Rewrite", ""),
        ("Sign(zero=1.0)", "StraightThrough", "own"),
        ("Heaviside(zero=1.0)", "StraightThrough", "smooth"),
        ("Quantize(bits=4, low=0.0, high=1.0, bounds='inclusive')", "Smooth", ""),
        ("Max(dim=-1)", "Subgradient", ""),
        ("Max(dim=-1)", "StraightThrough", "own"),
        ("ArgMax(dim=-1)", "StraightThrough", "own"),
        ("Maximum()", "Smooth", ""),
        ("Clamp(low=0.0, high=1.0)", "Rewrite", ""),
    ]
    named = {
        (repr(op), type(cell.strategy).__name__, getattr(cell.strategy, "carrier", "")): cell
        for op in OPS
        for cell in reversed(cells(op, one_kernel=True))  # of several, the first
    }
    return [named[name] for name in wanted]


@pytest.mark.parametrize(
    "backend",
    [pytest.param("aot_eager", marks=pytest.mark.slow), pytest.param("inductor", marks=pytest.mark.nightly)],
)
@pytest.mark.parametrize("cell", dozen(), ids=lambda cell: f"{type(cell.op).__name__}-{cell.strategy}")
def test_each_reading_of_a_dozen_cells_compiled_is_eager(cell: Cell, backend: str) -> None:
    each_reading_agrees(cell, backend)


def test_there_are_twelve_named_cells() -> None:
    assert len(set(dozen())) == 12


def graphs_along_a_schedule(cell: Cell) -> int:
    """How often a cell is compiled while its temperature, a 0-d tensor written in place, falls."""
    temperature = torch.tensor(1.0)
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., object]:
        graphs.append(graph)
        return graph.forward

    x, noise = inputs_of(cell)
    function = compiled(lambda *i: cell(*i[: len(x)], T=temperature, noise=noise[0] if noise else None), backend)
    results = []
    for step in range(6):
        temperature.fill_(SCHEDULE.temperature_at(step / 5))
        results.append(function(*x))
        agree([results[-1]], [cell(*x, T=temperature)], str(cell))
    assert not cell.strategy.soft_forward or not torch.equal(results[0], results[-1]), cell
    return len(graphs)


SCHEDULE = Smooth(schedule="exponential", temperature=1.0, final_temperature=0.05)


@pytest.mark.parametrize("name", ["Round()", "ArgMax(dim=-1)", "ReLU()"])
def test_case_B13_annealing_recompiles_nothing(name: str) -> None:
    op: Op = next(op for op in OPS if repr(op) == name)
    assert graphs_along_a_schedule(Cell(op, SCHEDULE)) == 1


@pytest.mark.nightly
@law(lambda cell: "temperature" in cell.strategy.uses(cell.op))
def test_case_B13_annealing_recompiles_no_cell(part: Part) -> None:
    counts = [graphs_along_a_schedule(cell) for cell in part.cells]
    assert counts == [1] * len(part.cells)
