"""Ties of operations over a dim; norms and products at 0."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from surrogates.kink_probes.probe import Probe, probe
from surrogates.ops.max import Max
from surrogates.ops.min import Min
from surrogates.ops.top_k import TopK

TIE, LOW, MIDDLE = (2.0, 2.0, 1.0), (1.0, 1.0, 2.0), (1.0, 2.0, 2.0)  # of the largest, the smallest, the middle entry
SHARED, SHARED_MIDDLE = (0.5, 0.5, 0.0), (0.0, 0.5, 0.5)
SAME = torch.tensor([0, 0, 0])


def _smallest(x: Tensor) -> Tensor:
    return x.sort().values[0]


TIES = [
    probe("max()", "2 2 1", torch.max, TIE, "op's page", SHARED, ours=Max()),
    probe("min()", "1 1 2", torch.min, LOW, "op's page", SHARED, ours=Min()),
    probe("amax", "2 2 1", torch.amax, TIE, "op's page", SHARED, ours=Max()),
    probe("amin", "1 1 2", torch.amin, LOW, "op's page", SHARED, ours=Min()),
    probe("max(dim)", "2 2 1", lambda x: x.max(0).values, TIE, "op's page", (1, 0, 0), ours=Max()),
    probe("min(dim)", "1 1 2", lambda x: x.min(0).values, LOW, "op's page", (1, 0, 0), ours=Min()),
    probe("aminmax, the max", "2 2 1", lambda x: x.aminmax().max, TIE, "minimum norm", SHARED, ours=Max()),
    probe("topk, k = 1", "2 2 1", lambda x: x.topk(1).values, TIE, "minimum norm", SHARED, ours=TopK(1)),
    probe("sort, first value", "1 1 2", _smallest, LOW, "minimum norm", SHARED, ours=Min()),
    probe("median()", "1 2 2", torch.median, MIDDLE, "minimum norm", SHARED_MIDDLE),
    probe("median(dim)", "1 2 2", lambda x: x.median(0).values, MIDDLE, "op's page", (0, 1, 0), (0, 0, 1)),
    probe("kthvalue, k = 2", "1 2 2", lambda x: x.kthvalue(2).values, MIDDLE, "minimum norm", SHARED_MIDDLE),
    probe("quantile, 0.5", "1 2 2", lambda x: x.quantile(0.5), MIDDLE, "minimum norm", SHARED_MIDDLE),
    probe("cummax, last value", "2 2 1", lambda x: x.cummax(0).values[-1], TIE, "minimum norm", SHARED, ours=Max()),
    probe("max_pool1d", "2 2 1", lambda x: F.max_pool1d(x[None], 3), TIE, "minimum norm", SHARED, ours=Max()),
    probe(
        "adaptive_max_pool1d", "2 2 1", lambda x: F.adaptive_max_pool1d(x[None], 1), TIE, "minimum norm", SHARED,
        ours=Max(),
    ),
    probe(
        "scatter_reduce, amax", "2 2 1", lambda x: x.new_zeros(1).scatter_reduce(0, SAME, x, "amax"), TIE,
        "minimum norm", SHARED, ours=Max(),
    ),
    probe("inf-norm", "3 -3 1", lambda x: torch.linalg.vector_norm(x, math.inf), (3.0, -3.0, 1.0), "minimum norm",
          (0.5, -0.5, 0)),
]  # fmt: skip

TIPS = [
    probe("2-norm", "0 0", torch.linalg.vector_norm, (0.0, 0.0), "minimum norm", (0, 0)),
    probe("1-norm", "0 1", lambda x: torch.linalg.vector_norm(x, 1), (0.0, 1.0), "minimum norm", (0, 1)),
    Probe(
        "cdist", "equal points", lambda a, b: torch.cdist(a[None], b[None]), ((1.0, 2.0), (1.0, 2.0)), "minimum norm",
        (((0.0, 0.0), (0.0, 0.0)),),
    ),
    Probe("hypot", "0, 0", torch.hypot, ((0.0,), (0.0,)), "minimum norm", (((0.0,), (0.0,)),)),
    probe("std", "1 1", torch.std, (1.0, 1.0), "minimum norm", (0, 0)),
    probe("prod", "0 3", torch.prod, (0.0, 3.0), "differentiable", (3, 0)),
]  # fmt: skip
