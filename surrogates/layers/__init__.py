"""Components, one a file; `surrogates.layers.HardMax` imports the file of `HardMax`."""

from typing import TYPE_CHECKING

from surrogates.component import Component
from surrogates.naming.catalogue import Catalogue

if TYPE_CHECKING:  # type checkers and editors need the names; a test compares them with the files
    from surrogates.layers.binary import Binary as Binary
    from surrogates.layers.floor import FloorActivation as FloorActivation
    from surrogates.layers.hard_gate import HardGate as HardGate
    from surrogates.layers.hard_max import HardMax as HardMax
    from surrogates.layers.hard_max_pool import HardMaxPool as HardMaxPool
    from surrogates.layers.identity import Identity as Identity
    from surrogates.layers.k_winners import KWinners as KWinners
    from surrogates.layers.learned_threshold import LearnedThreshold as LearnedThreshold
    from surrogates.layers.lookup import LookupActivation as LookupActivation
    from surrogates.layers.quantized_activation import QuantizedActivation as QuantizedActivation
    from surrogates.layers.quantized_weight import QuantizedWeight as QuantizedWeight
    from surrogates.layers.relu import Rectifier as Rectifier
    from surrogates.layers.spike import Spike as Spike
    from surrogates.layers.vector_quantizer import VectorQuantizer as VectorQuantizer
else:
    LAYERS = Catalogue("layer", __name__, Component)
    __getattr__, __dir__ = LAYERS.attribute, LAYERS.names
