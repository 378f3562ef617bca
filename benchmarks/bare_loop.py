"""The bare PyTorch loop that a training step is measured against: no logging, no configuration, one thread.

Model 64-W-W-10 MLP, 4-bit straight-through activations, SGD with momentum, batch 64, scikit-learn digits.
Prints milliseconds a step. Usage: python benchmarks/bare_loop.py [steps] [width]
"""

import sys
import time

import torch
from sklearn.datasets import load_digits
from torch import nn


def quantize(x: torch.Tensor) -> torch.Tensor:
    """4 bits on [0, 1], straight-through inside the range."""
    x = x.clamp(0, 1) * 15
    return (x + (x.round() - x).detach()) / 15


class MLP(nn.Module):
    """Two quantized hidden layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(64, width), nn.Linear(width, width), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.c(quantize(self.b(quantize(self.a(x)))))


def main(steps: int = 600, width: int = 128) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    model = MLP(width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    start = 0.0
    for step in range(steps + 20):
        if step == 20:
            start = time.perf_counter()
        index = torch.randint(0, 1437, (64,))
        loss = nn.functional.cross_entropy(model(x[index]), y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{(time.perf_counter() - start) / steps * 1e3:.4f}")


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
