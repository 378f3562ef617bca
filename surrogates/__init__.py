"""Train through operations without a useful derivative."""

from surrogates.component import Component as Component
from surrogates.component import calibrate as calibrate
from surrogates.core import EmptyCell as EmptyCell
from surrogates.core import Op as Op
from surrogates.core import Strategy as Strategy
from surrogates.core import graft as graft
from surrogates.diagnosis.diagnose import diagnose as diagnose
from surrogates.hard_layer import HardLayer as HardLayer
from surrogates.hard_layer import anneal as anneal
from surrogates.hard_layer import hard_layers as hard_layers
from surrogates.hard_layer import key_noise as key_noise
from surrogates.hard_layer import mode as mode
