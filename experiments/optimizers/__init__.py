"""Optimizers: torch's, with clipping and a learning-rate schedule, one a file."""
