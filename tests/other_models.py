"""Small models of other libraries, and a mixture of experts and a BitLinear as people write them by hand.

Each function makes one, with random weights. Needs pip install -e '.[models]'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class BitLinear(nn.Linear):
    """Weights -1, 0, 1 times their mean size, 8-bit inputs (Ma et al. 2024, arXiv 2402.17764)."""

    def forward(self, x: Tensor) -> Tensor:
        scale = 127 / x.abs().amax(-1, keepdim=True).clamp(min=1e-5)
        x = x + ((x * scale).round().clamp(-128, 127) / scale - x).detach()
        size = self.weight.abs().mean().clamp(min=1e-5)
        w = self.weight + ((self.weight / size).round().clamp(-1, 1) * size - self.weight).detach()
        return nn.functional.linear(x, w, self.bias)


class Experts(nn.Module):
    """Each row goes through the two experts with the largest scores (Shazeer et al. 2017, arXiv 1701.06538)."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, x: Tensor) -> Tensor:
        scores, chosen = self.router(x).topk(2, -1)
        weights, out = scores.softmax(-1), torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            row, rank = torch.where(chosen == number)
            out = out.index_add(0, row, weights[row, rank].unsqueeze(-1) * expert(x[row]))
        return out


class EveryExpert(Experts):
    """The same function; every expert sees every row, and most of its outputs get the weight 0."""

    def forward(self, x: Tensor) -> Tensor:
        logits = self.router(x)
        scores, chosen = logits.topk(2, -1)
        gates = torch.zeros_like(logits).scatter(-1, chosen, scores.softmax(-1))
        return (gates.unsqueeze(-2) * torch.stack([expert(x) for expert in self.experts], -1)).sum(-1)


class OverTime(nn.Module):
    """The sum of a net's spikes over four steps."""

    def __init__(self, reset: Callable[[nn.Module], object], *layers: nn.Module) -> None:
        super().__init__()
        self.net, self.reset = nn.Sequential(*layers), reset

    def forward(self, x: Tensor) -> Tensor:
        self.reset(self.net)
        return torch.stack([self.net(x) for _ in range(4)]).sum(0)


class First(nn.Module):
    """A linear layer and a quantizer, whose first result counts."""

    def __init__(self, quantizer: nn.Module) -> None:
        super().__init__()
        self.linear, self.quantizer = nn.Linear(6, 4), quantizer

    def forward(self, x: Tensor) -> Tensor:
        return self.quantizer(self.linear(x))[0]


def bit_linear() -> nn.Module:
    return nn.Sequential(BitLinear(6, 8), nn.GELU(), BitLinear(8, 3))


def resnet() -> nn.Module:
    from torchvision.models import resnet18

    return resnet18(num_classes=10)


def mobilenet() -> nn.Module:
    from torchvision.models import mobilenet_v3_small

    return mobilenet_v3_small(num_classes=10, dropout=0.0)


def swin() -> nn.Module:
    from torchvision.models import SwinTransformer

    return SwinTransformer([2, 2], 24, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0, num_classes=10)


def snntorch() -> nn.Module:
    from snntorch import Leaky, surrogate, utils

    layers = [Leaky(0.9, spike_grad=surrogate.atan(), init_hidden=True) for _ in range(2)]
    return OverTime(utils.reset, nn.Linear(6, 16), layers[0], nn.Linear(16, 3), layers[1])


def spikingjelly() -> nn.Module:
    from spikingjelly.activation_based import functional, neuron, surrogate

    layers = [neuron.LIFNode(v_threshold=0.2, surrogate_function=surrogate.ATan()) for _ in range(2)]
    return OverTime(functional.reset_net, nn.Linear(6, 16), layers[0], nn.Linear(16, 3), layers[1])


def codes(kind: str, **options: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import vector_quantize_pytorch as package

        return First(getattr(package, kind)(**options))

    return build


def brevitas() -> nn.Module:
    from brevitas.nn import QuantConv2d, QuantLinear, QuantReLU

    layers = QuantConv2d(1, 4, 3, weight_bit_width=4), QuantReLU(bit_width=4), nn.Flatten()
    return nn.Sequential(*layers, QuantLinear(144, 3, bias=True, weight_bit_width=4))


def torchao() -> nn.Module:
    from torchao.quantization.qat import IntxFakeQuantizeConfig
    from torchao.quantization.qat.linear import FakeQuantizedLinear

    inputs = IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False)
    weights = IntxFakeQuantizeConfig(torch.int4, group_size=8)
    layers = [FakeQuantizedLinear(*size, False, inputs, weights) for size in ((8, 16), (16, 3))]
    return nn.Sequential(layers[0], nn.ReLU(), layers[1])


def bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    size = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    noiseless = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return BertModel(BertConfig(**size, **noiseless, num_attention_heads=2), add_pooling_layer=False)
