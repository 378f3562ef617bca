"""Ops as plain functions with torch's names: `surrogates.round(x, "ste")`."""
