"""Ops: one hard operation a file, each with its readings."""
