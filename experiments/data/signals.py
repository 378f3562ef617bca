"""Makes MNIST-1D's signals from random numbers, many at once (Greydanus and Kobak 2020, arXiv 2011.14439)."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.data.dataset import DataError

Array = NDArray[Any]
BLOCK = 1000  # signals made at once
WIDTH = 2.0  # of the Gaussian filter that correlates noise, in points


class Draws(NamedTuple):
    """The random numbers of N signals of L points: u uniform on [0, 1), z standard normal."""

    padding: Array  # u (N,)
    scale: Array  # u (N,)
    shift: Array  # whole numbers (N,), in points
    correlated: Array  # z (N, L)
    white: Array  # z (N, L)
    shear: Array  # u (N,)


class Signals:
    """The recipe of MNIST-1D with the templates and the parameters of the authors' package.

    Raises DataError if `mnist1d` is not installed.
    """

    def __init__(self) -> None:
        try:
            from mnist1d.data import get_dataset_args, get_templates
        except ImportError as error:
            raise DataError(f"data set mnist1d: cannot import its recipe ({error}): pip install mnist1d") from error
        self.recipe: Any = get_dataset_args()
        self.length = self.recipe.template_len + self.recipe.padding[1]
        self._templates = np.stack([_dilate(get_templates()["x"] + 1e-8, p, self.length) for p in self._paddings])

    @property
    def _paddings(self) -> range:
        return range(self.recipe.padding[0], self.recipe.padding[1] + 1)

    def make(self, digits: Array, draws: Draws) -> Array:
        """Makes the signals (N, 40), float64 and not standardised, of digits (N,).

        With L = 72 points, a template f of the digit with p = 36 to 60 zeros appended and dilated to L points, and
        t from -1/2 to 1/2:

            x = roll((1 + 0.4 (u - 1/2)) f, shift)
            x = x + 0.25 gaussian_filter(z, 2) [x = 0] + 0.02 z - 0.75 (u - 1/2) t

        sampled at 40 points.
        """
        from scipy.ndimage import gaussian_filter1d

        own = self.recipe
        x = self._templates[(draws.padding * len(self._paddings)).astype(int), digits]
        x = x * (1 + own.scale_coeff * (draws.scale - 0.5))[:, None]
        x = np.take_along_axis(x, (np.arange(self.length) - draws.shift[:, None]) % self.length, 1)
        x = np.where(x == 0, gaussian_filter1d(own.corr_noise_scale * draws.correlated, WIDTH), x)
        x = x + own.iid_noise_scale * draws.white
        x = x - (own.shear_scale * (draws.shear - 0.5))[:, None] * np.linspace(-0.5, 0.5, self.length)
        return _resample(x, own.final_seq_length)

    def official(self) -> tuple[Array, Array]:
        """Makes the 5000 published signals (5000, 40) and their digits (5000,), shuffled as published."""
        own = self.recipe
        stream = np.random.RandomState(own.seed)
        digits = np.repeat(np.arange(len(self._templates[0])), own.num_samples // len(self._templates[0]))
        draws = Draws(*map(np.array, zip(*(self._draw_one(stream) for _ in digits), strict=True)))
        order = stream.permutation(len(digits))
        return self.make(digits, draws)[order], digits[order]

    def _draw_one(self, stream: np.random.RandomState) -> tuple[Any, ...]:
        """Draws the numbers of one signal in the order of the authors' package."""
        padding, scale, shift = stream.rand(), stream.rand(), stream.choice(self.recipe.max_translation)
        return padding, scale, shift, stream.randn(self.length), stream.randn(self.length), stream.rand()

    def fresh(self, name: str, count: int) -> tuple[Array, Array]:
        """Makes signals (count, 40) of random digits (count,); `name` and the position of a signal fix its numbers."""
        blocks = [self._block(f"mnist1d {name} {start}") for start in range(0, count, BLOCK)]
        x, digits = (np.concatenate(rows)[:count] for rows in zip(*blocks, strict=True))
        return x, digits

    def _block(self, name: str) -> tuple[Array, Array]:
        """Makes BLOCK signals; numpy's legacy RandomState, whose stream is frozen (NEP 19), draws their numbers."""
        stream = np.random.RandomState(np.frombuffer(hashlib.sha256(name.encode()).digest(), "<u4"))
        digits = stream.randint(len(self._templates[0]), size=BLOCK)
        padding, scale, shear = stream.rand(3, BLOCK)
        correlated, white = stream.randn(2, BLOCK, self.length)
        shift = stream.randint(self.recipe.max_translation, size=BLOCK)
        return self.make(digits, Draws(padding, scale, shift, correlated, white, shear)), digits


def _dilate(templates: Array, zeros: int, length: int) -> Array:
    return _resample(np.pad(templates, ((0, 0), (0, zeros))), length)


def _resample(x: Array, points: int) -> Array:
    """Interpolates signals (N, L) linearly at equidistant points (N, points)."""
    from scipy.interpolate import interp1d

    sampled: Array = interp1d(np.linspace(0, 1, x.shape[1]), x)(np.linspace(0, 1, points))
    return sampled
