"""Laws of the devices: a graphics card gives what the processor gives, and the processor does not wait for it."""

import pytest
import torch
from emulated_device import NAME, OnDevice, emulated_device
from torch import Tensor

from products import FULL, HALF, OPS, Cell, Part, extremes, gradients, law, parts, sample

T = 0.3
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def outcome(cell: Cell, x: list[Tensor], device: str) -> list[Tensor]:
    """Value and gradients of the cell on a device, on the processor again; the noise is the same everywhere."""
    noise = cell.noise(*x)
    noise = None if noise is None else noise.to(device)
    there = [t.to(device) for t in x]
    temperature = torch.tensor(T, device=device)
    found = [cell(*there, T=temperature, noise=noise)]
    found += gradients(lambda *i: cell(*i, T=temperature, noise=noise), there)
    assert all(t.device.type == device for t in found), cell
    return [t.cpu() for t in found]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@law()
def test_cuda_is_the_cpu(part: Part) -> None:
    ran = 0
    for dtype in FULL + HALF:
        within = {"atol": TOLERANCE[dtype], "rtol": TOLERANCE[dtype]}
        for x in (sample(part.op, (3, 4), dtype), extremes(part.op, dtype)):
            for cell in part.cells:
                pairs = zip(outcome(cell, x, "cuda"), outcome(cell, x, "cpu"), strict=True)
                for there, here in pairs:
                    torch.testing.assert_close(there, here, **within, msg=lambda m, cell=cell: f"{cell}: {m}")
                ran += 1
    assert ran == 8 * len(part.cells)


@law()
def test_the_law_above_compares_what_a_cell_gives(part: Part) -> None:
    """What it compares is there and has the input's dtype, whether or not a card is."""
    for cell in part.cells[:2]:
        x = sample(part.op)
        found = outcome(cell, x, "cpu")
        assert len(found) == 1 + len(x)
        assert all(t.dtype == torch.float64 and t.isfinite().all() for t in found), cell


# Beyond the unit suite's cells there are so many that they are left to the night.
PARTS = [
    pytest.param(part, id=f"{op}{suffix}", marks=marks)
    for op in OPS
    for part, suffix, marks in zip(parts(op), ("", "-rest"), ([], [pytest.mark.slow, pytest.mark.nightly]), strict=True)
    if part.cells
]


@pytest.mark.parametrize("part", PARTS)
def test_no_pair_mixes_devices_or_waits(part: Part) -> None:
    """On an emulated device, forward and backward, with values as on the processor, and infinite numbers among them.

    `T` is a number, as a layer hands it on, and then a tensor of the device.
    """
    for cell in part.cells:
        x = extremes(part.op, torch.float32)
        noise = cell.noise(*x)
        expected = [cell(*x, T=T, noise=noise), *gradients(lambda *i, c=cell, n=noise: c(*i, T=T, noise=n), x)]
        with emulated_device() as waits:
            there = [t.to(NAME) for t in x]
            own = None if noise is None else noise.to(NAME)
            tensor = torch.tensor(T, device=NAME)
            waits.clear()
            found = [cell(*there, T=T, noise=own), *gradients(lambda *i, c=cell, n=own: c(*i, T=T, noise=n), there)]
            found.append(cell(*there, T=tensor, noise=own))
            assert waits == [], cell
        for value, wanted in zip(found, [*expected, expected[0]], strict=True):
            assert (value is None) == (wanted is None), cell
            if value is not None:
                assert type(value) is OnDevice, cell
                torch.testing.assert_close(
                    value.numbers, wanted, equal_nan=True, msg=lambda m, cell=cell: f"{cell}: {m}"
                )


def test_the_emulated_device_refuses_what_a_card_refuses() -> None:
    """And notes each wait; else the laws above would hold of anything."""
    with emulated_device() as waits:
        x = torch.tensor([3.0, 4.0], device=NAME)
        assert waits == ["_to_copy"]
        waits.clear()
        for mixed in (
            lambda: x + torch.ones(2),
            lambda: torch.stack([x[0], torch.ones(())]),
            lambda: x @ torch.ones(2),
        ):
            with pytest.raises(RuntimeError, match="on two devices"):
                mixed()
        assert (x + torch.ones(())).device == x.device
        assert waits == []
        assert float(x.sum()) == 7.0
        assert x.tolist() == [3.0, 4.0]
        assert x[x > 3].shape == (1,)
        x.copy_(torch.zeros(2))
        assert waits == ["_local_scalar_dense", "_to_copy", "index", "copy_"]
        x.copy_(torch.ones(2), non_blocking=True)
        assert len(waits) == 4
