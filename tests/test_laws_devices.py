"""Law of the devices: a graphics card gives what the processor gives."""

import pytest
import torch
from torch import Tensor

from products import FULL, HALF, Cell, Part, extremes, gradients, law, sample

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
