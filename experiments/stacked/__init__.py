"""Runs that differ only in numbers, trained as one model with a leading replica axis."""
