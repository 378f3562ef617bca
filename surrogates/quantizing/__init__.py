"""Quantizers of tensors and their scales."""
