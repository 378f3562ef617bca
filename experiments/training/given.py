"""A model and data that a caller gives as objects. The configuration holds their digests.

The objects are not saved. To resume or load such a run, the caller gives them again.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from experiments.config.values import ConfigError
from experiments.data.dataset import DataError, Dataset, Part
from surrogates import Component, HardLayer, Strategy, hard_layers

NODES: dict[str, dict[str, Any]] = {  # the options that stand for objects, by group
    "component": {"_target_": f"{__name__}.GivenLayers", "_partial_": True},
    "model": {"_target_": f"{__name__}.GivenModel", "_partial_": True, "digest": "???"},
    "data": {"_target_": f"{__name__}.GivenData", "digest": "???", "classes": "???", "shape": "???"},
}
_models: Mapping[str, nn.Module] = {}  # the objects of the open `offer` blocks, by digest
_data: Mapping[str, Dataset] = {}


@contextmanager
def offer(models: Mapping[str, nn.Module], data: Mapping[str, Dataset]) -> Iterator[None]:
    """Lets runs inside the block find these objects by their digests."""
    global _models, _data
    before = _models, _data
    _models, _data = {**_models, **models}, {**_data, **data}
    try:
        yield
    finally:
        _models, _data = before


def model_digest(model: nn.Module) -> str:
    """A digest of a model's class, layers, weights and buffers, but not of its code.

    Raises ConfigError if the model has no hard layer.
    """
    if not hard_layers(model):
        raise ConfigError(
            "the model holds no hard layer; put hardgrad.HardLayer or one of hardgrad.layers into it, "
            "or have hardgrad.convert replace its own modules first"
        )
    digest = hashlib.sha256(f"{type(model).__module__}.{type(model).__qualname__}\n{model}".encode())
    for name, value in model.state_dict().items():
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return f"sha-{digest.hexdigest()[:16]}"


def make_dataset(parts: Sequence[Any]) -> Dataset:
    """Makes a data set of training, validation and test data. The samples are not standardised.

    A part is a pair of samples (N, ...) and labels (N,) from 0, or a Dataset of torch with such pairs.
    Raises DataError for any other part.
    """
    tensors = [_tensors(name, part) for name, part in zip(("train", "val", "test"), parts, strict=True)]
    classes = max(int(y.max()) + 1 if y.numel() else 1 for _, y in tensors)
    return Dataset("given", classes, *(Part(x, y) for x, y in tensors))


def data_keys(data: Dataset) -> dict[str, Any]:
    """The keys of `data` in the configuration."""
    digest = hashlib.sha256("".join(data.hashes().values()).encode())
    return {
        "digest": f"sha-{digest.hexdigest()[:16]}",
        "classes": data.classes,
        "shape": "x".join(map(str, data.input_shape)),
    }


def _tensors(name: str, part: Any) -> tuple[Tensor, Tensor]:
    try:
        if isinstance(part, torch.utils.data.TensorDataset):
            part = part.tensors
        elif isinstance(part, torch.utils.data.Dataset):
            pairs = [part[index] for index in range(len(part))]  # type: ignore[arg-type]
            part = torch.stack([torch.as_tensor(x) for x, _ in pairs]), torch.tensor([int(y) for _, y in pairs])
        x, y = map(torch.as_tensor, part)
    except (TypeError, ValueError, RuntimeError) as error:
        wanted = "a pair (x, y) of tensors or a map-style Dataset of torch"
        raise DataError(f"data, part {name} should be {wanted}: {error}") from None
    return (x if x.is_floating_point() else x.float()), y.long()


class GivenLayers(Component):
    """Takes the component's place in a configuration; holds the strategy for a given model's hard layers."""

    def __init__(self, strategy: Strategy) -> None:
        super().__init__()
        self.strategy = strategy


class GivenModel(nn.Module):
    """A copy of the given model with its weights, and with every hard layer under the run's strategy.

    Raises ConfigError if the model is not given, or if its output is not logits (batch, classes).
    Raises EmptyCell if an op lacks a reading that the strategy needs.
    """

    def __init__(
        self, input_shape: tuple[int, ...], classes: int, component: Callable[[], Component], digest: str
    ) -> None:
        super().__init__()
        if digest not in _models:
            raise ConfigError(
                "the model of this run was given as an object and is not saved; give it again: "
                "hardgrad.train(model=...) to resume, hardgrad.load(run, model=...) to load"
            )
        layers = component()
        assert isinstance(layers, GivenLayers)
        self.module = copy.deepcopy(_models[digest])
        _set_strategy(self, layers.strategy)
        self.train()
        _check_logits(self, input_shape, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.module(x)
        return logits


def _set_strategy(model: nn.Module, strategy: Strategy) -> None:
    made: dict[nn.Module, HardLayer] = {}
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if isinstance(module, HardLayer):
            model.set_submodule(name, made.setdefault(module, HardLayer(module.op, strategy)))


def _check_logits(model: nn.Module, input_shape: tuple[int, ...], classes: int) -> None:
    parameter = next(model.parameters(), torch.zeros(()))
    x = torch.zeros(2, *input_shape, dtype=parameter.dtype, device=parameter.device)
    with torch.no_grad():
        shape = tuple(model.eval()(x).shape)
    model.train()
    if shape != (2, classes):
        raise ConfigError(f"the model makes {shape} of a batch {tuple(x.shape)}; it should make logits {(2, classes)}")


@dataclass(frozen=True)
class GivenData:
    """The given data set with this digest; `shape` is the shape of a sample, written 1x8x8."""

    digest: str
    classes: int
    shape: str

    @property
    def root(self) -> None:
        """None: there are no files."""

    @property
    def download(self) -> bool:
        """False: there are no files."""
        return False

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(map(int, self.shape.split("x"))) if self.shape else ()

    def load(self) -> Dataset:
        """Returns the given data set.

        Raises DataError if it is not given.
        """
        if self.digest not in _data:
            raise DataError(
                "the data of this run were given as objects and are not saved; give them again: "
                "hardgrad.train(data=(train, val, test))"
            )
        return _data[self.digest]
