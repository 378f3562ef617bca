"""Activations replaced in groups by codes of a learned codebook."""

from typing import Literal, NamedTuple, overload

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from surrogates.component import Component
from surrogates.core import Strategy
from surrogates.float32 import require_count
from surrogates.hard_layer import HardLayer
from surrogates.ops.vector_quantize import VectorQuantize, nearest

PER_CODE = 64  # vectors of the first batch for each code, given to k-means
ROUNDS = 10  # of k-means
LARGEST = 2**26  # numbers in a codebook


class Coded(NamedTuple):
    """What a vector quantizer returns with its losses.

    `values`: the codes in place of the groups, (batch, width, ...). They do not move the codebook.
    `indices`: the number of each group's nearest code, (batch, width / size, ...).
    `codebook_loss`: mean (e - sg(x))^2, which moves the codes; e the nearest codes, sg a constant.
    `commitment_loss`: mean (x - sg(e))^2, which moves what made x. Neither loss has a weight.
    """

    values: Tensor
    indices: Tensor
    codebook_loss: Tensor
    commitment_loss: Tensor


class VectorQuantizer(Component):
    """Replaces each group of `size` neighbouring activations by the nearest of `entries` codes of that size.

    (batch, width, ...) to the same; on signals and images the groups are of channels, at each place.
    One codebook a layer, `codes` (entries, size). How it learns depends on the call:
    - `layer(x)` gives the codes. They learn from the loss of the output, by the op's own derivative: a code receives
      the sum of the gradients of the groups that chose it; under `smooth`, of all groups by their shares.
    - `layer(x, losses=True)` gives a `Coded`: values, indices and the two losses of a VQ-VAE (van den Oord et al. 2017,
      arXiv 1711.00937). The codes learn from its `codebook_loss` alone.
    Codes start as normal numbers from a fixed stream. `calibrate` sets them to the means that k-means finds in the
    groups of a first batch.
    Raises ValueError if entries or size is below 1.
    Raises ValueError in `check_width` and when called if size does not divide the width.
    """

    shown = ("entries", "size")

    def __init__(self, strategy: Strategy | str, entries: int = 64, size: int = 4) -> None:
        super().__init__()
        require_count(most=2**16, entries=entries, size=size)
        if entries * size > LARGEST:
            raise ValueError(f"entries times size must be at most {LARGEST}, got {entries} times {size}")
        self.entries, self.size = entries, size
        self.codes = nn.Parameter(torch.randn(entries, size, generator=torch.Generator().manual_seed(0)))
        self.quantize = HardLayer(VectorQuantize(), strategy)

    def check_width(self, width: int) -> None:
        """Raises ValueError if size does not divide the width."""
        if width % self.size:
            raise ValueError(f"size must divide the layer's {width} activations, got {self.size}")

    @overload
    def forward(self, x: Tensor, losses: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(self, x: Tensor, losses: Literal[True]) -> Coded: ...

    def forward(self, x: Tensor, losses: bool = False) -> Tensor | Coded:
        """The codes, in place of the groups; with `losses` a `Coded`."""
        groups, codes = self._groups(x), self.codes.to(x.dtype)
        values = self._join(self.quantize(groups, codes.detach() if losses else codes))
        if not losses:
            return values
        indices = nearest(groups, codes)
        chosen = codes[indices]
        return Coded(values, indices, mse_loss(chosen, groups.detach()), mse_loss(groups, chosen.detach()))

    def decode(self, indices: Tensor) -> Tensor:
        """The codes with these numbers, (batch, width / size, ...) to (batch, width, ...)."""
        return self._join(self.codes[indices])

    def _groups(self, x: Tensor) -> Tensor:
        """(batch, width, ...) to (batch, width / size, ..., size)."""
        if x.dim() < 2:
            raise ValueError(f"VectorQuantizer takes (batch, width, ...), got the shape {tuple(x.shape)}")
        self.check_width(x.shape[1])
        return torch.unflatten(x, 1, (-1, self.size)).movedim(2, -1)

    def _join(self, groups: Tensor) -> Tensor:
        """(batch, width / size, ..., size) to (batch, width, ...)."""
        return groups.movedim(-1, 2).flatten(1, 2)

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
