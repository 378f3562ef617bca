"""Quantizers of tensors, and how their scales are measured."""
