"""Hard calls without an op: the reason in the report for each, and the words that make a call hard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surrogates.own_model.calls import Call, by_function
from surrogates.own_model.tracking import is_recorded, tensors

FLAT = "no op; its result has no derivative"
OWN = "no op; it keeps torch's own derivative"
PYTHON = "it passes the numbers to Python"
COMPARE = "no op; write it with comparisons such as x == a, which are replaced"
LOGIC = "logic on floats has no op; write x != 0, which is replaced"
POSITIONS = "no op returns these indices; without return_indices it is replaced"

REASONS: dict[str, tuple[str, ...]] = {
    FLAT: ("bincount", "nonzero", "sgn", "signbit", "unique", "unique_consecutive"),
    OWN: (
        "cummax", "cummin", "fmax", "fmin", "fmod", "frac", "index_reduce", "max_pool3d", "adaptive_max_pool3d",
        "mode", "remainder", "rrelu", "scatter_reduce",
    ),
    PYTHON: ("item", "tolist", "__bool__", "__float__", "__int__", "__index__"),
    COMPARE: ("isclose", "isin"),
    LOGIC: ("logical_and", "logical_not", "logical_or", "logical_xor"),
    "no op; for a mask m write 1 - (1 - m.float()).prod(), which is replaced": ("any",),
    "no op; for a mask m write m.float().prod(), which is replaced": ("all",),
    "no op; write (x != 0).sum(), which is replaced": ("count_nonzero",),
    POSITIONS: (
        "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices", "max_pool1d_with_indices",
        "max_pool2d_with_indices",
    ),
    "entries beyond the range are dropped; use the op histogram, which counts them in the outer bins": (
        "histc", "histogram",
    ),
    "no op; convert replaces the layer of torch.ao that calls it": ("fused_moving_avg_obs_fake_quant",),
    "it ignores NaN; use quantile or median without NaN, which are replaced": ("nanmedian", "nanquantile"),
    "a sample has no op; write (torch.rand_like(p) < p).float(), which is replaced": ("bernoulli",),
    "a sample has no op; write (p.log() - torch.empty_like(p).exponential_().log()).argmax(-1), which is replaced": (
        "multinomial",
    ),
    "a sample has no op": ("binomial", "poisson"),
    "mode='nearest' has no op; use mode='bilinear'": ("grid_sample",),
}  # fmt: skip
HARD_WITH = {
    "grid_sample": ("nearest",), "index_reduce": ("amax", "amin"), "scatter_reduce": ("amax", "amin"),
}  # fmt: skip
SAMPLES = ("bernoulli", "binomial", "multinomial", "poisson")
UNSUPPORTED = by_function(REASONS)
REASONS_OF_USES = {function: call.meaning for function, call in UNSUPPORTED.items() if call.meaning != OWN}


def without_op(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call | None:
    """The call, with the reason as its meaning, if it is a hard one without an op and its inputs need a gradient.

    A sample is one even in a `no_grad` block, as torch.distributions draws it there.
    """
    call = UNSUPPORTED.get(function)
    if call is None:
        return None
    given = [*args, *kwargs.values()]
    words = HARD_WITH.get(call.name.rstrip("_"))
    if words and not any(isinstance(x, str) and x in words for x in given):
        return None
    wanted = any(x.requires_grad if call.name in SAMPLES else is_recorded(x) for x in tensors(given))
    return call if wanted else None
