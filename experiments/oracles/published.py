"""Published numbers to reproduce (Hooper & Shekhovtsov 2026, AISTATS)."""

from __future__ import annotations

from torch import Tensor

TAU = 1.3003003  # ReinMax's temperature
CATEGORICAL = {  # squared bias and variance, after rescaling, by (dim, seed): straight-through, ZGR, ReinMax at TAU
    (4, 0): ((0.2781, 0.7724), (0.0, 13.786), (0.03601, 4.3759)),
    (4, 1): ((0.08107, 0.2701), (0.0, 1.5338), (0.009086, 1.7646)),
    (4, 2): ((0.1150, 0.2836), (0.0, 5.3287), (0.01433, 3.5506)),
    (8, 0): ((2.745, 17.852), (0.0, 77.528), (0.06006, 80.16)),
    (8, 1): ((1.816, 13.738), (0.0, 53.071), (0.04413, 60.908)),
    (8, 2): ((0.2593, 2.3854), (0.0, 48.50), (0.04751, 46.632)),
}
DRAWS = 1000  # a category, behind each number of SAMPLED
SAMPLED = {  # the same for dim 8, seed 0, of Gumbel-Rao by (samples, temperature); of one sample: ST Gumbel-softmax
    (1, 1.0): (0.645, 85.0),
    (1, 0.5): (0.168, 141.0),
    (1, 0.1): (0.084, 500.0),
    (100, 1.0): (0.679, 71.0),
    (100, 0.5): (0.184, 84.0),
    (100, 0.1): (0.005, 85.0),
}
TRACES = {  # the toy's training loss for q = 1.5, 2, 3 in its first and its last epoch
    "straight-through": ((0.2154, 0.1452, 0.0690), (0.2272, 0.1480, 0.0688)),
    "ReinMax": ((0.2098, 0.1401, 0.0659), (0.0152, 0.0043, 0.0007)),
}


def agrees(measured: float, published: float) -> bool:
    """Whether the measured number agrees with the digits of the published one."""
    return abs(measured - published) <= 0.6 * 10.0 ** -_decimals(published)


def is_repetition(repeated: Tensor, published: float) -> bool:
    """Whether a published sampled number lies within three deviations of these repetitions, plus its rounding."""
    rounding = 0.5 * 10.0 ** -len(f"{published:g}".partition(".")[2])
    return bool((published - repeated.mean()).abs() <= 3 * repeated.std() + rounding)


def _decimals(published: float) -> int:
    return max(1, len(f"{published:g}".partition(".")[2]))
