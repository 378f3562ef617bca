"""Strategies and their shared bases, one a file; `surrogates.strategies.Smooth` imports the file of `Smooth`."""

from typing import TYPE_CHECKING

from surrogates.core import STRATEGIES

if TYPE_CHECKING:  # type checkers and editors need the names; a test compares them with the files
    from surrogates.strategies.dither import Dither as Dither
    from surrogates.strategies.gumbel import Gumbel as Gumbel
    from surrogates.strategies.gumbel_rao import GumbelRao as GumbelRao
    from surrogates.strategies.perturbed import Perturbed as Perturbed
    from surrogates.strategies.proximal import Proximal as Proximal
    from surrogates.strategies.reinmax import ReinMax as ReinMax
    from surrogates.strategies.rewrite import Rewrite as Rewrite
    from surrogates.strategies.sampled import Sampled as Sampled
    from surrogates.strategies.smooth import Smooth as Smooth
    from surrogates.strategies.ste import StraightThrough as StraightThrough
    from surrogates.strategies.subgradient import Subgradient as Subgradient
    from surrogates.strategies.zgr import ZGR as ZGR
else:
    __getattr__, __dir__ = STRATEGIES.attribute, STRATEGIES.names
