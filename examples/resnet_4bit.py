"""Trains a torchvision ResNet-18 on digits, in full precision and with 4-bit weights and activations.

The hard op is rounding; under its subgradient, which is 0, the 4-bit weights do not learn.

    python examples/resnet_4bit.py
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, interpolate
from torchvision.models import resnet18

import hardgrad as hg


def train(model: nn.Module, images: Tensor, labels: Tensor, steps: int) -> None:
    """An ordinary training loop."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        chosen = torch.randint(len(images), (64,))
        loss = cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 20 == 0 or step == steps - 1:
            print(f"  step {step:4d}  loss {loss.item():.3f}", flush=True)


def main() -> None:
    """Trains the three models and prints their test accuracies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60, help="optimizer steps for each model")
    steps = parser.parse_args().steps

    digits = load_digits()
    images = torch.tensor(digits.images[:, None], dtype=torch.float32) / 16
    images = interpolate(images, scale_factor=4).expand(-1, 3, -1, -1)  # 32 x 32 pixels, three channels
    labels = torch.tensor(digits.target)

    accuracy = {}
    for name, strategy in {
        "full precision": None,
        "4 bits, straight-through": "ste",
        "4 bits, subgradient": "subgradient",
    }.items():
        print(name)
        torch.manual_seed(0)
        model = resnet18(num_classes=10)
        if strategy:
            hg.quantize_model(model, strategy, images[:64])  # all but the first and the last layer, as is usual
        train(model, images[:1437], labels[:1437], steps)
        with torch.no_grad():
            accuracy[name] = (model.eval()(images[1437:]).argmax(1) == labels[1437:]).float().mean().item()
    for name, share in accuracy.items():
        print(f"{name:<26}{100 * share:5.1f} % of the test images right")


if __name__ == "__main__":
    main()
