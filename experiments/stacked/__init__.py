"""The engine that trains many runs as one model, with a leading replica axis."""
