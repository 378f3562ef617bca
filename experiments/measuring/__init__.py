"""Measures parameters and hard layers while a model trains."""
