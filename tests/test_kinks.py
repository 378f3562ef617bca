"""Every kink, jump and tie: one table of the derivative there, the same on the oldest and the newest torch.

The table is what the ops' docstrings state. The laws draw their inputs from continuous laws, so nothing here is
reached by them.
"""

import math

import pytest
import torch
from torch import Tensor

from each import each
from products import HALF, OPS, Part, generator, gradients, law, sample
from surrogates import EmptyCell, graft
from surrogates.core import Op, Strategy
from surrogates.kernels import KERNELS
from surrogates.ops.abs import Abs
from surrogates.ops.argmax import ArgMax
from surrogates.ops.argmin import ArgMin
from surrogates.ops.ceil import Ceil
from surrogates.ops.clamp import Clamp
from surrogates.ops.compare import Compare
from surrogates.ops.floor import Floor
from surrogates.ops.heaviside import Heaviside
from surrogates.ops.histogram import Histogram
from surrogates.ops.lookup import Lookup
from surrogates.ops.max import Max
from surrogates.ops.maximum import Maximum
from surrogates.ops.median import Median
from surrogates.ops.min import Min
from surrogates.ops.minimum import Minimum
from surrogates.ops.permutation import Permutation
from surrogates.ops.quantile import Quantile
from surrogates.ops.quantize import Quantize
from surrogates.ops.rank import Rank
from surrogates.ops.relu import ReLU
from surrogates.ops.round import Round
from surrogates.ops.sign import Sign
from surrogates.ops.sort import Sort
from surrogates.ops.threshold import Threshold
from surrogates.ops.top_k import TopK
from surrogates.ops.top_k_mask import TopKMask
from surrogates.ops.trunc import Trunc
from surrogates.ops.vector_quantize import VectorQuantize
from surrogates.ops.where import Where
from surrogates.strategies.rewrite import Rewrite
from surrogates.strategies.smooth import Smooth
from surrogates.strategies.ste import StraightThrough
from surrogates.strategies.subgradient import Subgradient

torch.set_num_threads(1)

STE, IDENTITY, CLIPPED = StraightThrough(), StraightThrough(carrier="identity"), StraightThrough(carrier="clipped")
MINIMUM_NORM, LEFT, RIGHT, FIRST = (Subgradient(rule=rule) for rule in ("minimum_norm", "left", "right", "first"))
ROTATION = StraightThrough(form="rotation")
BETWEEN, CODES = [[0.0, 5.0], [0.0, 0.0]], [[1.0, 0.0], [-1.0, 0.0]]
UP, DOWN = 1 + 2.0**-20, 1 - 2.0**-20  # just outside and just inside 1

