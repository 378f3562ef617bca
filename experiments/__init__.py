"""Experiments: data, models, the training loop, tracking and evaluation."""
