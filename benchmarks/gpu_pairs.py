"""Runs every op under every strategy on a device: compared with the CPU, and its cost at the size of a wide layer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from surrogates.core import EmptyCell, Op, Strategy
from surrogates.members import ops, strategies

T = 0.3
WITHIN = {torch.float64: 1e-9, torch.float32: 1e-4}  # absolute, and relative to the CPU's number
WIDE, SMALL = (64, 4096), (4, 64)
REPEATS = 5


def pairs() -> Iterator[tuple[str, Op, Strategy]]:
    """Yields each op and strategy, with their defaults, that form a pair, and the name of the pair."""
    for op_name, op_class in ops().items():
        for name, strategy_class in strategies().items():
            op, strategy = op_class(), strategy_class()
            try:
                strategy.check(op)
            except EmptyCell:
                continue
            yield f"`{name}` on {op_name}", op, strategy


def inputs(op: Op, shape: tuple[int, ...], dtype: torch.dtype) -> list[Tensor]:
    """Draws inputs on the CPU; a table or a codebook has its own shape."""
    stream = torch.Generator().manual_seed(0)
    shapes = [shape] * op.inputs
    if type(op).__name__ in ("Lookup", "VectorQuantize"):
        shapes[1] = (5,) if type(op).__name__ == "Lookup" else (7, shape[-1])
    return [1.3 * torch.randn(size, generator=stream, dtype=torch.float64).to(dtype) for size in shapes]


def noise(op: Op, strategy: Strategy, x: list[Tensor]) -> Tensor | None:
    """Draws the same uniforms for every device."""
    shape = strategy.noise_shape(op, *x)
    if shape is None:
        return None
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return drawn.clamp(1e-6, 1 - 1e-6).to(torch.promote_types(x[0].dtype, torch.float32))


def outcome(op: Op, strategy: Strategy, x: list[Tensor], uniform: Tensor | None) -> list[Tensor]:
    """Returns the value, and the gradients of its sum if there are any."""
    leaves = [tensor.detach().requires_grad_() for tensor in x]
    value = strategy(op, *leaves, T=T, noise=uniform)
    found = torch.autograd.grad(value.sum(), leaves, allow_unused=True) if value.requires_grad else ()
    return [value.detach(), *(slope for slope in found if slope is not None)]


def laws(device: str, _: Path) -> Iterator[tuple[str, bool]]:
    """Compares values and gradients on the device and on the CPU, from the same inputs and noise."""
    for dtype, within in WITHIN.items():
        count, worst = 0, 0.0
        for name, op, strategy in pairs():
            x = inputs(op, (16, 24), dtype)
            uniform = noise(op, strategy, x)
            here = outcome(op, strategy, x, uniform)
            there = outcome(op, strategy, [t.to(device) for t in x], None if uniform is None else uniform.to(device))
            distance = max(apart(a.cpu(), b) for a, b in zip(there, here, strict=True))
            count, worst = count + 1, max(worst, distance)
            if not distance <= within:
                yield f"- {name}, {dtype}: {distance:.1e} apart", False
        yield f"- {dtype}: {count} pairs, at most {worst:.1e} apart, {within:.0e} allowed", count > 100


def apart(a: Tensor, b: Tensor) -> float:
    """The largest |a - b| / max(1, |b|); infinite if shapes, dtypes or places of NaN differ."""
    if a.shape != b.shape or a.dtype != b.dtype or not torch.equal(a.isnan(), b.isnan()):
        return float("inf")
    distance = ((a - b).abs() / b.abs().clamp(min=1)).nan_to_num()
    return float(distance.max()) if distance.numel() else 0.0


def times(device: str, _: Path) -> Iterator[tuple[str, bool]]:
    """Times forward and backward at the size of a wide layer; running out of memory is not a failure."""
    shape = SMALL if device == "cpu" else WIDE
    yield f"forward and backward on {shape}, median of {REPEATS}; peak memory in MB\n", True
    yield "| pair | float32, ms | MB | autocast, ms | MB |\n|---|---|---|---|---|", True
    for name, op, strategy in pairs():
        x = [tensor.to(device) for tensor in inputs(op, shape, torch.float32)]
        uniform = noise(op, strategy, x)
        uniform = None if uniform is None else uniform.to(device)
        cells, well = [], True
        for autocast in (False, True):
            try:
                milliseconds, bytes_used, finite = cost(op, strategy, x, uniform, device, autocast)
            except torch.OutOfMemoryError:
                cells += ["out of memory", "-"]
                continue
            cells += [f"{milliseconds:.3g}", f"{bytes_used / 1e6:.0f}" if bytes_used else "-"]
            well &= finite
        yield f"| {name} | {' | '.join(cells)} |", well


def cost(
    op: Op, strategy: Strategy, x: list[Tensor], uniform: Tensor | None, device: str, autocast: bool
) -> tuple[float, int, bool]:
    """Returns milliseconds, peak memory, and whether value and gradients are finite and keep the inputs' dtype."""
    cuda = device != "cpu"
    taken = []
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    for _ in range(REPEATS + 1):
        wait(device)
        start = time.perf_counter()
        with torch.autocast(torch.device(device).type, torch.bfloat16) if autocast else nullcontext():
            found = outcome(op, strategy, x, uniform)
        wait(device)
        taken.append((time.perf_counter() - start) * 1e3)
    well = all(bool(tensor.isfinite().all()) and tensor.dtype == torch.float32 for tensor in found)
    return median(taken[1:]), torch.cuda.max_memory_allocated(device) if cuda else 0, well


def wait(device: str) -> None:
    """Waits until the device has finished its work."""
    if device != "cpu":
        torch.cuda.synchronize(device)
