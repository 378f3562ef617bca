"""Laws of torch.compile: one graph, equal to eager in value and derivatives, and none anew along a schedule."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from products import OP_CLASSES, OPS, STRATEGY_CLASSES, Cell, Part, cells, law, parts, rowwise_noise, sample
from surrogates.core import Op
from surrogates.ops.argmax import ArgMax
from surrogates.ops.clamp import Clamp
from surrogates.ops.heaviside import Heaviside
from surrogates.ops.lookup import Lookup
from surrogates.ops.max import Max
from surrogates.ops.maximum import Maximum
from surrogates.ops.permutation import Permutation
from surrogates.ops.quantize import Quantize
from surrogates.ops.relu import ReLU
from surrogates.ops.round import Round
from surrogates.ops.sign import Sign
from surrogates.ops.sort import Sort
from surrogates.ops.vector_quantize import VectorQuantize
from surrogates.strategies.smooth import Smooth

torch.set_num_threads(1)
SCHEDULE = Smooth(schedule="exponential", temperature=1.0, final_temperature=0.05)
ALONG = [SCHEDULE.temperature_at(progress) for progress in (0.0, 0.4, 1.0)]
Inputs = list[list[Tensor]]  # by cell


class Together:
    """Cells beside each other in one function, so that a transform is traced once for all of them.

    The loss is a sum over cells, so its derivatives are each cell's own. The temperature is written in place.
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = list(cells)
        self.temperature = torch.tensor(ALONG[0])
        self.x = [sample(cell.op, (3, 4), torch.float32) for cell in cells]
        self.noise = [[] if (u := cell.noise(*x)) is None else [u] for cell, x in zip(cells, self.x, strict=True)]
        self.leaves = [[t.clone().requires_grad_() for t in x] for x in self.x]
        self.rows = [[torch.stack([t, t.flip(0)]) for t in x] for x in self.x]
        self.noise_of_rows = [rowwise_noise(cell, rows) for cell, rows in zip(cells, self.rows, strict=True)]

    def value(self) -> Inputs:
        """With its graph, for backward."""
        return [[value] for value in self._values(self.leaves, self.noise)]

    def backward(self, values: Inputs) -> Inputs:
        """Through values, compiled or not."""
        loss = sum(value.sin().sum() for (value,) in values)
        slopes = iter(torch.autograd.grad(loss, [leaf for leaves in self.leaves for leaf in leaves]))
        return [[next(slopes) for _ in leaves] for leaves in self.leaves]

    def per_sample_gradient(self) -> Inputs:
        """By vmap of grad."""
        return torch.func.vmap(self._slope)(self.rows, self.noise_of_rows)

    def gradient(self) -> Inputs:
        """By grad, and the second order by grad of grad; an estimate may have none, which leaves zeros."""
        second, first = torch.func.grad(self._bend, has_aux=True)(self.x, self.noise)
        return [[*slopes, *bends] for slopes, bends in zip(first, second, strict=True)]

    def _values(self, inputs: Inputs, noise: Inputs) -> list[Tensor]:
        return [
            cell(*x, T=self.temperature, noise=u[0] if u else None)
            for cell, x, u in zip(self.cells, inputs, noise, strict=True)
        ]

    def _slope(self, inputs: Inputs, noise: Inputs) -> Inputs:
        return torch.func.grad(lambda x, u: sum(y.sin().sum() for y in self._values(x, u)))(inputs, noise)

    def _bend(self, inputs: Inputs, noise: Inputs) -> tuple[Tensor, Inputs]:
        found = self._slope(inputs, noise)
        curved = [slopes for cell, slopes in zip(self.cells, found, strict=True) if not cell.strategy.estimates]
        return sum((slope.sin().sum() for slopes in curved for slope in slopes), torch.zeros(())), found


Reading = Callable[[Together], Inputs]
FIRST_ORDER: list[Reading] = [Together.value, Together.per_sample_gradient]
EVERYTHING: list[Reading] = [*FIRST_ORDER, Together.gradient]


