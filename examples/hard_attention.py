"""Trains attention that reads exactly one of eight positions, under six strategies.

Each position holds a key and a value, and the answer is the value beside the key that the query names.
The hard op is argmax; under its subgradient, which is 0, the choice of the position does not learn.

    python examples/hard_attention.py
"""

import argparse

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import hardgrad as hg

POSITIONS, KEYS, VALUES, WIDTH = 8, 32, 10, 32
STRATEGIES = ("subgradient", "ste", "smooth", "rewrite", "gumbel", "reinmax")


class Attention(nn.Module):
    """Scores the keys against the query and reads the value at the best position."""

    def __init__(self, strategy: str) -> None:
        super().__init__()
        self.key, self.query = nn.Embedding(KEYS, WIDTH), nn.Embedding(KEYS, WIDTH)
        self.value, self.answer = nn.Embedding(VALUES, WIDTH), nn.Linear(WIDTH, VALUES)
        self.pick = hg.HardLayer("argmax", strategy)  # the hard op, and what trains it

    def forward(self, keys: Tensor, values: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """The scores of the answers (batch, values), and the position read, as a one-hot vector."""
        scores = torch.einsum("bpw,bw->bp", self.key(keys), self.query(query)) / WIDTH**0.5
        picked = self.pick(scores)
        return self.answer(torch.einsum("bp,bpw->bw", picked, self.value(values))), picked


def sample(size: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Distinct keys and values at each position, a query, and the position and the value that it asks for."""
    keys = torch.rand(size, KEYS).argsort(1)[:, :POSITIONS]
    values, position = torch.randint(VALUES, (size, POSITIONS)), torch.randint(POSITIONS, (size,))
    rows = torch.arange(size)
    return keys, values, keys[rows, position], position, values[rows, position]


def main() -> None:
    """Trains under each strategy and prints a row of results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500, help="optimizer steps for each strategy")
    steps = parser.parse_args().steps

    print(f"{'strategy':<12}{'right position':>16}{'right answer':>14}")
    for strategy in STRATEGIES:
        torch.manual_seed(0)
        model = Attention(strategy)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for step in range(steps):
            hg.anneal(model, step / steps)  # the temperature, where the strategy has a schedule
            hg.key_noise(model, seed=0, step=step)  # the noise, where the strategy draws some
            keys, values, query, _, answer = sample(256)
            optimizer.zero_grad()
            cross_entropy(model(keys, values, query)[0], answer).backward()
            optimizer.step()
        keys, values, query, position, answer = sample(4096)
        with torch.no_grad():
            scores, picked = model.eval()(keys, values, query)
        shares = [100 * (a == b).float().mean() for a, b in ((picked.argmax(1), position), (scores.argmax(1), answer))]
        print(f"{strategy:<12}{shares[0]:>14.1f} %{shares[1]:>12.1f} %", flush=True)


if __name__ == "__main__":
    main()
