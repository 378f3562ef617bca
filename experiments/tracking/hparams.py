"""Builds the summaries of TensorBoard's HParams dashboard: the columns, one row a run, and how the run ended.

`SummaryWriter.add_hparams` writes these into a run of their own and `tensorboard.plugins.hparams.api` needs
TensorFlow, so the summaries are built here, for the event file of the run itself.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.tracking.flat_config import flatten


def hparam_values(config: Mapping[str, object], columns: Iterable[str] = ()) -> dict[str, bool | int | float | str]:
    """Returns one plain value a dotted key, first those of `columns` ("n/a" if the configuration lacks one).

    TensorBoard takes the columns of all runs from an arbitrary run, so every run needs the same `columns`.
    The key `seed` is left out: TensorBoard shows the runs of one group in one row, with the first run's values.
    """
    flat = flatten(config)
    names = [*columns, *flat]
    return {name: _plain(flat.get(name, "n/a")) for name in names if name != "seed"}


def columns_summary(names: Iterable[str], metrics: Sequence[str]) -> Any:
    """Returns the columns: hyperparameters, and the tags whose last value each run shows.

    The hyperparameters have no declared type, because a typed column hides the runs whose value is "None".
    """
    from tensorboard.plugins.hparams import summary_v2

    hparams = [summary_v2.HParam(name) for name in names]
    return summary_v2.hparams_config_pb(hparams, [summary_v2.Metric(tag) for tag in metrics])


def row_summary(values: Mapping[str, bool | int | float | str], group: str) -> Any:
    """Returns the run's row; TensorBoard averages the runs of one `group`."""
    from tensorboard.plugins.hparams import summary_v2

    return summary_v2.hparams_pb(dict(values), trial_id=group)


def end_summary(success: bool) -> Any:
    """Returns how the run ended. TensorBoard uses the first such summary of a run, so an interrupted run has none."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    status = api_pb2.STATUS_SUCCESS if success else api_pb2.STATUS_FAILURE
    end = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=time.time())
    content = metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(session_end_info=end))
    return Summary(
        value=[Summary.Value(tag=metadata.SESSION_END_INFO_TAG, metadata=content, tensor=metadata.NULL_TENSOR)]
    )


def _plain(value: object) -> bool | int | float | str:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) <= 2**53:  # TensorBoard has float64 only
        return value
    if isinstance(value, float) and math.isfinite(value):  # and drops a number that JSON lacks
        return value
    return str(value).encode("utf-8", "replace").decode()