# op, strategy, inputs, derivative of the sum of the outputs by the inputs
TABLE: list[tuple[Op, Strategy, list, list]] = [
    # kinks of continuous ops
    (Abs(), MINIMUM_NORM, [0.0, -0.0, 1.0, -1.0], [0, 0, 1, -1]),
    (Abs(), LEFT, [0.0, -0.0, 1.0, -1.0], [-1, -1, 1, -1]),
    (Abs(), RIGHT, [0.0, -0.0, 1.0, -1.0], [1, 1, 1, -1]),
    (Abs(), STE, [0.0, -0.0], [0, 0]),
    (Abs(), IDENTITY, [0.0, -1.0], [1, 1]),
    (Abs(), Rewrite(), [0.0, -0.0, 1.0, -1.0], [0, 0, 1, -1]),
    (ReLU(), MINIMUM_NORM, [0.0, -0.0, 1.0, -1.0], [0, 0, 1, 0]),
    (ReLU(), LEFT, [0.0, -0.0, 1.0, -1.0], [0, 0, 1, 0]),
    (ReLU(), RIGHT, [0.0, -0.0, 1.0, -1.0], [1, 1, 1, 0]),
    (ReLU(), STE, [0.0, -0.0], [0.5, 0.5]),
    (ReLU(), Rewrite(), [0.0, -0.0, 1.0, -1.0], [0.5, 0.5, 1, 0]),
    (Clamp(), MINIMUM_NORM, [0.0, 1.0, 0.5, -1.0, 2.0], [0, 0, 1, 0, 0]),
    (Clamp(), LEFT, [0.0, 1.0, 0.5, -1.0, 2.0], [0, 1, 1, 0, 0]),
    (Clamp(), RIGHT, [0.0, 1.0, 0.5, -1.0, 2.0], [1, 0, 1, 0, 0]),
    (Clamp(), STE, [0.0, 1.0, 0.5, -1.0, 2.0], [1, 1, 1, 1, 1]),
    (Clamp(), Rewrite(), [0.0, 1.0, 0.5, -1.0, 2.0], [0, 0, 1, 0, 0]),
    (Clamp(-2.0, 0.5), Rewrite(), [-2.0, 0.5, 0.0], [0, 0, 1]),
    # ties
    (Max(), MINIMUM_NORM, [2.0, 2.0, 1.0], [0.5, 0.5, 0]),
    (Max(), MINIMUM_NORM, [3.0, 3.0, 3.0], [1 / 3, 1 / 3, 1 / 3]),
    (Max(), FIRST, [1.0, 2.0, 2.0], [0, 1, 0]),
    (Max(), FIRST, [2.0, 2.0, 1.0], [1, 0, 0]),
    (Max(), STE, [2.0, 2.0, -math.inf], [0.5, 0.5, 0]),
    (Max(), Smooth(), [2.0, 2.0, -math.inf], [0.5, 0.5, 0]),
    (Max(), Rewrite(), [2.0, 2.0, 1.0], [1, 0, 0]),
    (Max(), Rewrite(form="abs"), [2.0, 2.0, 1.0], [0.5, 0.5, 0]),
    (Max(), MINIMUM_NORM, [-math.inf, 1.0, 1.0], [0, 0.5, 0.5]),
    (Max(), MINIMUM_NORM, [math.inf, 1.0], [0, 0]),
    (Max(), MINIMUM_NORM, [-math.inf, -math.inf], [0, 0]),
    (Max(), FIRST, [-math.inf, -math.inf], [0, 0]),
    (Max(), STE, [-math.inf, -math.inf], [0, 0]),
    (Max(), Smooth(), [math.inf, 1.0], [0, 0]),
    (Max(), Smooth(), [-math.inf, -math.inf], [0, 0]),
    (Maximum(), MINIMUM_NORM, [[1.0], [1.0]], [[0.5], [0.5]]),
    (Maximum(), MINIMUM_NORM, [[2.0, 1.0], [1.0, 2.0]], [[1, 0], [0, 1]]),
    (Maximum(), FIRST, [[1.0], [1.0]], [[1], [0]]),
    (Maximum(), STE, [[1.0], [1.0]], [[0.5], [0.5]]),
    (Maximum(), Rewrite(), [[1.0], [1.0]], [[1], [0]]),
    (Maximum(), Rewrite(form="abs"), [[1.0], [1.0]], [[0.5], [0.5]]),
    (Minimum(), MINIMUM_NORM, [[1.0, 2.0], [1.0, 1.0]], [[0.5, 0], [0.5, 1]]),
    (Minimum(), FIRST, [[1.0], [1.0]], [[1], [0]]),
    (Minimum(), STE, [[1.0], [1.0]], [[0.5], [0.5]]),
    (Minimum(), Rewrite(), [[1.0], [1.0]], [[1], [0]]),
    (Minimum(), Rewrite(form="abs"), [[1.0], [1.0]], [[0.5], [0.5]]),
    (ArgMax(), MINIMUM_NORM, [2.0, 2.0, 1.0], [0, 0, 0]),
    (ArgMax(), Smooth(), [-math.inf, -math.inf], [0, 0]),
    (ArgMax(), STE, [math.inf, 0.0], [0, 0]),
    (ArgMax(), Rewrite(), [0.0, 0.0], [0.25, -0.25]),  # the first maximum is chosen: p (1 - p), -p p at p = 1/2
    (ArgMin(), MINIMUM_NORM, [2.0, 1.0, 1.0], [0, 0, 0]),
    (ArgMin(), Smooth(), [math.inf, math.inf], [0, 0]),
    (Min(), MINIMUM_NORM, [1.0, 1.0, 2.0], [0.5, 0.5, 0]),
    (Min(), FIRST, [1.0, 1.0, 2.0], [1, 0, 0]),
    (Min(), STE, [1.0, 1.0, math.inf], [0.5, 0.5, 0]),
    (Min(), Smooth(), [-math.inf, 1.0], [0, 0]),
    (Min(), Rewrite(), [1.0, 1.0, 2.0], [1, 0, 0]),
    (Min(), Rewrite(form="abs"), [1.0, 1.0, 2.0], [0.5, 0.5, 0]),
    (TopKMask(), MINIMUM_NORM, [2.0, 2.0, 2.0], [0, 0, 0]),
    (TopKMask(), STE, [2.0, -math.inf, -math.inf], [0, 0, 0]),
    (TopKMask(), Smooth(), [math.inf, 1.0, 0.0], [0, 0, 0]),
    (TopK(), MINIMUM_NORM, [2.0, 2.0, 2.0], [2 / 3, 2 / 3, 2 / 3]),
    (TopK(), MINIMUM_NORM, [3.0, 2.0, 2.0], [1, 0.5, 0.5]),
    (TopK(), FIRST, [3.0, 2.0, 2.0], [1, 1, 0]),
    (TopK(), STE, [2.0, 2.0, 2.0], [2 / 3, 2 / 3, 2 / 3]),
    (TopK(), STE, [2.0, -math.inf, -math.inf], [0, 0, 0]),
    (TopK(), Rewrite(), [3.0, 2.0, 2.0], [1, 1, 0]),
    (Max(), Smooth(form="boltzmann"), [2.0, 2.0, -math.inf], [0.5, 0.5, 0]),
    (Max(), Smooth(form="sparsemax"), [2.0, 2.0, 1.0], [0.5, 0.5, 0]),  # 1 is on the edge of the support, outside
    (Max(), Smooth(form="sparsemax"), [math.inf, 2.0], [0, 0]),
    (Min(), Smooth(form="boltzmann"), [2.0, 2.0, math.inf], [0.5, 0.5, 0]),
    (Median(), MINIMUM_NORM, [2.0, 1.0, 2.0, 0.0, 3.0], [0.5, 0, 0.5, 0, 0]),
    (Median(), FIRST, [2.0, 1.0, 2.0, 0.0, 3.0], [1, 0, 0, 0, 0]),
    (Median(), FIRST, [2.0, 2.0, 2.0], [0, 1, 0]),
    (Median(), MINIMUM_NORM, [-math.inf, -math.inf, 1.0], [0, 0, 0]),
    (Median(), STE, [2.0, 2.0, math.inf], [0.5, 0.5, 0]),
    (Median(), Rewrite(), [2.0, 2.0, 2.0], [0, 1, 0]),
    (Quantile(), MINIMUM_NORM, [1.0, 2.0, 2.0, 0.0], [0.5, 0.25, 0.25, 0]),
    (Quantile(), FIRST, [1.0, 2.0, 2.0, 0.0], [0.5, 0.5, 0, 0]),
    (Quantile(), MINIMUM_NORM, [1.0, 2.0], [0.5, 0.5]),
    (Quantile(0.0), MINIMUM_NORM, [1.0, 1.0, 2.0], [0.5, 0.5, 0]),
    (Quantile(1.0), FIRST, [1.0, 2.0, 2.0], [0, 0, 1]),
    (Quantile(), STE, [-math.inf, 1.0], [0, 0]),
    (Sort(), MINIMUM_NORM, [2.0, 2.0, -math.inf], [1, 1, 0]),
    (Sort(), FIRST, [2.0, 2.0, math.inf], [1, 1, 0]),
    (Sort(), STE, [2.0, 2.0, -math.inf], [1, 1, 0]),
    (Sort(), Smooth(form="network"), [2.0, math.inf, -math.inf], [1, 0, 0]),
    (Sort(), Rewrite(), [2.0, 2.0, 1.0], [1, 1, 1]),
    # jumps: 0 by definition, the straight-through derivative as stated
    (Sign(), MINIMUM_NORM, [0.0, -0.0, 1.0], [0, 0, 0]),
    (Sign(), STE, [0.0, 1.0, -1.0, UP, -UP, DOWN], [1, 1, 1, 0, 0, 1]),
    (Sign(), IDENTITY, [0.0, 5.0], [1, 1]),
    (Sign(), CLIPPED, [1.0, -1.0, UP, -UP], [1, 1, 0, 0]),
    (Sign(), StraightThrough(carrier="clipped", width=0.5), [0.5, -0.5, 0.75, 0.25], [1, 1, 0, 1]),
    (Heaviside(), MINIMUM_NORM, [0.0, -0.0, 1.0], [0, 0, 0]),
    (Heaviside(), STE, [0.0, 1.0, -1.0, UP, -UP], [0.5, 0.5, 0.5, 0, 0]),
    (Compare(">"), MINIMUM_NORM, [[1.5, 1.0], [1.5, 0.0]], [[0, 0], [0, 0]]),
    (Compare(">"), STE, [[1.5, 1.0, 1.0, UP], [1.5, 0.0, 2.0, 0.0]], [[0.5, 0.5, 0.5, 0], [-0.5, -0.5, -0.5, 0]]),
    (Compare("<"), STE, [[1.5, 1.0, 1.0, UP], [1.5, 0.0, 2.0, 0.0]], [[-0.5, -0.5, -0.5, 0], [0.5, 0.5, 0.5, 0]]),
    (Compare("<="), STE, [[math.inf, math.inf], [math.inf, 0.0]], [[0, 0], [0, 0]]),
    (Compare("=="), MINIMUM_NORM, [[1.5, 1.0], [1.5, 0.0]], [[0, 0], [0, 0]]),
    (Compare("=="), STE, [[1.0, 1.0, 0.0, 0.5], [1.0, 0.0, 1.0, 0.0]], [[0, 0, 0, -1], [0, 0, 0, 1]]),
    (Compare("=="), Smooth(), [[1.0, math.inf], [1.0, math.inf]], [[0, 0], [0, 0]]),
    (Histogram(2, 0.0, 2.0), MINIMUM_NORM, [0.0, 1.0, 2.0, 0.5], [0, 0, 0, 0]),
    (Rank(), MINIMUM_NORM, [1.0, 1.0, 2.0], [0, 0, 0]),
    (Rank(), Smooth(), [-math.inf, -math.inf, math.inf], [0, 0, 0]),
    (Permutation(), MINIMUM_NORM, [1.0, 1.0, 2.0], [0, 0, 0]),
    (Permutation(), STE, [math.inf, -math.inf, -math.inf], [0, 0, 0]),
    (Threshold(), MINIMUM_NORM, [[1.5, 1.0], [1.5, 0.0]], [[0, 0], [0, 0]]),
    (Threshold(), STE, [[1.5, 1.0, 1.0, UP], [1.5, 0.0, 2.0, 0.0]], [[0.5, 0.5, 0.5, 0], [-0.5, -0.5, -0.5, 0]]),
    (Threshold(), STE, [[math.inf, math.inf], [math.inf, 0.0]], [[0, 0], [0, 0]]),
    (Where(), MINIMUM_NORM, [[0.0, -1.0], [5.0, 5.0], [2.0, 2.0]], [[0, 0], [1, 0], [0, 1]]),
    (Where(), STE, [[0.0, 1.0, -1.0], [5.0] * 3, [2.0] * 3], [[1.5, 0, 0], [0.5, 1, 0], [0.5, 0, 1]]),
    (Round(), MINIMUM_NORM, [0.5, 1.5, 0.2], [0, 0, 0]),
    (Round(), STE, [0.5, 1.5, 0.2], [1, 1, 1]),
    (Round(), CLIPPED, [1.0, -1.0, UP], [1, 1, 0]),
    (Round(), Rewrite(), [0.5, 1.0], [1, 1]),
    (Floor(), MINIMUM_NORM, [0.0, 1.0, 0.5], [0, 0, 0]),
    (Floor(), STE, [0.0, 1.0, 0.5], [1, 1, 1]),
    (Floor(0.5, -1.0, 1.0), MINIMUM_NORM, [-1.0, 1.0, 0.5], [0, 0, 0]),
    (Floor(0.5, -1.0, 1.0), STE, [-1.0, 1.0, 3.0, -3.0], [1, 1, 0, 0]),
    (Floor(0.5, -1.0, 1.0), IDENTITY, [-1.0, 1.0, 3.0, -3.0], [1, 1, 1, 1]),
    (Floor(0.5, -1.0, 1.0), Rewrite(), [-0.75, 1.25, -1.0, 1.5], [1, 1, 0, 0]),  # x - 1/4 is a bound, then outside
    (Lookup(), MINIMUM_NORM, [[1.0, 0.0, 2.5], [5.0, 6.0, 7.0]], [[0, 0, 0], [1, 1, 1]]),
    (Lookup(), STE, [[1.0, 9.0, -9.0], [5.0, 6.0, 7.0]], [[1, 1, 1], [1, 1, 1]]),
    (Lookup(), Rewrite(), [[0.5, 1.5, 2.5], [5.0, 6.0, 8.0]], [[1, 2, 2], [1, 1, 1]]),  # middles: the cell to the right
    (Lookup(), Rewrite(), [[0.25, 2.75, 9.0], [5.0, 6.0, 8.0]], [[0, 0, 0], [1, 0, 2]]),
    # two vectors as near to one code as to the other: both take the first
    (VectorQuantize(), MINIMUM_NORM, [BETWEEN, CODES], [[[0, 0], [0, 0]], [[2, 2], [0, 0]]]),
    (VectorQuantize(), STE, [BETWEEN, CODES], [[[1, 1], [1, 1]], [[2, 2], [0, 0]]]),
    (VectorQuantize(), ROTATION, [BETWEEN, CODES], [[[-0.2, 0.2], [1, 1]], [[2, 2], [0, 0]]]),  # a quarter turn, / 5
    (VectorQuantize(), Smooth(), [BETWEEN, CODES], [[[1, 0], [1, 0]], [[0, 3.5], [0, -1.5]]]),
    (Ceil(), MINIMUM_NORM, [0.0, 1.0, 0.5], [0, 0, 0]),
    (Ceil(), STE, [0.0, 1.0, 0.5], [1, 1, 1]),
    (Ceil(0.5, -1.0, 1.0), STE, [-1.0, 1.0, 3.0, -3.0], [1, 1, 0, 0]),
    (Ceil(0.5, -1.0, 1.0), Rewrite(), [0.75, -1.25, 1.0, -1.5], [1, 1, 0, 0]),  # x + 1/4 is a bound, then outside
    (Trunc(), MINIMUM_NORM, [0.0, 1.0, -1.0, 0.5], [0, 0, 0, 0]),
    (Trunc(), STE, [0.0, 1.0, -1.0, 0.5], [1, 1, 1, 1]),
    (Trunc(), Rewrite(), [0.5, -0.5, 0.0, 1.0, -1.0], [0, 0, 0, 1, 1]),
    # clip masks: on the unrounded value; bounds inclusive, or strict where the paper says so
    (Quantize(), MINIMUM_NORM, [0.0, 1.0, 1 / 30, 0.5], [0, 0, 0, 0]),
    (Quantize(), STE, [0.0, 1.0, -0.01, 1.01, UP, DOWN], [1, 1, 0, 0, 0, 1]),
    (Quantize(2, -1.0, 1.0), STE, [-1.0, 1.0, -UP, UP, 0.0], [1, 1, 0, 0, 1]),
    (Quantize(2, -1.0, 1.0, "strict"), STE, [-1.0, 1.0, -UP, UP, DOWN, 0.0], [0, 0, 0, 0, 1, 1]),
    (Quantize(2, 0.0, 3.0, "strict"), STE, [0.0, 3.0, 3.2, 2.9], [0, 0, 0, 1]),  # 3.2 rounds to 3, it is outside
    (Quantize(2, 0.0, 3.0), STE, [0.0, 3.0, 3.2, 2.9], [1, 1, 0, 1]),
    (Quantize(), IDENTITY, [0.0, 1.0, 2.0, -1.0], [1, 1, 1, 1]),
    (Quantize(1, -1.0, 1.0), CLIPPED, [1.0, -1.0, UP], [1, 1, 0]),
]


