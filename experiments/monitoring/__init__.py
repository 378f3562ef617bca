"""Watches hard layers in a training loop of the user's own."""
