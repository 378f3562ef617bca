"""Tests one step: how the hard loss changes along the negative gradient, over a range of step lengths."""

from __future__ import annotations

from torch import Tensor

from experiments.diagnostics.point import Point

LENGTHS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)  # lengths of the step, in units of |theta|


def descent_tags(point: Point, gradient: Tensor) -> dict[str, float]:
    """L(theta - l |theta| g / |g|) - L(theta) with hard ops, by the length l, and L(theta); only L(theta) if g is 0."""
    loss = point.hard().loss
    values, norm = {"hard_loss": loss}, float(gradient.norm())
    if norm:
        step = -gradient * (float(point.theta.norm()) / norm)
        values |= {f"descent/{length:g}": point.hard(length * step).loss - loss for length in LENGTHS}
    return values