def run(op: Op, strategy: Strategy, given: list, dtype: torch.dtype) -> list[Tensor]:
    columns = given if isinstance(given[0], list) else [given]
    x = [torch.tensor(column, dtype=dtype) for column in columns]
    shape = strategy.noise_shape(op, *x)
    noise = None if shape is None else torch.full(shape, 0.5, dtype=dtype)
    return [g for g in gradients(lambda *i: strategy(op, *i, T=1.0, noise=noise), x) if g is not None]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_every_rule_at_every_kink_and_tie_is_the_one_in_the_table(dtype: torch.dtype) -> None:
    for op, strategy, given, expected in TABLE:
        if type(op) is ArgMax and isinstance(strategy, Rewrite):
            (got,) = gradients(
                lambda x, op=op, strategy=strategy: strategy(op, x)[..., 0], [torch.tensor(given).to(dtype)]
            )
            assert got.tolist() == expected, (op, strategy)
            continue
        got = run(op, strategy, given, dtype)
        want = torch.tensor(expected, dtype=dtype)
        want = list(want) if isinstance(expected[0], list) else [want]
        assert len(got) == len(want), (op, strategy)
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g, w, msg=f"{op} {strategy}: got {g.tolist()}, stated {w.tolist()}")
    assert len(TABLE) >= 137


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALF], ids=str)
def test_clip_masks_end_exactly_at_the_bound(dtype: torch.dtype) -> None:
    """Case D05.

    The bound itself and its two neighbours in the dtype, for bounds that it holds and bounds that it rounds.
    """
    ran = 0
    for low, high in ((-1.0, 1.0), (0.0, 1.0), (0.1, 0.7), (-0.3, 1e-3), (-1e4, 3e4)):
        bounds = torch.tensor([low, high], dtype=dtype)
        ends = torch.tensor([-math.inf, math.inf], dtype=dtype)
        x = torch.stack([torch.nextafter(bounds, ends), bounds, torch.nextafter(bounds, ends.flip(0))])
        for bound, inside in (("inclusive", [0, 1, 1]), ("strict", [0, 0, 1])):
            quantize = Quantize(2, low, high, bound)
            (got,) = gradients(lambda x, op=quantize: STE(op, x), [x])
            assert got.t().tolist() == [inside] * 2, (low, high, bound)
            ran += 1
        (got,) = gradients(lambda x, w=high: StraightThrough(carrier="clipped", width=w)(Sign(), x), [x[:, 1]])
        assert got.tolist() == [0, 1, 1]
        clamp = Clamp(low, high)
        (got,) = gradients(lambda x, op=clamp: MINIMUM_NORM(op, x), [x])
        assert got.t().tolist() == [[0, 0, 1]] * 2
    assert ran == 10


