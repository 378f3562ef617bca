"""Hard calls without an op: the reason in the report for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surrogates.own_model.calls import Call, by_function, has_hard_word
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
        "cummax", "cummin", "fmax", "fmin", "fmod", "frac", "max_pool3d", "adaptive_max_pool3d",
        "mode", "remainder", "rrelu",
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
    "no op; convert replaces the layer of torch.ao that calls it": ("fused_moving_avg_obs_fake_quant",),
    "it ignores NaN; use quantile or median without NaN, which are replaced": ("nanmedian", "nanquantile"),
    "drawn under torch.no_grad, as in Bernoulli.sample of torch.distributions": ("bernoulli", "multinomial"),
    "a sample has no op": ("binomial", "poisson"),
    "mode='nearest' has no op; use mode='bilinear'": ("grid_sample",),
}  # fmt: skip
SAMPLES = ("bernoulli", "binomial", "multinomial", "poisson")
UNSUPPORTED = by_function(REASONS)
REASONS_OF_USES = {function: call.meaning for function, call in UNSUPPORTED.items() if call.meaning != OWN}


def without_op(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call | None:
    """The call, with the reason as its meaning, if it is hard, has no op, and an input requires a gradient; else None.

    A draw is such a call in a `no_grad` block too, because torch.distributions draws there.
    """
    call = UNSUPPORTED.get(function)
    given = [*args, *kwargs.values()]
    if call is None or not has_hard_word(call, given):
        return None
    wanted = any(x.requires_grad if call.name in SAMPLES else is_recorded(x) for x in tensors(given))
    return call if wanted else None
