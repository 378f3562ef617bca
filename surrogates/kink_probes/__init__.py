"""Kinks, ties and jumps of torch operations: the points at which `surrogates.kinks` measures."""
