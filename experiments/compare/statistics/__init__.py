"""Turns scores into choices, differences and intervals."""
