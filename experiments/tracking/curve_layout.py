"""Lays out TensorBoard's custom-scalars dashboard: each chart has one curve for each selected run."""

from collections.abc import Mapping
from functools import cache
from typing import Any

OPEN = 1  # categories that are open at first

_LAYOUT: dict[str, dict[str, list[str]]] = {
    "strategies": {
        "validation accuracy, hard": ["accuracy/val"],
        "validation loss, hard": ["loss/val"],
        "training loss": ["loss/train"],
        "gradient norm, before clipping": ["grad_norm/total"],
        "temperature": ["temperature"],
        "learning rate": ["lr"],
    },
    "hard and soft": {
        "validation loss": ["loss/val", "loss/val_soft"],
        "validation accuracy": ["accuracy/val", "accuracy/val_soft"],
    },
    "operation": {
        "gradient norm at its input": ["op/.+/grad_in_norm"],
        "gradient norm at its output": ["op/.+/grad_out_norm"],
        "gradient norm at its input / at its output": ["op/.+/grad_ratio"],
        "effective slope": ["op/.+/effective_slope"],
        "share of inputs with gradient 0": ["op/.+/zero_gradient_fraction"],
        "share of saturated inputs": ["op/.+/saturated_fraction"],
        "share of outputs that flipped": ["op/.+/flip_rate"],
        "soft-to-hard gap of its outputs": ["op/.+/soft_hard_gap"],
        "temperature of each layer": ["op/.+/temperature"],
        "learned scale": ["op/.+/scale"],
        "learned clip": ["op/.+/clip"],
        "learned threshold": ["op/.+/threshold"],
    },
}


@cache
def layout_summary() -> Any:
    """Returns the layout as TensorBoard stores it; equal layouts of many runs are shown once."""
    from tensorboard.plugins.custom_scalar import layout_pb2

    return _summary(
        {title: [_chart(layout_pb2, *chart) for chart in charts.items()] for title, charts in _LAYOUT.items()}
    )


def margin_layout_summary(categories: Mapping[str, Mapping[str, tuple[str, str, str]]]) -> Any:
    """Returns categories of charts with line and band: the tags of line, lower and upper end by title."""
    from tensorboard.plugins.custom_scalar import layout_pb2

    return _summary({name: _margin_charts(layout_pb2, charts) for name, charts in categories.items()})


def _margin_charts(layout_pb2: Any, charts: Mapping[str, tuple[str, str, str]]) -> list[Any]:
    margin = layout_pb2.MarginChartContent
    made = [
        layout_pb2.Chart(title=title, margin=margin(series=[margin.Series(value=value, lower=lower, upper=upper)]))
        for title, (value, lower, upper) in charts.items()
    ]
    return made[::-1]  # TensorBoard shows the last chart with a band first


def _summary(categories: Mapping[str, list[Any]]) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.plugins.custom_scalar import layout_pb2, metadata

    named = [
        layout_pb2.Category(title=title, chart=charts, closed=number >= OPEN)
        for number, (title, charts) in enumerate(categories.items())
    ]
    layout = layout_pb2.Layout(category=named)
    content = TensorProto(dtype="DT_STRING", string_val=[layout.SerializeToString()], tensor_shape=TensorShapeProto())
    kind = metadata.create_summary_metadata()
    return Summary(value=[Summary.Value(tag=metadata.CONFIG_SUMMARY_TAG, metadata=kind, tensor=content)])


def _chart(layout_pb2: Any, name: str, tags: list[str]) -> Any:
    patterns = [f"^{tag}$" for tag in tags]  # TensorBoard matches prefixes
    return layout_pb2.Chart(title=name, multiline=layout_pb2.MultilineChartContent(tag=patterns))
