"""A checkpoint of format 1, kept as a file, loads for as long as this program says that it reads format 1."""

from pathlib import Path

import torch

from experiments.tracking.checkpoint import FORMAT, load, save

OLD = Path(__file__).parent / "files" / "checkpoint_format_1.pt"


def state():
    return {
        "config_hash": "0123456789abcdef",
        "trainer": {"step": 7, "model": {"readout.weight": torch.arange(6.0).reshape(2, 3) / 3}, "missing": []},
        "best": {"accuracy/val": 0.5, "step": None},
    }


def test_a_checkpoint_of_the_first_format_loads():
    assert FORMAT == 1, "a new format needs a new file here, and the old one has to load all the same"
    old, expected = load(OLD), state()
    assert torch.equal(
        old["trainer"]["model"].pop("readout.weight"), expected["trainer"]["model"].pop("readout.weight")
    )
    assert old == expected


if __name__ == "__main__":
    save(OLD, state())
