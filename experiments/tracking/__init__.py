"""Tracking: the run folder and all that is written into it."""
