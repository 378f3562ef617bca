"""Ops as plain functions, under torch's names: `surrogates.round(x, "ste")`."""
