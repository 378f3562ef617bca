"""Scores the strategies against exact gradients, in settings that have one: `hardgrad oracles`."""
