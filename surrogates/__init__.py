"""Train through operations without a useful derivative."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from surrogates.block import straight_through as straight_through
from surrogates.component import Component as Component
from surrogates.component import calibrate as calibrate
from surrogates.core import EmptyCell as EmptyCell
from surrogates.core import Op as Op
from surrogates.core import Strategy as Strategy
from surrogates.core import graft as graft
from surrogates.hard_layer import HardLayer as HardLayer
from surrogates.hard_layer import anneal as anneal
from surrogates.hard_layer import hard_layers as hard_layers
from surrogates.hard_layer import key_noise as key_noise
from surrogates.hard_layer import mode as mode
from surrogates.sampling.score_function import score_function as score_function

if TYPE_CHECKING:
    from surrogates.diagnosis.diagnose import diagnose as diagnose
    from surrogates.kink_probes.table import kinks as kinks
    from surrogates.own_model.convert import convert as convert
    from surrogates.own_model.convert import revert as revert
    from surrogates.own_model.through import through as through

_ON_DEMAND = {
    "diagnose": "surrogates.diagnosis.diagnose",
    "kinks": "surrogates.kink_probes.table",
    "convert": "surrogates.own_model.convert",
    "revert": "surrogates.own_model.convert",
    "through": "surrogates.own_model.through",
}


def __getattr__(name: str) -> Any:
    """What a training run does not need is imported when it is first asked for."""
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'surrogates' has no attribute '{name}'")
    value = globals()[name] = getattr(import_module(_ON_DEMAND[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_DEMAND})
