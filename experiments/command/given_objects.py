"""A model and data given to `train` or `sweep` as objects: taken out of the keys, and put in by their digests."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hydra.core.config_store import ConfigStore
from torch import nn

from experiments.config.values import ConfigError
from experiments.data.dataset import Dataset
from experiments.training.given import NODES, data_keys, make_dataset, model_digest, offer


@dataclass(frozen=True)
class GivenObjects:
    """The objects of one call, None where there is none, and the keys that the call still has."""

    model: nn.Module | None
    data: Dataset | None
    keys: Mapping[str, Any]

    @classmethod
    def of(cls, overrides: Sequence[str], keys: Mapping[str, Any]) -> GivenObjects:
        """Raises ConfigError for a model that cannot be trained, or with a component; DataError for wrong data."""
        rest = dict(keys)
        model = rest.pop("model") if isinstance(keys.get("model"), nn.Module) else None
        data = make_dataset(rest.pop("data")) if _is_data(keys.get("data")) else None
        chosen = {key.partition("=")[0].partition(".")[0] for key in [*overrides, *rest]}
        if model is not None and "component" in chosen:
            raise ConfigError("component has no effect on a model given as an object, which holds its hard layers")
        return cls(model, data, rest)

    @cached_property
    def override_keys(self) -> dict[str, Any]:
        """The keys that stand for the objects in the configuration."""
        found: dict[str, Any] = {}
        if self.model is not None:
            found |= {"component": "given", "model": "given", "model.digest": model_digest(self.model)}
        if self.data is not None:
            found |= {"data": "given", **{f"data.{key}": value for key, value in data_keys(self.data).items()}}
        return found

    def offer(self) -> contextlib.AbstractContextManager[None]:
        """Lets the runs of a block find the objects."""
        if self.model is None and self.data is None:
            return contextlib.nullcontext()
        for group, node in NODES.items():
            ConfigStore.instance().store(group=group, name="given", node=node, provider="hardgrad")
        keys = self.override_keys
        models = {} if self.model is None else {keys["model.digest"]: self.model}
        return offer(models, {} if self.data is None else {keys["data.digest"]: self.data})


def _is_data(value: Any) -> bool:
    """Whether it is three parts, and not names of data sets for a sweep."""
    return isinstance(value, tuple | list) and len(value) == 3 and not any(isinstance(part, str) for part in value)
