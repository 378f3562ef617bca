"""Trains a spiking net on digits that arrive as spikes over time, under three derivatives of the spike.

The hard op is the step function that makes a neuron fire; under its subgradient, which is 0, the neurons do not learn.

    python examples/spiking.py
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import hardgrad as hg

TIME = 10
STRATEGIES = {  # both kernels have half of their area within 0.25 of the threshold
    "subgradient": hg.strategies.Subgradient(),
    "fast sigmoid": hg.strategies.StraightThrough(carrier="smooth", kernel="fast_sigmoid", temperature=0.25),
    "triangular": hg.strategies.StraightThrough(carrier="smooth", kernel="triangular", temperature=0.854),
}


class Neurons(nn.Module):
    """A layer of leaky integrate-and-fire neurons."""

    def __init__(self, inputs: int, outputs: int, strategy: hg.Strategy) -> None:
        super().__init__()
        self.current = nn.Linear(inputs, outputs)
        self.spike = hg.layers.Spike(strategy, decay=0.9, threshold=1.0)  # the hard op, and what trains it

    def forward(self, spikes: Tensor) -> Tensor:
        """Spikes (time, batch, inputs) to spikes (time, batch, outputs)."""
        return self.spike.over_time(self.current(spikes))


class Readout(nn.Linear):
    """Class scores from the mean of the spikes over time."""

    def forward(self, spikes: Tensor) -> Tensor:
        """Spikes (time, batch, inputs) to scores (batch, outputs)."""
        return super().forward(spikes.mean(0))


def to_spikes(images: Tensor) -> Tensor:
    """Pixels (batch, 64) to spikes (time, batch, 64): the brighter a pixel, the more often it fires."""
    return (torch.rand(TIME, *images.shape) < images).float()


def main() -> None:
    """Trains under each strategy and prints the test accuracies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600, help="optimizer steps for each strategy")
    steps = parser.parse_args().steps

    digits = load_digits()
    images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    for name, strategy in STRATEGIES.items():
        torch.manual_seed(0)
        model = nn.Sequential(Neurons(64, 128, strategy), Neurons(128, 128, strategy), Readout(128, 10))
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        for _ in range(steps):
            batch = torch.randint(1437, (64,))  # the last 360 images are for testing
            optimizer.zero_grad()
            cross_entropy(model(to_spikes(images[batch])), labels[batch]).backward()
            optimizer.step()
        with torch.no_grad():
            right = model.eval()(to_spikes(images[1437:])).argmax(1) == labels[1437:]
        print(f"{name:<14}{100 * right.float().mean():6.1f} % of the test images right", flush=True)


if __name__ == "__main__":
    main()
