"""through on torch's own sample inputs: the same bits, classes and errors inside the block as outside."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import islice, product
from typing import Any

import pytest
import torch
from outcomes import assert_unchanged
from torch import Tensor
from torch.utils._pytree import tree_map

from each import each
from surrogates.own_model.calls import COMPARISONS, DRAWS, ELEMENTWISE, INDICES, SELECTION, functions
from surrogates.strategies.ste import StraightThrough

TABLES = ELEMENTWISE | SELECTION | COMPARISONS | INDICES | DRAWS
NAMES = sorted({name for group in TABLES.values() for name in group})
OPERATORS = {"__floordiv__": "floor_divide", "__rfloordiv__": "floor_divide"}
WITHOUT_SAMPLES = {"fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine"}


def samples() -> dict[str, list[Any]]:
    """torch's descriptions of its functions, by function name."""
    pytest.importorskip("expecttest", reason="torch's sample inputs import it")
    from torch.testing._internal.common_methods_invocations import op_db  # torch has no public list of sample inputs

    found = defaultdict(list)
    for op in op_db:
        for name in {op.name, *(alias.name for alias in op.aliases)}:
            found[name.rpartition(".")[2]].append(op)
    return found


def calls(op: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The arguments of the first samples in two dtypes, and of the calls that torch must refuse."""
    for dtype in {torch.float64, torch.bfloat16} & set(op.dtypes):
        small = (s for s in op.sample_inputs("cpu", dtype, requires_grad=True) if s.input.numel() <= 500)
        for sample in islice(small, 12):
            yield (sample.input, *sample.args), sample.kwargs
    for refused in op.error_inputs("cpu") if op.error_inputs_func else ():
        yield (refused.sample_input.input, *refused.sample_input.args), refused.sample_input.kwargs


def renewed(x: Any) -> Any:
    return tree_map(lambda t: t.clone() if isinstance(t, Tensor) else t, x)


@pytest.mark.nightly  # the import alone takes ten seconds
@pytest.mark.filterwarnings("ignore")
def test_torch_s_own_sample_inputs() -> None:
    known = samples()

    @each("name", NAMES)
    def check(name: str) -> None:
        found = known[name] or known[OPERATORS.get(name, name.strip("_"))]
        assert bool(found) != (name in WITHOUT_SAMPLES)
        given = [arguments for op in found for arguments in calls(op)]
        for (function, _), arguments in product(functions(name), given):
            assert_unchanged(StraightThrough(temperature=0.7), function, partial(renewed, arguments))

    check()