def compiled_are_eager(cells: Sequence[Cell], readings: Sequence[Reading], backend: str = "aot_eager") -> int:
    """Each reading of the cells in one graph, at temperatures along a schedule; returns how many cells there were."""
    together = Together(cells)
    for reading in readings:
        graphs = []

        def counted(graph: torch.fx.GraphModule, inputs: list[Tensor], graphs=graphs) -> Callable[..., object]:
            graphs.append(graph)
            return torch._dynamo.lookup_backend(backend)(graph, inputs)

        torch.compiler.reset()
        compiled = torch.compile(reading, fullgraph=True, backend=counted)
        for T in ALONG:
            together.temperature.fill_(T)
            try:
                found = compiled(together)
            except Exception as error:
                for cell in cells if len(cells) > 1 else []:  # which of them it is
                    compiled_are_eager([cell], [reading], backend)
                raise AssertionError(f"{cells}, {reading.__name__} is not compiled: {error}") from error
            agree(together, reading.__name__, found, reading(together))
        assert len(graphs) == 1, f"{reading.__name__} compiled {len(graphs)} times along a schedule: {cells}"
    return len(together.cells)


def agree(together: Together, name: str, found: Inputs, expected: Inputs) -> None:
    """To rounding, a hard value bit for bit, without silent zeros; and what backward through a value gives.

    A float32 rounds x / T, which counts as 1 / T^3 in a second derivative.
    """
    T = together.temperature.item()
    atol = 1e-5 if name == "value" else 1e-5 * max(1.0, 0.3 / T) ** 3
    for cell, x, tensors, references in zip(together.cells, together.x, found, expected, strict=True):
        where = f"{cell}, {name}, T = {T:.2g}"
        if name == "value" and cell.hard_valued:
            assert torch.equal(tensors[0], cell.op.hard(*x)), where
        for got, right in zip(tensors, references, strict=True):
            torch.testing.assert_close(got, right, atol=atol, rtol=1e-4, msg=lambda m, where=where: f"{where}: {m}")
            assert (got != 0).any() or (right == 0).all(), f"{where}: silent zeros"
    if name == "value":
        agree(together, "backward", together.backward(found), together.backward(expected))


# One op of each kind.
KINDS = (Lookup, VectorQuantize, Maximum, Permutation, Sort, Max, ArgMax, Sign, Quantize, Round, ReLU)


def a_cell_an_op() -> list[Cell]:
    """For each op, the kinds first, a cell of the strategy that was chosen least often before."""
    quick = sorted((parts(op)[0] for op in OPS if op == type(op)()), key=lambda part: type(part.op) not in KINDS)
    counts: Counter[type] = Counter()
    chosen = []
    for part in quick:
        cell = min(part.cells, key=lambda cell: counts[type(cell.strategy)])
        counts[type(cell.strategy)] += 1
        chosen.append(cell)
    return chosen


def one_a_kind() -> list[Cell]:
    """A cell of each kind of op, and of each strategy that is not among them."""
    chosen = [cell for cell in a_cell_an_op() if type(cell.op) in KINDS]
    first = {type(cell.strategy): cell for op in OPS for cell in reversed(parts(op)[0].cells)}
    return chosen + [cell for cls, cell in first.items() if cls not in {type(cell.strategy) for cell in chosen}]


@pytest.mark.parametrize("elementwise", [True, False])
@pytest.mark.parametrize("readings", [EVERYTHING[:1], pytest.param(EVERYTHING[1:], marks=pytest.mark.slow)])
def test_a_cell_of_every_kind_of_op_and_of_every_strategy_compiled_is_eager(
    elementwise: bool, readings: list[Reading]
) -> None:
    """All cells in one graph: value and gradient by backward; in the slow part gradients a sample and the second."""
    chosen = [cell for cell in one_a_kind() if cell.op.elementwise is elementwise]
    assert compiled_are_eager(chosen, readings) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("cell", a_cell_an_op(), ids=repr)
