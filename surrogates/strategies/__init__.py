"""Strategies: one way of getting past a hard op a file."""
