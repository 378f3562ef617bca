"""Kinks and jumps of elementwise operations."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from surrogates.kink_probes.probe import Probe, probe
from surrogates.ops.abs import Abs
from surrogates.ops.ceil import Ceil
from surrogates.ops.clamp import Clamp
from surrogates.ops.floor import Floor
from surrogates.ops.heaviside import Heaviside
from surrogates.ops.maximum import Maximum
from surrogates.ops.minimum import Minimum
from surrogates.ops.relu import ReLU
from surrogates.ops.round import Round
from surrogates.ops.sign import Sign
from surrogates.ops.trunc import Trunc

ZERO = (0.0,)
SELU = 1.0507009873554805  # the slope on the right; on the left it is 1.758

KINKS = [
    probe("abs", "0", torch.abs, ZERO, "minimum norm", (0,), ours=Abs()),
    probe("abs", "-0", torch.abs, (-0.0,), "minimum norm", (0,), ours=Abs()),
    probe("relu", "0", torch.relu, ZERO, "minimum norm", (0,), ours=ReLU()),
    probe("leaky_relu, slope 0.25", "0", lambda x: F.leaky_relu(x, 0.25), ZERO, "minimum norm", (0.25,)),
    probe("leaky_relu, slope 2", "0", lambda x: F.leaky_relu(x, 2.0), ZERO, "minimum norm", (1,)),
    probe("elu, alpha 2", "0", lambda x: F.elu(x, 2.0), ZERO, "minimum norm", (1,)),
    probe("celu, alpha 2", "0", lambda x: F.celu(x, 2.0), ZERO, "differentiable", (1,)),
    probe("selu", "0", F.selu, ZERO, "minimum norm", (SELU,)),
    Probe("prelu", "0; w = 0.25", F.prelu, (ZERO, (0.25,)), "minimum norm", (((0.25,), (0.0,)),)),
    probe("clamp, numbers", "both bounds", lambda x: x.clamp(0, 1), (0.0, 1.0), "minimum norm", (0, 0), ours=Clamp()),
    probe("clamp, min only", "the bound", lambda x: x.clamp(min=0), ZERO, "minimum norm", (0,), ours=ReLU()),
    Probe(
        "clamp, tensors", "lower bound", torch.clamp, (ZERO, ZERO, (1.0,)), "minimum norm",
        (((0.5,), (0.5,), (0.0,)),),
    ),
    Probe(
        "clamp, tensors", "upper bound", torch.clamp, ((1.0,), ZERO, (1.0,)), "minimum norm",
        (((0.5,), (0.0,), (0.5,)),),
    ),
    probe("hardtanh", "both bounds", F.hardtanh, (-1.0, 1.0), "minimum norm", (0, 0), ours=Clamp(-1.0, 1.0)),
    probe("relu6", "both bounds", F.relu6, (0.0, 6.0), "minimum norm", (0, 0), ours=Clamp(0.0, 6.0)),
    probe("hardsigmoid", "-3 and 3", F.hardsigmoid, (-3.0, 3.0), "minimum norm", (0, 0)),
    probe("hardswish", "-3 and 3", F.hardswish, (-3.0, 3.0), "minimum norm", (0, 1)),
    probe("softshrink, 0.5", "-0.5 and 0.5", F.softshrink, (-0.5, 0.5), "minimum norm", (0, 0)),
    probe("logit, eps 0.25", "0.25", lambda x: torch.logit(x, 0.25), (0.25,), "minimum norm", (0,)),
    Probe("copysign", "0, sign of 1", torch.copysign, (ZERO, (1.0,)), "minimum norm", (((0.0,), (0.0,)),)),
    probe("l1_loss", "target", lambda x: F.l1_loss(x, torch.zeros_like(x)), ZERO, "minimum norm", (0,), ours=Abs()),
    probe(
        "margin_ranking_loss",
        "the margin",
        lambda x: F.margin_ranking_loss(x, torch.zeros_like(x), torch.ones_like(x)),
        ZERO,
        "minimum norm",
        (0,),
    ),
    Probe(
        "maximum", "a tie", torch.maximum, ((1.0,), (1.0,)), "minimum norm", (((0.5,), (0.5,)),), ours=Maximum()
    ),
    Probe(
        "minimum", "a tie", torch.minimum, ((1.0,), (1.0,)), "minimum norm", (((0.5,), (0.5,)),), ours=Minimum()
    ),
    Probe("fmax", "a tie", torch.fmax, ((1.0,), (1.0,)), "minimum norm", (((0.5,), (0.5,)),), ours=Maximum()),
    Probe("fmin", "a tie", torch.fmin, ((1.0,), (1.0,)), "minimum norm", (((0.5,), (0.5,)),), ours=Minimum()),
]  # fmt: skip

JUMPS = [
    probe("sign", "0", torch.sign, ZERO, "continuity", (0,), ours=Sign()),
    probe("round", "0.5", torch.round, (0.5,), "continuity", (0,), ours=Round()),
    probe("floor", "1", torch.floor, (1.0,), "continuity", (0,), ours=Floor()),
    probe("ceil", "1", torch.ceil, (1.0,), "continuity", (0,), ours=Ceil()),
    probe("trunc", "1", torch.trunc, (1.0,), "continuity", (0,), ours=Trunc()),
    probe("frac", "1", torch.frac, (1.0,), "continuity", (1,)),
    Probe(
        "remainder", "1, divisor 1", torch.remainder, ((1.0,), (1.0,)), "continuity",
        (((1.0,), (-1.0,)), ((1.0,), (0.0,))),
    ),
    Probe("fmod", "1, divisor 1", torch.fmod, ((1.0,), (1.0,)), "continuity", (((1.0,), (-1.0,)), ((1.0,), (0.0,)))),
    probe("//", "1, divisor 1", lambda x: x // 1.0, (1.0,), "continuity", (0,), ours=Floor()),
    probe(
        "div, rounding floor", "1, divisor 1", lambda x: torch.div(x, 1.0, rounding_mode="floor"), (1.0,),
        "continuity", (0,), ours=Floor(),
    ),
    probe(
        "heaviside", "0", lambda x: torch.heaviside(x, torch.full_like(x, 0.5)), ZERO, "continuity", (0,),
        ours=Heaviside(),
    ),
    probe("hardshrink, 0.5", "0.5", F.hardshrink, (0.5,), "continuity", (0,), (1,)),
    probe("threshold, 0.5", "0.5", lambda x: F.threshold(x, 0.5, 0.0), (0.5,), "continuity", (0,), (1,)),
]  # fmt: skip
