"""Loggers: where a run's values go besides its own files."""