def test_a_flat_derivative_stays_zero_for_infinite_incoming_gradients() -> None:
    ran = 0
    for op in OPS:
        x = sample(op, (4, 4))
        if torch.equal(op.hard(*x), op.hard(*(t + 1e-7 * (-1) ** i for i, t in enumerate(x)))):  # flat
            weight = torch.full_like(op.hard(*x), math.inf)
            for got in gradients(lambda *i, op=op: MINIMUM_NORM(op, *i), x, weight):
                assert (got == 0).all(), op
            ran += 1
    assert ran >= 14


def test_an_op_in_the_table_is_there_with_every_rule() -> None:
    stated = {type(op) for op, *_ in TABLE}
    assert len(stated) >= 11
    reached = {(type(op), s.rule) for op, s, *_ in TABLE if isinstance(s, Subgradient)}
    assert reached == {(cls, rule) for cls in stated for rule in cls.rules}


@each("op", OPS)
def test_a_rule_that_an_op_does_not_have_is_an_empty_cell(op: Op) -> None:
    for rule in {"minimum_norm", "left", "right", "first"} - set(op.rules):
        with pytest.raises(EmptyCell, match=f"{type(op).__name__} has no rule '{rule}'.*minimum_norm"):
            Subgradient(rule=rule).check(op)


