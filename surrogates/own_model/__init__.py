"""A model that was not written for this library: its hard torch calls and modules, replaced by ops under strategies."""
