"""A stack's training step as one compiled function: forward, backward, clipping and optimizer in one graph.

The gradient is taken inside (torch.func.grad), so that the compiler fuses across forward and backward; two graphs, as
autograd would have them, hand each other masks that are slow to write. Compiled code is kept on disk between sweeps by
torch itself (TORCHINDUCTOR_CACHE_DIR).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad

from experiments.parameter_names import readable
from experiments.stacked.optimizers import Number, StackedOptimizer

State = dict[str, Tensor]


def cross_entropy(logits: Tensor, y: Tensor, replicas: int) -> Tensor:
    """log sum_j exp(l_j) - l_y, the mean over each replica's samples (R,); torch's takes 3 x as long for 10 classes."""
    shifted = logits - logits.detach().amax(1, keepdim=True)
    losses = shifted.exp().sum(1).log() - shifted.gather(1, y.unsqueeze(1)).squeeze(1)
    return losses.view(replicas, -1).mean(1)


@torch.no_grad()
def cross_entropy_and_gradient(logits: Tensor, y: Tensor, replicas: int) -> tuple[Tensor, Tensor]:
    """The same losses, and the derivative of their sum by the logits, (softmax - one-hot) / B, without a graph."""
    shifted = logits - logits.amax(1, keepdim=True)
    right = y.unsqueeze(1)
    chosen = shifted.gather(1, right).squeeze(1)
    powers = shifted.exp_()
    total = powers.sum(1, keepdim=True)
    losses = (total.squeeze(1).log() - chosen).view(replicas, -1).mean(1)
    share = replicas / len(y)
    gradient = powers.mul_(share / total).scatter_add_(1, right, powers.new_full((), -share).expand_as(right))
    return losses, gradient


def clip_factor(norms: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """From gradient norms (parameters, R): what to scale each replica's by, and 1 where that changes them, else 0.

    Where the norm is not finite nothing is changed.
    """
    norm = torch.linalg.vector_norm(norms, dim=0)
    norm = torch.where(norm.isfinite(), norm, 0.0)
    return (limit / (norm + 1e-6)).clamp(max=1.0), (norm > limit).float()


class CompiledStep:
    """`step(x, y, rates)` advances a stack's parameters and its optimizer's state in place.

    `reached` are the parameters that receive gradients, by their logged names. It neither draws noise nor changes
    buffers; `obstacle` says why a model cannot have one.
    """

    def __init__(
        self, model: nn.Module, optimizer: StackedOptimizer, reached: set[str], clip_norm: float | None, replicas: int
    ) -> None:
        self.model, self.optimizer, self.clip_norm, self.replicas = model, optimizer, clip_norm, replicas
        everything = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        self.trained = {name: tensor.detach() for name, tensor in everything.items() if readable(name) in reached}
        self.fixed = {name: tensor.detach() for name, tensor in everything.items() if name not in self.trained}
        self.states = {name: optimizer.state.get(readable(name), {}) for name in self.trained}
        self._compiled: Any = torch.compile(self._step, fullgraph=True, dynamic=False)

    def __call__(self, x: Tensor, y: Tensor, rates: list[float]) -> tuple[Tensor, Tensor | None]:
        """The losses (R,), and whose gradients were clipped (R,) if any can be."""
        numbers = {key: self._tensor(value) for key, value in self.optimizer.numbers(rates).items()}
        done: tuple[Tensor, Tensor | None] = self._compiled(self.trained, self.fixed, self.states, x, y, numbers)
        return done

    def _tensor(self, value: Number) -> Tensor:
        return value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)

    def _step(
        self, trained: State, fixed: State, states: dict[str, State], x: Tensor, y: Tensor, numbers: State
    ) -> tuple[Tensor, Tensor | None]:
        def loss(trained: State) -> tuple[Tensor, Tensor]:
            losses = cross_entropy(functional_call(self.model, {**trained, **fixed}, (x,)), y, self.replicas)
            return losses.sum(), losses

        gradients, losses = grad(loss, has_aux=True)(trained)
        clipped = None
        if self.clip_norm is not None:
            rows = [g.reshape(self.replicas, -1).to(torch.float64) for g in gradients.values()]
            factor, clipped = clip_factor(torch.stack([(row * row).sum(1).sqrt() for row in rows]), self.clip_norm)
            gradients = {
                name: g * factor.to(g.dtype).view(-1, *(1 for _ in g.shape[1:])) for name, g in gradients.items()
            }
        for name, gradient in gradients.items():
            self.optimizer.update(trained[name], gradient, states[name], numbers)
        return losses, clipped


def obstacle(model: nn.Module) -> str | None:
    """Why the training step of a stack cannot be compiled, None if nothing is known."""
    from surrogates import hard_layers

    layers = hard_layers(model).values()
    if any(layer.strategy.noisy(layer.op) for layer in layers):
        return "its noise is drawn outside of a graph"
    own = sum(layer.temperature is not None for layer in layers)
    if len(list(model.buffers())) > own:
        return "it changes buffers (batch norm) in training"
    return None