@pytest.mark.parametrize("kernel", KERNELS)
def test_smooth_readings_at_the_kinks_of_the_op(kernel: str) -> None:
    """At a kink or jump of the op the smooth reading has the slope that the symmetry of the noise demands."""
    strategy = Smooth(kernel=kernel)
    peak = KERNELS[kernel].density(torch.zeros((), dtype=torch.float64)).item()
    stated: list[tuple[Op, list, list]] = [
        (Heaviside(), [0.0, -0.0], [peak, peak]),
        (Sign(), [0.0, -0.0], [2 * peak, 2 * peak]),
    ]
    if KERNELS[kernel].has_mean:
        stated += [
            (ReLU(), [0.0, -0.0], [0.5, 0.5]),
            (Abs(), [0.0, -0.0], [0, 0]),
            (Maximum(), [[1.0, 0.0], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]),
        ]
    for op, given, expected in stated:
        got = run(op, strategy, given, torch.float64)
        want = torch.tensor(expected, dtype=torch.float64)
        for g, w in zip(got, list(want) if isinstance(expected[0], list) else [want], strict=True):
            torch.testing.assert_close(g, w)
    x = torch.tensor([0.0, 1.0, 0.5], dtype=torch.float64)
    h = 1e-6
    for op in (Clamp(), Quantize(2), Floor(0.5, -1.0, 1.0)):
        (got,) = gradients(lambda x, op=op: strategy(op, x, T=0.7), [x])
        expected = (strategy(op, x + h, T=0.7) - strategy(op, x - h, T=0.7)) / (2 * h)
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kernel", [name for name, kernel in KERNELS.items() if kernel.has_mean])
def test_second_derivatives_at_the_kinks_of_the_op(kernel: str) -> None:
    """d^2 E[relu(x + e)] = density, also at exactly 0; |x| twice that, maximum in both inputs."""
    strategy = Smooth(kernel=kernel)
    peak = KERNELS[kernel].density(torch.zeros((), dtype=torch.float64))
    zero = torch.zeros((), dtype=torch.float64)
    for op, factor in ((ReLU(), 1), (Abs(), 2)):
        second = torch.func.grad(torch.func.grad(lambda x, op=op: strategy(op, x, T=1.0)))(zero)
        torch.testing.assert_close(second, factor * peak)
    hessian = torch.func.hessian(lambda ab: strategy(Maximum(), ab[0], ab[1], T=1.0))(zero.expand(2).clone())
    torch.testing.assert_close(hessian, peak * torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64))


