"""The ops that the meaning of a call may contain, by name."""

from __future__ import annotations

from typing import Any

FAKE_QUANTIZE = ("fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine")
CLIP_CALLS = ("clamp", "clamp_min", "clamp_max", "hardtanh", "relu6", "hardsigmoid", "hardswish", "softshrink")
GROUP_CALLS = ("scatter_reduce", "index_reduce")
# for each op: the meanings that contain it; a meaning that is not listed contains the op of its own name
CONTAIN: dict[str, tuple[str, ...]] = {
    "round": FAKE_QUANTIZE,
    "floor": ("floor_divide", "reversed_floor_divide", "div"),
    "trunc": ("div",),
    "relu": ("leaky_relu", "prelu"),
    "heaviside": ("threshold", "hardshrink"),
    "maximum": ("max", *CLIP_CALLS, *FAKE_QUANTIZE),
    "minimum": ("min", *CLIP_CALLS, *FAKE_QUANTIZE),
    "max": (
        "max",
        "amax",
        "aminmax",
        "max_pool1d",
        "max_pool2d",
        "adaptive_max_pool1d",
        "adaptive_max_pool2d",
        *GROUP_CALLS,
    ),
    "min": ("min", "amin", "aminmax", *GROUP_CALLS),
    "histogram": ("histc",),
    "top_k": ("topk",),
    "sort": ("msort", "kthvalue"),
}


def ops_of(meaning: Any) -> tuple[str, ...]:
    """The names of the ops that a meaning may contain."""
    name = getattr(meaning, "__name__", "")
    return tuple(op for op, meanings in CONTAIN.items() if name in meanings) or (name,)
