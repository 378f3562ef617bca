"""Builds the summaries of TensorBoard's HParams dashboard: the columns, one row a run, and how the run ended.

`SummaryWriter.add_hparams` writes these into a run of their own and `tensorboard.plugins.hparams.api` needs
TensorFlow, so the summaries are built here, for the event file of the run itself.
"""

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

from experiments.tracking.flat_config import flatten

FIRST = ("strategy", "component", "optimizer.lr", "strategy.temperature", "seed", "seeds")  # the first columns


def column(key: str) -> str:
    """Returns the name of a key's column: `1 strategy`, ..., `7 model.width`. TensorBoard sorts columns by name."""
    return f"{FIRST.index(key) + 1 if key in FIRST else len(FIRST) + 1} {key}"


def hparam_values(config: Mapping[str, object]) -> dict[str, bool | int | float | str]:
    """Returns one plain value a column, from a nested configuration; a key whose value is None has no column.

    The seed is text, because TensorBoard shows the number 0 as 0.0000.
    """
    values = {key: str(value) if key == "seed" else value for key, value in flatten(config).items()}
    return {column(key): _plain(value) for key, value in values.items() if value is not None}


def columns_summary(keys: Iterable[str], metrics: Mapping[str, str]) -> Any:
    """Returns the columns: dotted keys, and titles by tag of the metrics, whose last value each row shows.

    One run of a log folder declares them for all. Without it TensorBoard shows all keys, those that differ first.
    The keys have no declared type, because a typed column hides the runs whose value is text.
    """
    from tensorboard.plugins.hparams import summary_v2

    hparams = [summary_v2.HParam(column(key), display_name=key) for key in keys]
    shown = [summary_v2.Metric(tag, display_name=title) for tag, title in metrics.items()]
    return summary_v2.hparams_config_pb(hparams, shown)


def row_summary(values: Mapping[str, bool | int | float | str], group: str = "") -> Any:
    """Returns the run's row; TensorBoard averages the runs of one `group`. Without a group a row is a run."""
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