# graft's contract


def numbers(count: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(count, generator=generator(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("magnitude", [1e-20, 1e-3, 1.0, 1e3, 1e20, 1e30])
def test_the_value_is_bit_exact_whatever_the_carriers_magnitude(magnitude: float) -> None:
    """Case B01."""
    value = numbers(100_000)
    carrier = (numbers(100_000, seed=1) * magnitude).requires_grad_()
    y = graft(value.clone(), carrier)
    assert torch.equal(y, value)
    assert torch.equal(y.view(torch.int32), value.view(torch.int32))  # the sign of zero too
    weight = numbers(100_000, seed=2)
    (got,) = torch.autograd.grad(y, carrier, weight)
    assert torch.equal(got, weight)


def test_a_quantizer_keeps_its_sixteen_levels() -> None:
    """Case B01."""
    s = 0.1
    x = (numbers(200_000) * 10).requires_grad_()
    q = ((x / s).round().clamp(-8, 7) * s).detach()
    assert q.unique().numel() == 16
    assert (x + (q - x).detach()).unique().numel() > 16  # the popular form
    assert graft(q, x).unique().numel() == 16


def test_shapes_must_be_equal() -> None:
    with pytest.raises(ValueError, match=r"equal shapes, got value \(2, 3\) and carrier \(3,\)"):
        graft(torch.zeros(2, 3), torch.zeros(3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALF], ids=str)
def test_the_value_gives_the_dtype_and_the_carrier_that_of_its_gradient(dtype: torch.dtype) -> None:
    for other in (torch.float64, torch.float32, *HALF):
        carrier = torch.ones(5, dtype=other, requires_grad=True)
        y = graft(torch.arange(5, dtype=dtype), carrier)
        assert y.dtype == dtype
        (gradient,) = torch.autograd.grad(y.sum(), carrier)
        assert gradient.dtype == other
        assert (gradient == 1).all()
        tangent = torch.func.jvp(
            lambda c: graft(torch.arange(5).to(dtype), c), (carrier.detach(),), (torch.ones_like(carrier),)
        )
        assert tangent[1].dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, *HALF], ids=str)
def test_where_the_carrier_is_infinite_the_derivative_is_zero_and_the_value_stays(dtype: torch.dtype) -> None:
    """Contiguous and strided, long enough for vectors and tails, with finite and infinite incoming gradients."""
    pattern = torch.tensor([1.0, math.inf, -math.inf, 5.0, -2.0, 0.0, -math.inf], dtype=dtype)
    for count in (1, 3, 40):
        flat = pattern.repeat(count)
        alive = flat.isfinite().to(dtype)
        layouts = {
            "contiguous": flat.clone(),
            "transposed": pattern.repeat(count, 1).t().contiguous().t(),
            "strided": flat.repeat_interleave(2)[::2],
            "expanded": pattern.expand(count, 7),
        }
        for name, carrier in layouts.items():
            alive_here = alive.view(carrier.shape)
            for incoming in (1.0, math.inf):
                leaf = carrier.detach().requires_grad_()
                value = torch.full(carrier.shape, 3.0, dtype=dtype)
                y = graft(value, leaf)
                (got,) = torch.autograd.grad(y, leaf, torch.full_like(value, incoming))
                expected = torch.where(alive_here > 0, torch.tensor(incoming, dtype=dtype), 0)
                assert torch.equal(y, torch.full_like(y, 3.0)), name
                assert torch.equal(got, expected), (name, incoming)
            forward = carrier.clone() if name == "expanded" else carrier  # forward mode refuses overlapping inputs
            _, tangent = torch.func.jvp(lambda c, value=value: graft(value, c), (forward,), (torch.ones_like(forward),))
            assert torch.equal(tangent, alive_here), name


def test_infinite_and_nan_values_stay() -> None:
    value = torch.tensor([math.inf, -math.inf, math.nan, -0.0])
    y = graft(value.clone(), torch.ones(4, requires_grad=True))
    assert y[0] == math.inf
    assert y[1] == -math.inf
    assert y[2].isnan()
    assert torch.signbit(y[3])


def test_results_can_be_changed_in_place() -> None:
    """What follows a layer may work in place, as nn.ReLU(inplace=True) does, and nothing else changes with it."""
    x = numbers(50)

    def grafted(x: Tensor) -> Tensor:
        return graft(torch.sign(x).detach(), torch.tanh(x))

    pairs = {
        "relu": (lambda y: y.relu_(), lambda y: y.relu()),
        "add": (lambda y: y.add_(1.0), lambda y: y + 1.0),
        "mul": (lambda y: y.mul_(3.0), lambda y: y * 3.0),
        "slice": (lambda y: (y[:10].zero_(), y)[1], lambda y: torch.cat([0 * y[:10], y[10:]])),
    }
    for name, (inside, outside) in pairs.items():
        before = x.clone()
        (got,) = gradients(lambda x, f=inside: f(grafted(x)).sin().sum(), [x])
        (expected,) = gradients(lambda x, f=outside: f(grafted(x)).sin().sum(), [x])
        torch.testing.assert_close(got, expected, msg=name)
        torch.testing.assert_close(inside(grafted(x)), outside(grafted(x)), msg=name)
        assert torch.equal(x, before)
        mapped = torch.func.vmap(torch.func.grad(lambda x, f=inside: f(grafted(x)).sin().sum()))(x.view(5, 10))
        assert mapped.shape == (5, 10)


@law(lambda cell: cell.hard_valued)  # soft values follow plain torch's rules
def test_every_cell_can_be_changed_in_place_downstream(part: Part) -> None:
    op = part.op
    ran = 0
    for cell in part.cells:
        x = sample(op, (4, 4))
        before = [t.clone() for t in x]
        inside = gradients(lambda *i, cell=cell: cell(*i).mul_(3.0).sin().sum(), x)
        outside = gradients(lambda *i, cell=cell: (cell(*i) * 3.0).sin().sum(), x)
        for a, b in zip(inside, outside, strict=True):
            torch.testing.assert_close(a, b, msg=repr(cell))
        assert all(torch.equal(t, b) for t, b in zip(x, before, strict=True)), cell
        ran += 1
    assert ran == len(part.cells)


@pytest.mark.parametrize("dims", [(None, 1), (1, None), (1, 1)], ids=str)
def test_under_vmap_each_example_has_a_value_and_a_carrier_of_its_own(dims: tuple[int | None, int | None]) -> None:
    """What all share would get the sum of their gradients, and be changed for all of them."""
    batch = numbers(15).view(3, 5)
    value, carrier = (t[:, 0] if dim is None else t for t, dim in zip((batch.sign(), 0.1 * batch), dims, strict=True))
    leaf = carrier.clone().requires_grad_()
    y = torch.func.vmap(lambda v, c: graft(v, c.sin()).mul_(3.0), dims, out_dims=1)(value.clone(), leaf)
    assert torch.equal(y, 3.0 * (value if dims[0] else value.unsqueeze(1).expand(3, 5)))
    (got,) = torch.autograd.grad((batch * y).sum(), leaf)
    expected = 3.0 * batch * (carrier.cos() if dims[1] else carrier.cos().unsqueeze(1))
    torch.testing.assert_close(got, expected if dims[1] else expected.sum(1))


def test_a_parameter_is_not_written_through() -> None:
    parameter = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
    y = graft(parameter, parameter * 5)
    y.add_(1.0)
    assert parameter.tolist() == [2.0, 3.0]
    y.sum().backward()
    assert parameter.grad.tolist() == [5.0, 5.0]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_eager_and_compiled_form_agree(dtype: torch.dtype) -> None:
    """Case B02.

    The arithmetic form that the compiler sees against the Function, values and derivatives, infinities included.
    """
    x = torch.cat([(numbers(1000) * 100).to(dtype), torch.tensor([0.0, -0.0, math.inf, -math.inf]).to(dtype)])

    def f(x: Tensor) -> Tensor:
        return graft(torch.where(x >= 0, 1.0, -1.0).to(x.dtype).detach(), x * 2)

    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    assert set(f(x).tolist()) == {-1.0, 1.0}
    assert torch.equal(compiled(x), f(x))
    for function in (f, compiled):
        leaf = x.clone().requires_grad_()
        (got,) = torch.autograd.grad(function(leaf).sum(), leaf)
        assert (got[:-2] == 2).all()
        assert (got[-2:] == 0).all()
    mapped = torch.compile(torch.func.vmap(torch.func.grad(lambda x: f(x).sum())), fullgraph=True, backend="aot_eager")
    assert torch.equal(mapped(x.unsqueeze(1)).squeeze(1), got)


def test_the_popular_form_differs_from_the_hard_value() -> None:
    """Why graft exists: in bfloat16 a sign by add and subtract has values that are not signs."""
    x = (numbers(100_000) * 100).bfloat16()
    sign = torch.where(x >= 0, 1.0, -1.0).to(x.dtype)
    assert len((x + (sign - x).detach()).unique()) > 2
    assert len(graft(sign, x).unique()) == 2
