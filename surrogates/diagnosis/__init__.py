"""The parts of `surrogates.diagnose`, which finds out why a gradient is None, zero or NaN."""
