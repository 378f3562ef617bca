"""Replaces the hard torch calls and modules of any model by ops under strategies."""
