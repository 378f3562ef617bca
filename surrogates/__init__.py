"""Train through operations without a useful derivative."""

from importlib import import_module
from typing import TYPE_CHECKING

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
    from surrogates import layers as layers
    from surrogates import ops as ops
    from surrogates import strategies as strategies
    from surrogates.diagnosis.diagnose import diagnose as diagnose
    from surrogates.functional.op_function import OpFunction
    from surrogates.kink_probes.table import kinks as kinks
    from surrogates.own_model.convert import convert as convert
    from surrogates.own_model.convert import revert as revert
    from surrogates.own_model.low_bit import quantize_model as quantize_model
    from surrogates.own_model.through import through as through

_ROOMS = ("layers", "ops", "strategies")
_ON_DEMAND = {
    "diagnose": "surrogates.diagnosis.diagnose",
    "kinks": "surrogates.kink_probes.table",
    "convert": "surrogates.own_model.convert",
    "revert": "surrogates.own_model.convert",
    "quantize_model": "surrogates.own_model.low_bit",
    "through": "surrogates.own_model.through",
}

__all__ = [
    "Component", "EmptyCell", "HardLayer", "Op", "Strategy", "anneal", "calibrate", "convert", "diagnose", "graft",
    "hard_layers", "key_noise", "kinks", "layers", "mode", "ops", "quantize_model", "revert", "score_function",
    "straight_through", "strategies", "through",
]  # fmt: skip


if TYPE_CHECKING:

    def __getattr__(name: str) -> OpFunction: ...

else:

    def __getattr__(name):
        """Imports the names that a training run does not need at their first use; other names are functions of ops."""
        if name in _ROOMS:
            return import_module(f"surrogates.{name}")
        if name in _ON_DEMAND:
            value = getattr(import_module(_ON_DEMAND[name]), name)
        else:
            value = import_module("surrogates.functional.op_function").function(__name__, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    from surrogates.functional.op_function import function_names

    return sorted([*__all__, *function_names()])  # not in `__all__`: `import *` would hide Python's own round, abs, max
