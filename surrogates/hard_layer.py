"""The module that holds an op and its strategy, and the switch between strategy and hard op."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from surrogates.core import OPS, STRATEGIES, Op, Strategy, detached
from surrogates.float32 import require_floating
from surrogates.known import is_traced
from surrogates.naming.words import require_word
from surrogates.noise import uniforms
from surrogates.schedules import GapClock
from surrogates.torch_private import writes

Mode = Literal["strategy", "hard"]


class HardLayer(nn.Module):
    """An op under a strategy in training, the hard op itself in evaluation.

    Op and strategy are objects or, with default values, names: `HardLayer("round", "ste")`.

    `mode` is `strategy` in training and `hard` in evaluation; `surrogates.mode` overrides it in a block.
    `temperature` is a 0-d buffer, None if the strategy uses none on this op. `anneal` writes it in place. A change of
    the model's precision does not convert it. `acting` is the strategy that acts now, usually `strategy` itself.
    `clock` is the clock of a schedule by the soft-to-hard gap, else None.
    Raises EmptyCell if the op lacks a reading that the strategy needs.
    Raises ValueError if a name is unknown.
    Raises TypeError if an argument is neither such an object nor a name.
    """

    temperature: Tensor | None

    def __init__(self, op: Op | str, strategy: Strategy | str) -> None:
        super().__init__()
        op, strategy = OPS.make(op), STRATEGIES.make(strategy)
        strategy.check(op)
        self.op = op
        self.strategy = strategy
        self.acting = strategy.at(0.0)
        self.clock = None if strategy.gap_target is None else GapClock(strategy.gap_target)
        self.given_mode: Mode | None = None  # acts until `train` or `eval` is called
        start = strategy.temperature_at(0.0) if "temperature" in strategy.uses(op) else None
        self.register_buffer("temperature", None if start is None else torch.tensor(start))
        self._note(start)
        self.noise_key: tuple[int | Tensor, ...] = (0, 0, 0)  # seed, step, layer, rank unless 0; see `uniforms`
        self.draws = 0

    @property
    def mode(self) -> Mode:
        """What `forward` computes. It follows `training`, as trainers may set that without calling `train`."""
        return self.given_mode or ("strategy" if self.training else "hard")

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self.given_mode = mode

    def forward(self, *x: Tensor) -> Tensor:
        """The op on x, under the strategy or hard, as `mode` says."""
        if self.mode == "hard":
            require_floating(self.op, *x)
            return self.op.hard(*x)
        output = self.acting(self.op, *x, T=self._read_temperature(), noise=self._noise(x))
        if self.clock is not None and self.training:
            self.clock.measure(output, self.op.hard(*detached(x)))
        return output

    def _note(self, number: float | None) -> None:
        """Keeps the temperature's number, so that no step waits for a device to read it."""
        self._noted: tuple[float, Tensor, int | None] | None = None
        if self.temperature is not None and number is not None:
            rounded = torch.tensor(number, dtype=self.temperature.dtype, device="cpu").item()
            self._noted = rounded, self.temperature, writes(self.temperature)

    def _noted_temperature(self) -> float | None:
        """The number kept by `_note`; None if the buffer was replaced or written to since."""
        if self._noted is None:
            return None
        number, buffer, count = self._noted
        return number if buffer is self.temperature and count is not None and writes(buffer) == count else None

    def _read_temperature(self) -> Tensor | float | None:
        """The temperature for the op: the buffer, or its number if reading the buffer would wait for a device."""
        buffer = self.temperature
        if buffer is None or buffer.is_cpu or is_traced():
            return buffer
        number = self._noted_temperature()
        return buffer if number is None else number

    def _noise(self, x: tuple[Tensor, ...]) -> Tensor | None:
        if not self.acting.noisy(self.op):
            return None
        require_floating(self.op, *x)
        shape = self.acting.noise_shape(self.op, *x)
        self.draws += 1
        return uniforms(x[0], (*self.noise_key, self.draws), shape)

    def train(self, mode: bool = True) -> HardLayer:
        """Sets the mode to `strategy`, or to `hard` with mode=False."""
        super().train(mode)
        self.given_mode = None
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> HardLayer:
        before = self.temperature, None if self.clock is None else self.clock.state
        number = self._noted_temperature()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if before[0] is not None and self.temperature is not None:  # half() would round it, and a small one to 0
            self.temperature = before[0].to(self.temperature.device)
            self._note(number)
        if before[1] is not None and self.clock is not None:
            self.clock.state = before[1].to(self.clock.state.device)
        return self

    def anneal(self, progress: float, epoch: float | None = None) -> None:
        """Writes the scheduled temperature for a share of training into the buffer.

        `epoch` is the share of training at the start of the current epoch; only a schedule by epochs needs it.
        """
        self.acting = self.strategy.at(progress)
        scheduled = self.strategy.temperature_at(self.read_clock(progress, epoch))
        if self.temperature is not None and scheduled is not None:
            self.temperature.fill_(scheduled)
            self._note(scheduled)

    def read_clock(self, progress: float, epoch: float | None) -> float:
        """The share of training at which the schedule is read.

        Raises ValueError if the schedule goes by epochs and `epoch` is None.
        """
        if self.strategy.by_epoch:
            if epoch is None:
                raise ValueError(f"{self.strategy} goes by epochs: anneal needs `epoch`, the share at its start")
            return epoch
        return progress if self.clock is None else self.clock(progress)

    def extra_repr(self) -> str:
        """The op and the strategy."""
        return f"{self.op}, {self.strategy}"


def hard_layers(model: nn.Module) -> dict[str, HardLayer]:
    """The hard layers of a model by name, in order."""
    return {name: module for name, module in model.named_modules() if isinstance(module, HardLayer)}


@contextmanager
def mode(model: nn.Module, mode: Mode) -> Iterator[None]:
    """Sets the mode of every hard layer of a model in a block; overrides train() and eval()."""
    require_word("mode", mode, get_args(Mode))
    layers = hard_layers(model).values()
    before = [layer.given_mode for layer in layers]
    for layer in layers:
        layer.mode = mode
    try:
        yield
    finally:
        for layer, previous in zip(layers, before, strict=True):
            layer.given_mode = previous


def anneal(model: nn.Module, progress: float, epoch: float | None = None) -> None:
    """Sets every hard layer's temperature to its schedule's value at a share of training between 0 and 1.

    `epoch` is the share at the start of the current epoch; only schedules by epochs need it.
    """
    for layer in hard_layers(model).values():
        layer.anneal(progress, epoch)


def key_noise(model: nn.Module, seed: int | Tensor, step: int, rank: int | None = None) -> None:
    """Keys the noise of every hard layer to a seed, a step and a rank. The same key draws the same noise.

    `rank` is the number of the process in distributed training, so that each process draws its own noise. By default
    it is the rank that torch.distributed gives, and 0 if that is not initialised.
    """
    rank = process_rank() if rank is None else rank
    for index, layer in enumerate(hard_layers(model).values()):
        layer.noise_key = (seed, step, index, rank) if rank else (seed, step, index)
        layer.draws = 0


def process_rank() -> int:
    """The rank of this process in torch.distributed; 0 if that is not initialised."""
    distributed = torch.distributed
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0
