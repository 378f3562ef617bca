"""Whole nets, ours and a peer's, with the same initial weights; each peer has its own environment.

Each builder makes its layers in one order from one seed, so that both nets draw the same weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from surrogates import HardLayer
from surrogates.layers.quantized_activation import QuantizedActivation
from surrogates.layers.spike import Spike
from surrogates.layers.vector_quantizer import VectorQuantizer
from surrogates.ops.heaviside import Heaviside
from surrogates.quantizing.quantizer import quantize_weight
from surrogates.strategies.ste import StraightThrough

T, DECAY = 8, 0.9  # time steps, and the share of its potential that a membrane keeps
ENTRIES, SIZE = 64, 4  # of a codebook

Nets = Iterator[tuple[str, nn.Module, nn.Module, Tensor]]


def step(net: nn.Module, x: Tensor) -> Callable[[], float]:
    """Returns a measure of a training step, in milliseconds."""
    optimizer, labels = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9), torch.arange(len(x)) % 10

    def measure() -> float:
        start = time.process_time()
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), labels).backward()
        optimizer.step()
        return (time.process_time() - start) * 1e3

    return measure


def mlp(activation: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    a, b, c = nn.Linear(64, 128), nn.Linear(128, 128), nn.Linear(128, 10)
    return nn.Sequential(a, activation(), b, activation(), c)


def spike(kernel: str, temperature: float) -> StraightThrough:
    return StraightThrough(carrier="smooth", kernel=kernel, temperature=temperature)


class Rate(nn.Module):
    """The firing rate of neurons whose `fire(current, v)` gives the spikes and the next potential."""

    def __init__(self, fire: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.fire = fire

    def forward(self, x: Tensor) -> Tensor:
        v = total = torch.zeros_like(x)
        for _ in range(T):
            spikes, v = self.fire(x, v)
            total = total + spikes
        return total / T


class Delayed(nn.Module):
    """snntorch's default neuron: the previous step's spike is subtracted, without a derivative."""

    def __init__(self) -> None:
        super().__init__()
        self.heaviside = HardLayer(Heaviside(zero=0.0), spike("cauchy", 1 / math.pi))

    def forward(self, current: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        v = DECAY * v + current - (v > 1).to(v.dtype)
        return self.heaviside(v - 1), v


def snntorch() -> Nets:
    import snntorch as peer

    def leaky(delay: bool) -> nn.Module:
        return Rate(peer.Leaky(DECAY, spike_grad=peer.surrogate.atan(alpha=2.0), reset_delay=delay))

    ours, peers = mlp(partial(Spike, spike("cauchy", 1 / math.pi), T, DECAY)), mlp(partial(leaky, False))
    yield "spiking net, reset at the spike", ours, peers, torch.rand(64, 64)
    yield "spiking net, delayed reset", mlp(lambda: Rate(Delayed())), mlp(partial(leaky, True)), torch.rand(64, 64)


def vector_quantize_pytorch() -> Nets:
    import vector_quantize_pytorch as peer

    class Codebook(nn.Module):
        """A codebook whose codes follow a moving average; ours learn by the optimizer."""

        def __init__(self, rotation: bool) -> None:
            super().__init__()
            self.quantize = peer.VectorQuantize(SIZE, ENTRIES, rotation_trick=rotation, commitment_weight=0.0)
            self.quantize.codebook = VectorQuantizer(StraightThrough(), ENTRIES, SIZE).codes.detach()

        def forward(self, x: Tensor) -> Tensor:
            return self.quantize(x.unflatten(1, (-1, SIZE)))[0].flatten(1)

    for form in (None, "rotation"):
        ours = mlp(partial(VectorQuantizer, StraightThrough(form=form), ENTRIES, SIZE))
        peers = mlp(partial(Codebook, form is not None))
        yield f"codebook net, {form or 'straight-through'}", ours, peers, torch.rand(64, 64)


def conv_net(conv: Callable[[int, int], nn.Module], activation: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    layers = [conv(1, 16), activation(), conv(16, 32), activation()]
    return nn.Sequential(*layers, nn.AvgPool2d(8), nn.Flatten(), nn.Linear(32, 10))


def four_bit(name: str, conv: Callable[[int, int], nn.Module], activation: Callable[[], nn.Module]) -> Nets:
    """Weights on -7 .. 7 times max|w| / 7 a channel, activations on multiples of 1 / 15 from 0 to 1."""

    def own(inputs: int, outputs: int) -> nn.Module:
        return quantize_weight(nn.Conv2d(inputs, outputs, 3, padding=1), StraightThrough(), bits=4)

    ours = conv_net(own, partial(QuantizedActivation, StraightThrough(), 4))
    yield f"4-bit conv net, {name}", ours, conv_net(conv, activation), torch.rand(64, 1, 8, 8)


def brevitas() -> Nets:
    import brevitas.nn as peer
    from brevitas.quant import Int8WeightPerChannelFloat, Uint8ActPerTensorFloatMaxInit

    def conv(inputs: int, outputs: int) -> nn.Module:
        quantizer = {"weight_quant": Int8WeightPerChannelFloat, "weight_bit_width": 4}
        return peer.QuantConv2d(inputs, outputs, 3, padding=1, **quantizer)

    def activation() -> nn.Module:
        quantizer = {"act_quant": Uint8ActPerTensorFloatMaxInit, "scaling_impl_type": "const"}
        return peer.QuantReLU(bit_width=4, max_val=1.0, **quantizer)

    yield from four_bit("weight scale that has a derivative", conv, activation)


def torchao() -> Nets:
    from torch.nn.utils import parametrize
    from torchao.quantization import pt2e as peer

    def conv(kind: Callable[..., nn.Module], lowest: int, inputs: int, outputs: int) -> nn.Module:
        layer = nn.Conv2d(inputs, outputs, 3, padding=1)
        options = {"dtype": torch.int8, "qscheme": torch.per_channel_symmetric, "averaging_constant": 1.0}
        quantizer = kind(peer.MovingAveragePerChannelMinMaxObserver, lowest, 7, **options)
        parametrize.register_parametrization(layer, "weight", quantizer)
        return layer

    def activation() -> nn.Module:
        quantizer = peer.FusedMovingAvgObsFakeQuantize(quant_min=0, quant_max=15, dtype=torch.uint8)
        quantizer.disable_observer()
        observer = quantizer.activation_post_process
        observer.min_val.fill_(0), observer.max_val.fill_(1)
        return quantizer

    for name, kind, lowest in (("observed", peer.FakeQuantize, -7), ("fused", peer.FusedMovingAvgObsFakeQuantize, -8)):
        yield from four_bit(f"{name} weights on {lowest} .. 7", partial(conv, kind, lowest), activation)


NETS: dict[str, Callable[[], Nets]] = {
    function.__name__: function for function in (snntorch, vector_quantize_pytorch, brevitas, torchao)
}
