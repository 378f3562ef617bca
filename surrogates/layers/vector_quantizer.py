"""Activations replaced in groups by codes of a learned codebook."""

import torch
from torch import Tensor, nn

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.float32 import require_count
from surrogates.hard_layer import HardLayer
from surrogates.ops.vector_quantize import VectorQuantize, nearest

PER_CODE = 64  # vectors of the first batch for each code, given to k-means
ROUNDS = 10  # of k-means
LARGEST = 2**26  # numbers in a codebook


class VectorQuantizer(Component):
    """Replaces each group of `size` neighbouring activations by the nearest of `entries` codes of that size.

    (batch, width, ...) to the same; on signals and images the groups are of channels, at each place.
    One codebook a layer, `codes` (entries, size). It learns from the task's loss, by the op's own derivative: a code
    receives the sum of the gradients of the groups that chose it; under `smooth`, of all groups by their shares. There
    is no codebook or commitment loss.
    Codes start as normal numbers from a fixed stream. `calibrate` sets them to the means that k-means finds in the
    groups of a first batch.
    Raises ValueError if entries or size is below 1.
    Raises ValueError in `check_width` if size does not divide the width.
    """

    def __init__(self, strategy: Strategy | str, entries: int = 64, size: int = 4) -> None:
        super().__init__()
        require_count(most=2**16, entries=entries, size=size)
        if entries * size > LARGEST:
            raise ValueError(f"entries times size must be at most {LARGEST}, got {entries} times {size}")
        self.size = size
        self.codes = nn.Parameter(torch.randn(entries, size, generator=torch.Generator().manual_seed(0)))
        self.quantize = HardLayer(VectorQuantize(), strategy)

    def check_width(self, width: int) -> None:
        """Raises ValueError if size does not divide the width."""
        if width % self.size:
            raise ValueError(f"size must divide the layer's {width} activations, got {self.size}")

    def forward(self, x: Tensor) -> Tensor:
        """The codes, in place of the groups."""
        output: Tensor = self.quantize(self._groups(x), self.codes.to(x.dtype))
        return output.movedim(-1, 2).flatten(1, 2)

    def _groups(self, x: Tensor) -> Tensor:
        """(batch, width, ...) to (batch, width / size, ..., size)."""
        return torch.unflatten(x, 1, (-1, self.size)).movedim(2, -1)

    def calibrate(self, *x: Tensor) -> None:
        """Sets the codes from a batch of pre-activations; vectors that are not finite are ignored."""
        vectors = self._groups(x[0]).reshape(-1, self.size).to(self.codes.dtype)
        vectors = vectors[vectors.isfinite().all(-1)]
        if len(vectors):
            entries = len(self.codes)
            self.codes.data.copy_(k_means(_pick_evenly(vectors, min(len(vectors), PER_CODE * entries)), entries))


def k_means(points: Tensor, count: int) -> Tensor:
    """`count` means of points (n, d) after a few rounds from evenly spaced points; a mean without points stays."""
    means = _pick_evenly(points, count)
    for _ in range(ROUNDS):
        shares = torch.nn.functional.one_hot(nearest(points, means), count).to(points.dtype)
        members = shares.sum(0).unsqueeze(1)
        means = torch.where(members > 0, shares.t() @ points / members.clamp(min=1), means)
    return means


def _pick_evenly(points: Tensor, count: int) -> Tensor:
    """`count` points, evenly spaced in their order; if there are fewer points, some are repeated."""
    return points[torch.arange(count, device=points.device) * len(points) // count]
