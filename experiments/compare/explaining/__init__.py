"""Explains why a strategy won or failed: symptoms in the curves, and sentences about them."""
