"""Edges of domains, results without a graph, random draws, conversions and NaN."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from surrogates.kink_probes.probe import NO_GRAPH, RAISES, Probe, probe
from surrogates.ops.abs import Abs
from surrogates.ops.argmax import ArgMax
from surrogates.ops.argmin import ArgMin
from surrogates.ops.heaviside import Heaviside
from surrogates.ops.quantize import Quantize
from surrogates.ops.sign import Sign

NAN, INF = (math.nan,), math.inf
EDGES = torch.tensor([0.0, 1.0])

DOMAINS = [
    probe("sqrt", "0", torch.sqrt, (0.0,), "continuity", (INF,)),
    probe("x ** 0.5", "0", lambda x: x**0.5, (0.0,), "continuity", (INF,)),
    probe("log", "0", torch.log, (0.0,), "continuity", (INF,)),
    probe("asin", "1", torch.asin, (1.0,), "continuity", (INF,)),
    probe("special.entr", "0", torch.special.entr, (0.0,), "continuity", (INF,)),
    probe("sinc", "0", torch.sinc, (0.0,), "differentiable", (0,)),
    probe("sqrt(square(x))", "0", lambda x: x.square().sqrt(), (0.0,), "composition", (0,), ours=Abs()),
    probe("where(x > 0, sqrt(x), x)", "-1", lambda x: torch.where(x > 0, x.sqrt(), x), (-1.0,), "composition", (1,)),
    probe("logsumexp", "-inf -inf", lambda x: x.logsumexp(0), (-INF, -INF), "undefined"),
]

WITHOUT_GRAPH = [
    probe("argmax", "1 2", torch.argmax, (1.0, 2.0), "integers", NO_GRAPH, ours=ArgMax()),
    probe("argmin", "1 2", torch.argmin, (1.0, 2.0), "integers", NO_GRAPH, ours=ArgMin()),
    probe("argsort", "1 2", torch.argsort, (1.0, 2.0), "integers", NO_GRAPH),
    probe("x > 0", "1", lambda x: x > 0, (1.0,), "integers", NO_GRAPH, ours=Heaviside()),
    probe("(x > 0).float()", "1", lambda x: (x > 0).float(), (1.0,), "integers", NO_GRAPH, ours=Heaviside()),
    probe("one_hot(x.long())", "1", lambda x: F.one_hot(x.long()), (1.0,), "integers", NO_GRAPH),
    probe("bucketize", "0.5", lambda x: torch.bucketize(x, EDGES), (0.5,), "integers", NO_GRAPH),
    probe("searchsorted", "0.5", lambda x: torch.searchsorted(EDGES, x), (0.5,), "integers", NO_GRAPH),
    probe("histc, 4 bins", "0.3", lambda x: torch.histc(x, 4, 0, 1), (0.3,), "differentiable", (0,)),
    probe("unique", "1 2", lambda x: torch.unique(x), (1.0, 2.0), "differentiable", (1, 1)),
    probe("bernoulli", "0.5", torch.bernoulli, (0.5,), "random", RAISES),
    probe("poisson", "0.5", torch.poisson, (0.5,), "random", RAISES),
    probe("masked_select(x, x > 1)", "0.5 2", lambda x: x.masked_select(x > 1), (0.5, 2.0), "differentiable", (0, 1)),
    probe("x[1:]", "1 2 3", lambda x: x[1:], (1.0, 2.0, 3.0), "differentiable", (0, 1, 1)),
]

CONVERSIONS = [
    probe("to bfloat16", "1.003", lambda x: x.bfloat16(), (1.003,), "differentiable", (0,)),
    probe("to float8_e4m3fn", "1.003", lambda x: x.to(torch.float8_e4m3fn).float(), (1.003,), "differentiable", (0,)),
    probe("to int32", "1.5", lambda x: x.int(), (1.5,), "integers", NO_GRAPH),
    probe(
        "fake_quantize, 4 bits", "0.51, 1.2",
        lambda x: torch.fake_quantize_per_tensor_affine(x, 1 / 15, 0, 0, 15), (0.51, 1.2), "differentiable", (0, 0),
        ours=Quantize(),
    ),
    probe(
        "fake_quantize, 4 bits", "0, 1",
        lambda x: torch.fake_quantize_per_tensor_affine(x, 1 / 15, 0, 0, 15), (0.0, 1.0), "differentiable", (0, 0),
        ours=Quantize(),
    ),
]  # fmt: skip

NOT_A_NUMBER = [
    probe("abs", "NaN", torch.abs, NAN, "undefined"),
    probe("relu", "NaN", torch.relu, NAN, "undefined"),
    probe("clamp, numbers", "NaN", lambda x: x.clamp(0, 1), NAN, "undefined"),
    probe("max()", "NaN 1", torch.max, (math.nan, 1.0), "undefined"),
    probe("amax", "NaN 1", torch.amax, (math.nan, 1.0), "undefined"),
    probe("nan_to_num", "NaN", torch.nan_to_num, NAN, "undefined"),
    probe("sign, its value", "NaN", torch.sign, NAN, "undefined", ours=Sign(), value=True),
    probe(
        "heaviside, its value", "NaN", lambda x: torch.heaviside(x, torch.full_like(x, 0.5)), NAN, "undefined",
        ours=Heaviside(), value=True,
    ),
]  # fmt: skip

PROBES: list[Probe] = [*DOMAINS, *WITHOUT_GRAPH, *CONVERSIONS, *NOT_A_NUMBER]
