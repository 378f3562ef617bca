"""Trains a VQ-VAE on digits, with straight-through and with the rotation trick.

The hard op is the choice of the nearest code; both strategies start from the same weights and codes. docs/vqvae.md
explains the three terms of the loss.

    python examples/vqvae.py
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import mse_loss

import hardgrad as hg

CODES, SIZE = 64, 8
STRATEGIES = {
    "straight-through": hg.strategies.StraightThrough(),
    "rotation trick": hg.strategies.StraightThrough(form="rotation"),
}


class VQVAE(nn.Module):
    """Turns an image of 8 x 8 pixels into 4 x 4 codes, and the codes into an image."""

    def __init__(self, strategy: hg.Strategy) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, SIZE, 3, 1, 1))
        self.quantize = hg.layers.VectorQuantizer(strategy, entries=CODES, size=SIZE)
        self.decode = nn.Sequential(nn.Conv2d(SIZE, 64, 3, 1, 1), nn.ReLU(), nn.ConvTranspose2d(64, 1, 4, 2, 1))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The reconstruction, the sum of the two further losses of a VQ-VAE, and the numbers of the codes."""
        coded = self.quantize(self.encode(images), losses=True)
        return self.decode(coded.values), coded.codebook_loss + 0.25 * coded.commitment_loss, coded.indices


def train(model: VQVAE, images: Tensor, steps: int) -> None:
    """An ordinary training loop."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        batch = images[torch.randint(len(images), (128,))]
        rebuilt, further, _ = model(batch)
        optimizer.zero_grad()
        (mse_loss(rebuilt, batch) + further).backward()
        optimizer.step()


def main() -> None:
    """Trains under each strategy and prints a row of results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000, help="optimizer steps for each strategy")
    steps = parser.parse_args().steps

    images = torch.tensor(load_digits().images[:, None], dtype=torch.float32) / 16
    seen, new = images[:1437], images[1437:]
    print(f"{'':<18}{'error on new images':>20}{'codes in use':>16}{'perplexity':>12}")
    print(f"{'the mean image':<18}{mse_loss(seen.mean(0).expand_as(new), new):>20.4f}")
    for name, strategy in STRATEGIES.items():
        torch.manual_seed(0)
        model = VQVAE(strategy)
        hg.calibrate(model, seen[:256])  # puts the codes where a first batch is
        train(model, seen, steps)
        with torch.no_grad():
            rebuilt, _, indices = model.eval()(new)
        counts = indices.unique(return_counts=True)[1]
        perplexity = torch.distributions.Categorical(counts).entropy().exp()
        print(f"{name:<18}{mse_loss(rebuilt, new):>20.4f}{len(counts):>10} of {CODES}{perplexity:>12.1f}", flush=True)


if __name__ == "__main__":
    main()
