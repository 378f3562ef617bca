"""Hard operations, one a file; `surrogates.ops.Round` imports the file of `Round`."""

from typing import TYPE_CHECKING

from surrogates.core import OPS

if TYPE_CHECKING:  # type checkers and editors need the names; a test compares them with the files
    from surrogates.ops.abs import Abs as Abs
    from surrogates.ops.argmax import ArgMax as ArgMax
    from surrogates.ops.argmin import ArgMin as ArgMin
    from surrogates.ops.ceil import Ceil as Ceil
    from surrogates.ops.clamp import Clamp as Clamp
    from surrogates.ops.compare import Compare as Compare
    from surrogates.ops.floor import Floor as Floor
    from surrogates.ops.heaviside import Heaviside as Heaviside
    from surrogates.ops.histogram import Histogram as Histogram
    from surrogates.ops.lookup import Lookup as Lookup
    from surrogates.ops.max import Max as Max
    from surrogates.ops.maximum import Maximum as Maximum
    from surrogates.ops.median import Median as Median
    from surrogates.ops.min import Min as Min
    from surrogates.ops.minimum import Minimum as Minimum
    from surrogates.ops.permutation import Permutation as Permutation
    from surrogates.ops.quantile import Quantile as Quantile
    from surrogates.ops.quantize import Quantize as Quantize
    from surrogates.ops.rank import Rank as Rank
    from surrogates.ops.relu import ReLU as ReLU
    from surrogates.ops.round import Round as Round
    from surrogates.ops.sign import Sign as Sign
    from surrogates.ops.sort import Sort as Sort
    from surrogates.ops.threshold import Threshold as Threshold
    from surrogates.ops.top_k import TopK as TopK
    from surrogates.ops.top_k_mask import TopKMask as TopKMask
    from surrogates.ops.trunc import Trunc as Trunc
    from surrogates.ops.vector_quantize import VectorQuantize as VectorQuantize
    from surrogates.ops.where import Where as Where
else:
    __getattr__, __dir__ = OPS.attribute, OPS.names
