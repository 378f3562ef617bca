"""The jobs of a sweep: listed, launched, watched, reported."""
