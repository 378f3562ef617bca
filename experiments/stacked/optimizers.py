"""torch.optim's SGD, Adam and AdamW over stacked parameters (R, ...), with separate hyperparameters for each replica.

A hyperparameter that all replicas share is a float, else a tensor (R,). Each replica's state is the same as that of
torch.optim.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from experiments.optimizers.adam import Adam
from experiments.optimizers.adamw import AdamW
from experiments.optimizers.optimizer import Optimizer
from experiments.optimizers.sgd import SGD
from surrogates.known import send

Number = float | Tensor
State = dict[str, dict[str, Tensor]]  # by parameter name, then by torch.optim's key


class StackedOptimizer:
    """Optimizer steps of R replicas; `state` is kept by parameter name, replica axis first."""

    def __init__(self, policies: Sequence[Optimizer], parameters: Mapping[str, nn.Parameter]) -> None:
        self.policies, self.parameters = policies, parameters
        self.device = next(iter(parameters.values())).device
        self.state: State = {}
        self.steps = 0
        self.decay = self._share_or_stack([policy.weight_decay for policy in policies])
        distinct = list(dict.fromkeys(policies))
        self._distinct, self._index = distinct, [distinct.index(policy) for policy in policies]

    def _share_or_stack(self, values: Sequence[float]) -> Number:
        if len(set(values)) == 1:
            return float(values[0])
        return send(values, torch.float64, self.device)

    def rates(self, step: int, max_steps: int) -> list[float]:
        """Each replica's learning rate at optimizer step `step`, counted from 0."""
        rates = [policy.lr_at(step, max_steps) if policy.scheduled else policy.lr for policy in self._distinct]
        return [rates[index] for index in self._index]

    def numbers(self, rates: Sequence[float]) -> dict[str, Number]:
        """Counts the next step, and returns its factors by name."""
        self.steps += 1
        return {"lr": self._share_or_stack(rates), "decay": self.decay}

    @torch.no_grad()
    def advance(self, rates: Sequence[float]) -> None:
        """One step with these learning rates; parameters without a gradient do not change, as in torch.optim."""
        numbers = self.numbers(rates)
        for name, parameter in self.parameters.items():
            if parameter.grad is not None:
                self.update(parameter, parameter.grad, self.state.setdefault(name, {}), numbers)

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], numbers: Mapping[str, Number]) -> None:
        """Updates one parameter in place."""
        raise NotImplementedError

    def replica_state(self, index: int) -> dict[str, Any]:
        """What torch.optim's `state_dict` would hold for one replica."""
        kept = {
            number: {key: value[index].clone() for key, value in self.state[name].items()}
            for number, name in enumerate(self.parameters)
            if self.state.get(name)
        }
        return {"state": kept, "param_groups": groups(self.policies[index], len(self.parameters))}

    def restore(self, states: Sequence[Mapping[str, Any]], steps: int) -> None:
        """Loads the states of the replicas, all after `steps` optimizer steps."""
        self.steps = steps
        for number, name in enumerate(self.parameters):
            first = states[0]["state"].get(number)
            if first:
                own = [state["state"][number] for state in states]
                self.state[name] = {key: self._place(key, torch.stack([kept[key] for kept in own])) for key in first}

    def _place(self, key: str, rows: Tensor) -> Tensor:
        """Moves an entry to the parameters' device. A step counter stays on the CPU, as in torch.optim."""
        return rows if key == "step" else rows.to(self.device)


class StackedSGD(StackedOptimizer):
    """SGD with momentum: v = m v + g, p = p - lr v, or with Nesterov's p - lr (g + m v); g includes the decay of p."""

    def __init__(self, policies: Sequence[SGD], parameters: Mapping[str, nn.Parameter]) -> None:
        super().__init__(policies, parameters)
        self.momentum = self._share_or_stack([policy.momentum for policy in policies])
        self.nesterov = policies[0].nesterov

    def numbers(self, rates: Sequence[float]) -> dict[str, Number]:
        """The rates, decays and momenta."""
        return {**super().numbers(rates), "momentum": self.momentum}

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], numbers: Mapping[str, Number]) -> None:
        """Updates one parameter in place."""
        if not _is_zero(self.decay):
            gradient = add(gradient.clone(), numbers["decay"], p)
        if not _is_zero(self.momentum):
            if "momentum_buffer" in state:
                velocity = add(scale(state["momentum_buffer"], numbers["momentum"]), 1.0, gradient)
            else:
                velocity = state["momentum_buffer"] = gradient.clone()
            gradient = add(gradient.clone(), numbers["momentum"], velocity) if self.nesterov else velocity
        add(p, -numbers["lr"], gradient)


class StackedAdam(StackedOptimizer):
    """Adam: m, v running means of g and g^2; p = p - lr m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)."""

    decoupled = False

    def numbers(self, rates: Sequence[float]) -> dict[str, Number]:
        """The rates and decays, and the corrections of the running means' bias."""
        policy: Any = self.policies[0]
        numbers = super().numbers(rates)
        size = numbers["lr"] / (1 - policy.beta1**self.steps)
        return {**numbers, "size": size, "bias": math.sqrt(1 - policy.beta2**self.steps)}

    def update(self, p: Tensor, gradient: Tensor, state: dict[str, Tensor], numbers: Mapping[str, Number]) -> None:
        """Updates one parameter in place."""
        policy: Any = self.policies[0]
        if not state:
            state["step"] = torch.zeros(len(p))
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
        state["step"] += 1
        if not _is_zero(self.decay):
            if self.decoupled:
                scale(p, 1 - numbers["lr"] * numbers["decay"])
            else:
                gradient = add(gradient.clone(), numbers["decay"], p)
        state["exp_avg"].lerp_(gradient, 1 - policy.beta1)
        state["exp_avg_sq"].mul_(policy.beta2).addcmul_(gradient, gradient, value=1 - policy.beta2)
        root = scale(state["exp_avg_sq"].sqrt(), 1 / numbers["bias"]).add_(policy.eps)
        add(p, -numbers["size"], state["exp_avg"] / root)


class StackedAdamW(StackedAdam):
    """Adam with decoupled decay: p = p (1 - lr w) before the step."""

    decoupled = True


def groups(policy: Optimizer, count: int) -> list[dict[str, Any]]:
    """The `param_groups` in the `state_dict` of the policy's torch optimizer over `count` parameters."""
    kept: list[dict[str, Any]] = policy.build(nn.Parameter(torch.empty(0)) for _ in range(count)).state_dict()[
        "param_groups"
    ]
    return kept


KINDS: dict[type[Optimizer], type[Any]] = {SGD: StackedSGD, Adam: StackedAdam, AdamW: StackedAdamW}


def add(y: Tensor, a: Number, x: Tensor) -> Tensor:
    """Adds a x to y in place; a is one number, or one for each replica."""
    if isinstance(a, Tensor):
        return y.addcmul_(x, _along(a, x))
    return y.add_(x, alpha=a)


def scale(y: Tensor, a: Number) -> Tensor:
    """Multiplies y by a in place; a is one number, or one for each replica."""
    return y.mul_(_along(a, y) if isinstance(a, Tensor) else a)


def _along(a: Tensor, x: Tensor) -> Tensor:
    return a.to(x.dtype).view(-1, *(1 for _ in x.shape[1:])) if a.dim() else a.to(x.dtype)


def _is_zero(a: Number) -> bool:
    return isinstance(a, float) and a == 0.0