def test_a_cell_of_every_op_compiled_is_eager(cell: Cell) -> None:
    assert compiled_are_eager([cell], FIRST_ORDER) == 1


def test_every_op_and_strategy_is_compiled() -> None:
    assert {type(cell.op) for cell in a_cell_an_op()} == set(OP_CLASSES.values())
    assert {type(cell.op) for cell in one_a_kind()} >= set(KINDS)
    assert {type(cell.strategy) for cell in one_a_kind()} == set(STRATEGY_CLASSES.values())


@pytest.mark.nightly
@law()
def test_compiled_is_eager_in_every_cell_and_annealing_recompiles_none(part: Part) -> None:
    """Case B13."""
    assert compiled_are_eager(part.cells, EVERYTHING) == len(part.cells)


def dozen() -> list[Cell]:
    """Every way to build a carrier, every kind of op: what is compiled to machine code."""
    wanted = [
        (Round(), "Subgradient", ""),
        (Round(), "StraightThrough", "own"),
        (Round(), "Smooth", ""),
        (Round(), "Rewrite", ""),
        (Sign(zero=1.0), "StraightThrough", "own"),
        (Heaviside(), "StraightThrough", "smooth"),
        (Quantize(), "Smooth", ""),
        (Max(), "Subgradient", ""),
        (Max(), "StraightThrough", "own"),
        (ArgMax(), "StraightThrough", "own"),
        (Maximum(), "Smooth", ""),
        (Clamp(), "Rewrite", ""),
    ]
    named = {
        (op, type(cell.strategy).__name__, getattr(cell.strategy, "carrier", "")): cell
        for op in OPS
        for cell in reversed(cells(op, one_kernel=True))  # of several, the first
    }
    return [named[name] for name in wanted]


@pytest.mark.nightly
@pytest.mark.parametrize("cell", dozen(), ids=lambda cell: f"{type(cell.op).__name__}-{cell.strategy}")
def test_each_reading_of_a_dozen_cells_compiled_to_machine_code_is_eager(cell: Cell) -> None:
    assert compiled_are_eager([cell], EVERYTHING, "inductor") == 1


def test_there_are_twelve_named_cells() -> None:
    assert len(set(dozen())) == 12


@pytest.mark.slow
def test_annealing_recompiles_nothing() -> None:
    """Case B13, of three kinds of op, whose values the temperature moves."""
    annealed = [Cell(op, SCHEDULE) for op in (Round(), ArgMax(), ReLU())]
    for cell in annealed:
        x = sample(cell.op)
        assert not torch.equal(cell(*x, T=ALONG[0]), cell(*x, T=ALONG[-1])), cell
    assert compiled_are_eager(annealed, [Together.value]) == 3


class Reads(Smooth):
    """Reads the temperature: a branch that a graph cannot hold."""

    def combine(self, op: Op, *x: Tensor, T: Tensor, noise: Tensor | None) -> Tensor:
        return super().combine(op, *x, T=T if T > 0.1 else 2 * T, noise=noise)


class Silent(Smooth):
    """Has no derivative when it is compiled."""

    def combine(self, op: Op, *x: Tensor, T: Tensor, noise: Tensor | None) -> Tensor:
        y = super().combine(op, *x, T=T, noise=noise)
        return y.detach() + 0 * x[0] if torch.compiler.is_compiling() else y


@pytest.mark.parametrize("broken", [Reads(), Silent()], ids=lambda strategy: type(strategy).__name__)
def test_the_laws_above_name_the_cell_that_breaks_them(broken: Smooth) -> None:
    with pytest.raises(AssertionError, match=type(broken).__name__):
        compiled_are_eager([Cell(ReLU(), Smooth()), Cell(ReLU(), broken)], [Together.value])
